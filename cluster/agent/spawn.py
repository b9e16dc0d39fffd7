"""Start a command of a task: in its control group, as its user, and with nothing of the keeper about it."""

import contextlib
import ctypes
import os
import signal
from typing import TYPE_CHECKING

from cluster.agent.cgroups import Group
from cluster.agent.steps import USUAL
from cluster.agent.workload import CannotStart, note, reason

if TYPE_CHECKING:  # as in records.py
    from typing import NoReturn

PR_SET_NO_NEW_PRIVS = 38


def spawn(argv: "list[str]", env: "dict[str, str]", *, output: int, user: str, group: Group) -> int:
    """Start `argv` in a process group of its own, what it says going to the handle `output`; return its pid.

    `user` is the UID:GID to run as, blank for the keeper's own. It must be this process that changes into it: any
    program of the host's would already obey the task's variables, such as LD_PRELOAD, while it is still root.
    Raises CannotStart.
    """
    said, tell = os.pipe()  # both are closed by a start that succeeds
    pid = os.fork()  # nothing else runs in a keeper of plain processes
    if pid == 0:
        _become(argv, env, output, user, group, tell)
    os.close(tell)
    with open(said, "rb") as pipe:
        fault = pipe.read().decode(errors="replace")
    if fault:
        os.waitpid(pid, 0)
        raise CannotStart(f"{argv[0]} could not be started: {fault}.")
    return pid


def _become(
    argv: "list[str]", env: "dict[str, str]", output: int, user: str, group: Group, tell: int
) -> "NoReturn":
    try:
        os.setpgid(0, 0)
        _join(group)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(output, 1)
        os.dup2(output, 2)
        if user:
            _change_user(user)
        for number in USUAL:
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, [])
        os.execve(argv[0], argv, env)
    except BaseException as error:  # whatever it is, this process must never go on as a second keeper
        os.write(tell, (reason(error) if isinstance(error, Exception) else repr(error)).encode() or b"?")
    finally:
        os._exit(127)


def _join(group: Group) -> None:
    try:
        group.join()
    except OSError as error:
        note(f"it runs outside of its control group: {reason(error)}")


def may_write(folder: str, user: str, bound: bool) -> bool:
    """Return whether `user`, a UID:GID, may write into a folder, which only its storage knows.

    Root may do everything, so it is asked by a process that has become this user. Without a GID it is the image of
    a container that says which groups there are. Where the folder is `bound` into a container, that gets at it
    whatever lies above.
    """
    if ":" not in user or os.geteuid() != 0:
        return os.access(folder, os.W_OK | os.X_OK)
    pid = os.fork()  # as in spawn
    if pid == 0:
        may = False
        try:
            with contextlib.suppress(PermissionError):
                os.chdir(folder if bound else "/")
                folder = "." if bound else folder
            _change_user(user)
            may = os.access(folder, os.W_OK | os.X_OK)
        finally:
            os._exit(0 if may else 1)
    return os.waitpid(pid, 0)[1] == 0


def _change_user(user: str) -> None:
    """Run as UID:GID from here on, without a way back, also not by a program that is marked for it."""
    uid, gid = map(int, user.split(":"))
    os.setgroups([])
    os.setresgid(gid, gid, gid)
    os.setresuid(uid, uid, uid)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
