"""The `taiji` command."""
