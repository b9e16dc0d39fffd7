"""One instance as the agent sees it: its folder, its keeper, its log."""

import asyncio
import contextlib
import logging
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from cluster.agent import mounts, processes, records, removal
from cluster.agent.cgroups import Group
from cluster.agent.engine import EngineAway, EngineFault, is_address, name_of, open_engine
from cluster.agent.logs import Tail
from cluster.agent.protocol import HOST_RESTARTED, KEEPER_LOST
from cluster.agent.python import PYTHON, ROOT
from cluster.converge import Seen

log = logging.getLogger(__name__)

CALL = "import sys; sys.path.append(sys.argv[1]); from cluster.agent.keeper import main; main(sys.argv[2])"
# With a container it calls an engine, whose client is among the installed packages.
PYTHON_WITH_PACKAGES = tuple(option for option in PYTHON if option != "-S")
RETRY_S = 5.0
LOST_GRACE_S = 5.0  # between TERM and KILL for what a dead keeper left behind
DETAIL_AT_MOST = 512
PHASES = ("starting", "ready", "running", "ending")  # what a keeper may say of one that is not gone


class Kept:
    """An instance whose folder is on this host."""

    def __init__(self, folder: Path, log_cap: int) -> None:
        """See the instance in `folder`, which need not be there yet."""
        self.id = folder.name
        self.folder = folder
        self.tail = Tail(folder / records.LOG, log_cap)
        self.phase = "starting"
        self.exit: dict[str, Any] | None = None
        self.lost = False  # its keeper died without an exit record, and its leftovers are not ended yet
        self.leaving = False  # the platform is done with it, and the rest of its log is not sent yet
        self.commit = ""  # of the code that it runs
        self.wants = ""  # the digest of the code that its keeper waits for
        self.told: dict[str, Any] = {}  # what its keeper was told
        self._said = (self.phase, self.lost, self.commit)
        self._read = False  # its keeper has read its spec
        self._unread = ""  # why its records cannot be read
        self._claim: dict[str, Any] | None = None
        self._spawned: int | None = None
        self._spawn_ended = False
        self._told: int | None = None  # the keeper that knows that it is to end
        self._handle: int | None = None  # pidfd of the keeper
        # This agent saw the keeper alive, so its pid cannot have been used again unseen.
        self._watched = False

    @property
    def seen(self) -> Seen:
        """What is known of it, for deciding what to do."""
        if self.exit is not None:
            return Seen.GONE
        known = self._claim is not None or self._spawned is not None or self._unread or self.lost
        return Seen.LIVE if known else Seen.PREPARED

    @property
    def keeper(self) -> int | None:
        """The pid of its keeper, None where it has none any more."""
        if self.exit is not None:
            return None
        pid = (self._claim or {}).get("pid", self._spawned)
        return None if pid is None else int(pid)

    @property
    def failed(self) -> bool:
        """Whether its command ended badly by itself."""
        end = self.exit or {}
        return bool(end.get("by_itself")) and end.get("exit_code") != 0

    def report(self) -> dict[str, Any]:
        """Return the instance in the form of a report: nothing of it may stop one, whoever wrote the records."""
        end = self.exit or {}
        by_itself = end.get("by_itself")
        return {
            "id": self.id,
            "phase": self.phase,
            "exit_code": _byte(end.get("exit_code")),
            "exit_signal": _byte(end.get("exit_signal")),
            "by_itself": by_itself if isinstance(by_itself, bool) else None,
            "detail": str(end.get("detail", ""))[:DETAIL_AT_MOST],
            "cause": str(end.get("cause", "")),
            "commit": self.commit,
            "log_bytes": self.tail.end,
        }

    def look(self, boot: str) -> bool:
        """Read where the instance stands, the host running since `boot`; return whether it moved.

        What cannot be read leaves it as it was: it harms no other instance, and an unknown is not an end.
        """
        if self.exit is None:
            self._look_or_say(boot)
        before, self._said = self._said, (self.phase, self.lost, self.commit)
        return before != self._said

    def _look_or_say(self, boot: str) -> None:
        try:
            self._look(boot)
            self._unread = ""
        except OSError as error:
            if self._unread != str(error):
                self._unread = str(error)
                log.warning("Nobody knows how %s stands: %s.", self.id, error)

    def _look(self, boot: str) -> None:
        folder = str(self.folder)
        claim = self._claim or records.read(folder, records.CLAIM)
        spoilt = claim is not None and not _is_claim(claim)
        self._claim = None if spoilt else claim
        keeper_ended = self._keeper_ended(boot)
        # Read after the keeper was looked at: one that ended since has left its exit record.
        self.exit = records.read(folder, records.EXIT)
        status = records.read(folder, records.STATUS) or {}
        self.commit, self.wants = str(status.get("commit", "")), ""
        if status and not self._read:
            self._read = True
            # The keeper has its spec; ours lies there still where another agent's keeper was faster than ours.
            with contextlib.suppress(OSError):
                (self.folder / records.SPEC).unlink()
        if self.exit is not None:
            self.phase = "gone"
            self._forget_secrets()
        elif spoilt:  # by a task of the same user: who keeps it nobody knows any more
            self.lost, self.phase = True, "ending"
        elif self._claim is None:
            if keeper_ended:
                self.void(f"The keeper could not start: {self._last_words()}", by_itself=True)
        elif "void" in self._claim:
            self._finish(self._claim["void"], self._claim["by_itself"])
        elif self._claim["boot"] != boot:
            self._finish(HOST_RESTARTED, None)
        elif keeper_ended:
            self.lost, self.phase = True, "ending"
        else:
            self.phase = said if (said := status.get("phase")) in PHASES else "starting"
            self.wants = str(status.get("wants", ""))

    def _keeper_ended(self, boot: str) -> bool:
        if self._claim is not None and "pid" in self._claim:
            keeper = processes.find(self._claim["pid"]) if self._claim["boot"] == boot else None
            if keeper is not None and keeper.start != self._claim["start"]:
                return True
        elif self._spawned is None or self._spawn_ended:
            return self._spawn_ended
        else:
            keeper = processes.find(self._spawned)
        if keeper is None or keeper.dead:
            return True
        if keeper.stopped:
            # It never stops itself: what it keeps did that, and while it stands still nothing ever ends.
            processes.send(keeper, signal.SIGCONT)
        return False

    def _last_words(self) -> str:
        try:
            lines = (self.folder / records.KEEPER_LOG).read_text(errors="replace").split("\n")
        except OSError as error:
            return str(error)
        return next((line.strip() for line in reversed(lines) if line.strip()), "it said nothing") + "."

    def start(self, task: dict[str, Any], hostfile: str, wake: Callable[[], None]) -> None:
        """Make the folder, and start a keeper for `task`; raises OSError, and then nothing was started."""
        self._make_folder()
        self.hostfile.write_text(hostfile)
        records.write(str(self.folder), records.SPEC, task)
        self._spawned = self._spawn(PYTHON_WITH_PACKAGES if task["container"] else PYTHON)
        self.watch(self._spawned, wake)

    def _make_folder(self) -> None:
        records.insist(lambda: self.folder.mkdir(mode=0o700, exist_ok=True), str(self.folder.parent))

    @property
    def hostfile(self) -> Path:
        """Where the host file of the gang lies."""
        return self.folder / "hosts"

    def _spawn(self, python: tuple[str, ...]) -> int:
        words = os.open(self.folder / records.KEEPER_LOG, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            return os.posix_spawn(
                sys.executable,
                [*python, CALL, ROOT, str(self.folder)],
                {"PATH": os.environ.get("PATH", os.defpath)},
                file_actions=[
                    (os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0),
                    (os.POSIX_SPAWN_DUP2, words, 1),
                    (os.POSIX_SPAWN_DUP2, words, 2),
                ],
                setsid=True,
                # Blocked from its first instruction on: an order to end never meets a keeper unprepared.
                setsigmask=[signal.SIGTERM, signal.SIGCHLD, signal.SIGUSR1],
                setsigdef=[signal.SIGPIPE],
            )
        finally:
            os.close(words)

    def attach(self, wake: Callable[[], None]) -> None:
        """Watch the keeper of an instance that an earlier agent started."""
        if self.seen is Seen.LIVE and not self.lost and self._claim is not None:
            self.watch(self._claim["pid"], wake)

    def watch(self, pid: int, wake: Callable[[], None]) -> None:
        """Call `wake` when the keeper ends; where the kernel has no pidfd the next look finds out."""
        self._watched = True
        with contextlib.suppress(OSError):
            self._handle = os.pidfd_open(pid)
            asyncio.get_running_loop().add_reader(self._handle, self._reap, pid, wake)

    def _reap(self, pid: int, wake: Callable[[], None]) -> None:
        if self._handle is not None:
            asyncio.get_running_loop().remove_reader(self._handle)
            os.close(self._handle)
            self._handle = None
        self._spawn_ended = pid == self._spawned
        with contextlib.suppress(ChildProcessError):  # an earlier agent's child
            os.waitpid(pid, os.WNOHANG)
        wake()

    def stop(self) -> None:
        """Tell the keeper, once, to end the instance; telling it again would change nothing."""
        keeper = processes.find(self._claim["pid"] if self._claim is not None else self._spawned or 0)
        if keeper is None or keeper.pid == self._told:
            return
        if self._claim is not None:
            if keeper.start != self._claim["start"]:
                return
            self._told = keeper.pid
        elif keeper.parent != os.getpid():
            return
        processes.send(keeper, signal.SIGTERM)

    def go(self) -> None:
        """Tell the keeper that the whole gang is ready, if it waits for that; telling it again changes nothing."""
        keeper = (
            processes.find(self._claim["pid"]) if self.phase == "ready" and self._claim is not None else None
        )
        if keeper is not None and self._claim is not None and keeper.start == self._claim["start"]:
            processes.send(keeper, signal.SIGUSR1)

    def tell(self, **words: str) -> None:
        """Tell the keeper what it asked for in its status; telling it again changes nothing."""
        if self.phase != "starting" or self._claim is None or words.items() <= self.told.items():
            return
        try:
            records.write(str(self.folder), records.TOLD, {**self.told, **words})
        except OSError as error:
            log.warning("%s cannot be told: %s", self.folder, error.strerror or error)
            return
        self.told |= words

    def find_lost(self) -> bool:
        """Take it for lost if it runs although its records are gone; return whether it does."""
        self.lost = bool(self._leftovers())
        return self.lost

    def void(self, detail: str, by_itself: bool) -> None:
        """Record that the instance never started, unless a keeper was faster."""
        claim = {"boot": processes.boot_id(), "void": detail, "by_itself": by_itself}
        try:
            self._make_folder()
            if not records.claim(str(self.folder), claim):
                return  # the next look sees whose claim it is
        except OSError:
            pass  # nothing can be written, so no keeper runs here either: the report alone has to do
        self._finish(detail, by_itself)

    def _finish(self, detail: str, by_itself: bool | None) -> None:
        self.exit = records.exit_record(detail=detail, by_itself=by_itself)
        self.phase, self.lost = "gone", False
        self._forget_secrets()
        with contextlib.suppress(OSError):
            records.write(str(self.folder), records.EXIT, self.exit)

    def _forget_secrets(self) -> None:
        """Remove what only a keeper that starts the instance needs."""
        with contextlib.suppress(OSError):
            (self.folder / records.SPEC).unlink()
        removal.remove(str(self.folder / records.PRIVATE))

    async def bury(self) -> None:
        """End what a dead keeper left behind, TERM first, and record the end when nothing of it is found."""
        group = self._group()
        for process in self._leftovers():
            processes.send(process, signal.SIGTERM)
        deadline = time.monotonic() + LOST_GRACE_S
        # Two looks in a row: a process whose parent ends while the table is read can hide from one. In a control
        # group none can: the kernel lists it as long as anybody is in there.
        while await asyncio.to_thread(lambda: self._leftovers() or self._leftovers() or group.members()):
            if time.monotonic() >= deadline:
                group.seal()
                await asyncio.to_thread(processes.kill_all, self._leftovers)
            await asyncio.sleep(0.05)
        while not await asyncio.to_thread(self._remove_container):
            await asyncio.sleep(RETRY_S)
        await asyncio.to_thread(self._clear)
        self._finish(KEEPER_LOST, None)

    @property
    def engine(self) -> str:
        """The address of the engine that was asked for a container; blank: none was, or a task spoilt the record."""
        asked = records.read(str(self.folder), records.CONTAINER) or {}
        return address if is_address(address := str(asked.get("engine", ""))) else ""

    def _remove_container(self) -> bool:
        """Remove the container that the keeper made; return whether it is certain that there is none."""
        try:
            if self.engine:
                open_engine(self.engine).remove(name_of(self.id))
        except (EngineAway, EngineFault) as fault:
            log.warning("The container of %s cannot be removed: %s.", self.id, fault)
            return False
        return True

    def _clear(self) -> None:
        """Clear away what the keeper could not: mounts, its control group, and secrets that were in use."""
        mounts.release(str(self.folder))
        self._group().remove()

    def _group(self) -> Group:
        return group_of(self.folder, self.id)

    def _leftovers(self) -> list[processes.Process]:
        everything = processes.table()
        found = {process.pid: process for process in processes.marked(self.id, everything)}
        found |= {process.pid: process for process in self._group().processes()}
        if self._watched and self._claim is not None:
            # Also those that cleared their environment, as long as they stayed in the keeper's session.
            session = self._claim["pid"]
            found |= {p.pid: p for p in everything.values() if p.session == session and not p.dead}
        found |= {process.pid: process for process in processes.below(list(found), everything)}
        return list(found.values())


def group_of(folder: Path, instance: str) -> Group:
    """Return the control group that the keeper in `folder` made, one that holds nobody where it made none."""
    found = records.read(str(folder), records.GROUPS) or {}
    return Group({name: str(parent) for name, parent in found.items()}, instance)


def _is_claim(record: dict[str, Any]) -> bool:
    """Return whether a record says who may run the instance, or that nobody may, as claims of ours do."""
    if not isinstance(record.get("boot"), str):
        return False
    kept = all(type(record.get(name)) is int for name in ("pid", "start"))
    return kept or (isinstance(record.get("void"), str) and "by_itself" in record)


def _byte(value: object) -> int | None:
    """Return what can be an exit code or a signal, None for anything else."""
    return value if type(value) is int and 0 <= value <= 255 else None
