"""Run the programs that bring code and data, one after the other: bounded in time, and ended at an order."""

import os
import signal
import time
from typing import TYPE_CHECKING

from cluster.agent import processes
from cluster.agent.workload import reason

if TYPE_CHECKING:  # as in records.py
    from collections.abc import Callable

LOOK_S = 0.05
WORD_S = 20.0  # between two lines of a step that takes long
OUTPUT_AT_MOST = 2**16  # bytes of what a program said that are looked at
NOT_WRITTEN = "It could not be written"  # how bundle.py begins where the fault is the disk's, not the code's
# Where programs of the system lie, also where the agent was started with less.
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
# What a program is started with is inherited: the keeper's would have it ignore SIGINT, SIGHUP and SIGPIPE.
USUAL = signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}


class Cancelled(Exception):
    """The end was ordered meanwhile; what was being done has ended."""


class TooLong(Exception):
    """The time is over; what was being done has ended."""


class Failed(Exception):
    """A program ended badly; the message is what it said."""

    @property
    def last(self) -> str:
        """Return its last line, not too long for a sentence."""
        return (str(self).splitlines() or ["it said nothing"])[-1][:200]


class Steps:
    """The programs of one preparation."""

    def __init__(
        self, folder: str, seconds: float, ordered: "Callable[[], bool]", tell: "Callable[[str], None]"
    ) -> None:
        """Keep in `folder` what they say; together they may take so many seconds, or until `ordered`."""
        self._words = os.path.join(folder, "step.txt")
        self._until = time.monotonic() + seconds
        self._ordered = ordered
        self._tell = tell
        self._doing = ""
        self._since = self._said_at = time.monotonic()

    def say(self, doing: str) -> None:
        """Tell what is done now."""
        self._tell(doing)
        self._doing, self._since = doing, time.monotonic()
        self._said_at = self._since

    def check(self) -> None:
        """Raise Cancelled or TooLong where it is time to end; tell now and then that it still goes on."""
        if self._ordered():
            raise Cancelled
        now = time.monotonic()
        if now >= self._until:
            raise TooLong
        if now >= self._said_at + WORD_S:
            self._tell(f"{self._doing}, for {now - self._since:.0f} s now")
            self._said_at = now

    def wait(self, seconds: float = LOOK_S) -> None:
        """Let a moment pass; raises Cancelled or TooLong."""
        self.check()
        time.sleep(seconds)

    def run(
        self, command: "list[str]", env: "dict[str, str]", watch: "Callable[[], None] | None" = None
    ) -> str:
        """Return what `command` said; raises Failed, Cancelled, TooLong, and then nothing of it is left.

        `watch` is called while it works; what it raises ends the command too.
        """
        self.check()
        pid = self._spawn(command, env)
        try:
            while True:
                ended, status = os.waitpid(pid, os.WNOHANG)
                if ended:
                    break
                self.check()
                if watch is not None:
                    watch()
                signal.sigtimedwait({signal.SIGCHLD}, LOOK_S)
        except Exception:
            _kill(pid)
            raise
        finally:
            _reap()
        said = self._said()
        if status:
            raise Failed(said)
        return said

    def _spawn(self, command: "list[str]", env: "dict[str, str]") -> int:
        program = find(command[0], env.get("PATH", ""))
        if program is None:
            raise Failed(f"{command[0]}: not found")
        words = os.open(self._words, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            return os.posix_spawn(
                program,
                command,
                env,
                file_actions=[
                    (os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0),
                    (os.POSIX_SPAWN_DUP2, words, 1),
                    (os.POSIX_SPAWN_DUP2, words, 2),
                ],
                setpgroup=0,
                setsigmask=[],
                setsigdef=USUAL,
            )
        except OSError as error:
            raise Failed(f"{command[0]}: {reason(error)}") from error
        finally:
            os.close(words)

    def _said(self) -> str:
        with open(self._words, "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - OUTPUT_AT_MOST))
            said = file.read().decode(errors="replace")
        os.unlink(self._words)
        return said.strip()


def find(program: str, path: str) -> str | None:
    """Return where `program` lies on `path` or among the system's own, None where it is not there."""
    for folder in f"{path}:{PATH}".split(":"):
        place = os.path.join(folder, program)
        if folder and os.path.isfile(place) and os.access(place, os.X_OK):
            return place
    return None


def _kill(pid: int) -> None:
    """End the program and all that it started: they are the keeper's only descendants."""

    def left() -> list[processes.Process]:
        return processes.below([os.getpid()], processes.table())

    processes.kill_all(left)
    while left():
        processes.kill_all(left)
        _reap()
        time.sleep(0.01)


def _reap() -> None:
    """Take the exit statuses of those that ended and were left to the keeper."""
    while True:
        try:
            pid, _status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
