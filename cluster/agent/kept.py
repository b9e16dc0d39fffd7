"""One instance as the agent sees it: its folder, its keeper, its log."""

import asyncio
import contextlib
import logging
import os
import shutil
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from cluster.agent import mounts, processes, records
from cluster.agent.engine import EngineAway, EngineFault, name_of, open_engine
from cluster.agent.logs import Tail
from cluster.agent.orders import Spec
from cluster.agent.protocol import HOST_RESTARTED, KEEPER_LOST
from cluster.converge import Seen

log = logging.getLogger(__name__)

ROOT = str(Path(__file__).resolve().parents[2])
# The keeper's Python starts bare: it needs the standard library and this package, and 30 ms instead of 100.
PYTHON = (sys.executable, "-I", "-S", "-X", "utf8", "-c")
CALL = "import sys; sys.path.append(sys.argv[1]); from cluster.agent.keeper import main; main(sys.argv[2])"
# With a container it calls an engine, whose client is among the installed packages.
PYTHON_WITH_PACKAGES = tuple(option for option in PYTHON if option != "-S")
RETRY_S = 5.0
LOST_GRACE_S = 5.0  # between TERM and KILL for what a dead keeper left behind
DETAIL_AT_MOST = 512
# What git may take of the agent's environment: how this host reaches others.
TOOLS = (
    *("GIT_SSL_CAINFO", "SSL_CERT_FILE", "SSL_CERT_DIR"),
    *("http_proxy", "https_proxy", "HTTPS_PROXY", "no_proxy", "NO_PROXY", "all_proxy", "ALL_PROXY"),
)


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
        self._unread = ""  # why its records cannot be read
        self._claim: dict[str, Any] | None = None
        self._spawned: int | None = None
        self._spawn_ended = False
        self._told: int | None = None  # the keeper that knows that it is to end
        self._handle: int | None = None  # pidfd of the keeper
        self._watched = (
            False  # this agent saw the keeper alive, so its pid cannot have been used again unseen
        )

    @property
    def seen(self) -> Seen:
        """What is known of it, for deciding what to do."""
        if self.exit is not None:
            return Seen.GONE
        known = self._claim is not None or self._spawned is not None or self._unread or self.lost
        return Seen.LIVE if known else Seen.PREPARED

    @property
    def failed(self) -> bool:
        """Whether its command ended badly by itself."""
        end = self.exit or {}
        return bool(end.get("by_itself")) and end.get("exit_code") != 0

    def report(self) -> dict[str, Any]:
        """Return the instance in the form of a report."""
        end = self.exit or {}
        return {
            "id": self.id,
            "phase": self.phase,
            "exit_code": end.get("exit_code"),
            "exit_signal": end.get("exit_signal"),
            "by_itself": end.get("by_itself"),
            "detail": str(end.get("detail", ""))[:DETAIL_AT_MOST],
            "cause": end.get("cause", ""),
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
        self._claim = self._claim or records.read(folder, records.CLAIM)
        keeper_ended = self._keeper_ended(boot)
        # Read after the keeper was looked at: one that ended since has left its exit record.
        self.exit = records.read(folder, records.EXIT)
        status = records.read(folder, records.STATUS) or {}
        self.commit, self.wants = str(status.get("commit", "")), ""
        if self.exit is not None:
            self.phase = "gone"
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
            self.phase = status.get("phase", "starting")
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
        self.folder.mkdir(mode=0o700, exist_ok=True)
        self.hostfile.write_text(hostfile)
        records.write(str(self.folder), records.SPEC, task)
        self._spawned = self._spawn(PYTHON_WITH_PACKAGES if task["container"] else PYTHON)
        self.watch(self._spawned, wake)

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
            self.folder.mkdir(mode=0o700, exist_ok=True)
            if not records.claim(str(self.folder), claim):
                return  # the next look sees whose claim it is
        except OSError:
            pass  # nothing can be written, so no keeper runs here either: the report alone has to do
        self._finish(detail, by_itself)

    def _finish(self, detail: str, by_itself: bool | None) -> None:
        self.exit = records.exit_record(detail=detail, by_itself=by_itself)
        self.phase, self.lost = "gone", False
        with contextlib.suppress(FileNotFoundError):
            (self.folder / records.SPEC).unlink()
        with contextlib.suppress(OSError):
            records.write(str(self.folder), records.EXIT, self.exit)

    async def bury(self) -> None:
        """End what a dead keeper left behind, TERM first, and record the end when nothing of it is found."""
        for process in self._leftovers():
            processes.send(process, signal.SIGTERM)
        deadline = time.monotonic() + LOST_GRACE_S
        # Two looks in a row: a process whose parent ends while the table is read can hide from one.
        while self._leftovers() or self._leftovers():
            if time.monotonic() >= deadline:
                processes.kill_all(self._leftovers)
            await asyncio.sleep(0.05)
        while not await asyncio.to_thread(self._remove_container):
            await asyncio.sleep(RETRY_S)
        await asyncio.to_thread(self._clear)
        self._finish(KEEPER_LOST, None)

    def _remove_container(self) -> bool:
        """Remove the container that the keeper made; return whether it is certain that there is none."""
        asked = records.read(str(self.folder), records.CONTAINER)
        try:
            if asked is not None:
                open_engine(str(asked["engine"])).remove(name_of(self.id))
        except (EngineAway, EngineFault) as fault:
            log.warning("The container of %s cannot be removed: %s.", self.id, fault)
            return False
        return True

    def _clear(self) -> None:
        """Clear away what the keeper could not: mounts, and secrets that were in use."""
        mounts.release(str(self.folder))
        shutil.rmtree(self.folder / records.PRIVATE, ignore_errors=True)

    def _leftovers(self) -> list[processes.Process]:
        everything = processes.table()
        found = {process.pid: process for process in processes.marked(self.id, everything)}
        if self._watched and self._claim is not None:
            # Also those that cleared their environment, as long as they stayed in the keeper's session.
            session = self._claim["pid"]
            found |= {p.pid: p for p in everything.values() if p.session == session and not p.dead}
        found |= {process.pid: process for process in processes.below(list(found), everything)}
        return list(found.values())


def task_of(
    spec: Spec, env: dict[str, str], root: Path, container: dict[str, Any] | None = None, user: str = ""
) -> dict[str, Any]:
    """Return what a keeper is told: commands, their whole environment, folders to make below the storage.

    `container` is from container_spec.container_task; `user` the UID:GID to run as, blank for the agent's own.
    """
    return {
        "container": container,
        "user": user,
        "command": spec.command,
        "exit_command": spec.exit_command,
        "grace_s": spec.grace_s,
        "wait_for_go": spec.wait_for_go,
        "code": spec.code,
        "data": list(spec.data),
        "prepare_s": spec.prepare_s,
        "tools": {name: os.environ[name] for name in TOOLS if name in os.environ},
        "env": env,
        "storage_root": str(root),
        "folders": [env["TAIJI_STORAGE"], env["TAIJI_TASK_DIR"]],
    }
