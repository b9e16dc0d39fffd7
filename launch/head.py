"""Turn this process into the group's supervisor, which holds the group's lock as descriptor 3."""

import os
import sys

from launch.member import end_with_parent

if __name__ == "__main__":
    lock, tied, *command = sys.argv[1:]
    if tied == "tied":
        end_with_parent()
    # supervisord keeps the descriptors below 5 and closes them in its children.
    os.dup2(int(lock), 3, inheritable=True)
    os.ftruncate(3, 0)
    os.pwrite(3, f"{os.getpid()}\n".encode(), 0)
    os.execv(command[0], command)
