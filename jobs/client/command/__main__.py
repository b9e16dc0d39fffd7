"""`python -m jobs.client.command`, the same as `taiji`."""

from jobs.client.command.app import main

if __name__ == "__main__":
    main()
