"""What a keeper keeps: a tree of plain processes, or a container; the keeper's protocol is the same for both."""

import os
import re
import sys
from collections import deque
from typing import TYPE_CHECKING

from cluster.agent import records

if TYPE_CHECKING:  # as in records.py
    from collections.abc import Callable
    from typing import Any, Protocol

    class Workload(Protocol):
        """One start command and all that comes of it, on this host."""

        def prepare(self, ordered: "Callable[[], bool]") -> None:
            """Bring what the start needs, such as an image, until `ordered` says to end; raises CannotStart."""

        def bind(self, binds: "list[tuple[str, str]]") -> None:
            """Show the task its own data: path on the host, path where the task looks for it."""

        def start(self) -> None:
            """Start the command; raises CannotStart, and then nothing runs."""

        def ended(self) -> bool:
            """Return whether the start command has ended; an idle member's never does."""

        def run_exit_command(self) -> bool:
            """Start the exit command beside what runs; return whether it was started."""

        def exit_command_ended(self) -> bool:
            """Return whether the exit command that was started has ended."""

        def terminate(self) -> None:
            """TERM everything but an exit command that is still at work."""

        def kill(self) -> None:
            """KILL everything; to be repeated until it is gone."""

        def gone(self) -> bool:
            """Return whether it is certain that nothing is left; what cannot be known is not gone."""

        def status(self) -> "tuple[int | None, int | None]":
            """Return (exit code, None) or (None, signal) of the start command; (None, None): it has none."""

        def clear(self) -> "dict[str, Any]":
            """Clear away what is left on the disk of one that is gone; return what else its exit record says."""


SHELL = "/bin/sh"  # runs the commands of tasks, on the host and in containers
_noted: "deque[str]" = deque(maxlen=32)


class CannotStart(Exception):
    """The command was not started; the message says why in one sentence, `cause` in a word of protocol.py."""

    def __init__(self, sentence: str, cause: str = "") -> None:
        """Keep the cause, blank where no word of protocol.CAUSES says more than the sentence."""
        super().__init__(sentence)
        self.cause = cause


def hand_over(path: str, user: str) -> None:
    """Give a file, or a folder and all in it, to `user`, a UID:GID; blank: it stays the agent's."""
    if not user or os.geteuid() != 0:
        return
    uid, _, gid = user.partition(":")
    owner = int(uid), int(gid or uid)
    # By handles, and the folder itself last: others of this user could put a link to elsewhere in a folder's place.
    for _folder, folders, files, handle in os.fwalk(path, topdown=False):
        for name in folders + files:
            os.chown(name, *owner, dir_fd=handle, follow_symlinks=False)
    os.chown(path, *owner, follow_symlinks=False)


def open_log(folder: str) -> int:
    """Return a handle with which the log of the instance in `folder` is appended to; raises OSError."""
    path, flags = os.path.join(folder, records.LOG), os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
    return records.insist(lambda: os.open(path, flags, 0o600), folder)


def say(folder: str, words: str) -> None:
    """Write a line of ours into the log of the instance in `folder`; on a full disk it goes without."""
    try:
        with open(open_log(folder), "ab", buffering=0) as file:
            file.write(f"[taiji] {words}\n".encode(errors="replace"))
    except OSError as error:
        note(f"log not written: {reason(error)}")


def note(sentence: str) -> None:
    """Say something to whoever looks for a fault; nobody may be able to listen.

    What is tried again and again is said once: it goes into a file of the host's, for as long as a fault lasts.
    """
    words = re.sub("0x[0-9a-f]+", "", sentence)  # the same fault is another object each time
    if words in _noted:
        return
    _noted.append(words)
    try:
        print(sentence, file=sys.stderr, flush=True)
    except OSError:
        return


def reason(error: Exception) -> str:
    """Return what an error says, without Python's dressing."""
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


def split(status: int) -> "tuple[int | None, int | None]":
    """Return a wait status as (exit code, None) or (None, signal)."""
    code = os.waitstatus_to_exitcode(status)
    return (code, None) if code >= 0 else (None, -code)
