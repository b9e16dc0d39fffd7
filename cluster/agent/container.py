"""A workload in a container: the engine makes and removes it, the kernel tells when it has ended.

Once it runs the engine is not needed: the container's first process is watched by its pid, signals go there
directly, and how the command ended is written by the shell that ran it. So an engine that is restarted or gone
meanwhile changes nothing. With the first process all others of its pid namespace are dead: the kernel sees to
that before it lets it go.
"""

import os
import select
import signal
import threading
import time
from collections.abc import Callable
from typing import Any

from cluster.agent import engine, processes, records
from cluster.agent.engine import INSIDE, Credentials, Engine, EngineAway, EngineFault, Mount, NewContainer
from cluster.agent.workload import SHELL, CannotStart, hand_over, note, open_log, reason, say

STATE = "state"  # folder of the words that the shell in the container leaves
BY_EXIT_COMMAND = "TAIJI_EXIT_COMMAND"  # marks the exit command's processes, which are spared the TERM
ROOT = "0:0"
SEEN_S = 5.0  # until the first process that the engine names is seen among this host's
START_S = 60.0  # from the container's start until its shell has said that it runs
LOOK_S = 0.02
RETRY_S = 1.0
REMOVE_S = 20.0  # longer than an engine takes that works; else the agent sees to it
KILL_S = 5.0  # until it is looked again whether all are dead
EXIT_COMMAND_PART = 1 / 3  # of the grace, until an engine has started it; the rest is for TERM

# The first process. It stays beside the command, because the kernel spares the first process of a pid namespace
# signals that it has no handler for, and because somebody has to take the exit statuses of orphans.
FIRST = f"""\
exec >>{INSIDE}/log 2>&1 </dev/null
missing=
for device in $2; do [ -c "$device" ] || missing="$missing $device"; done
if [ "$missing" ]; then echo "$missing" >{INSIDE}/{STATE}/missing; exit 1; fi
: >{INSIDE}/{STATE}/started
{SHELL} -c "$1"
status=$?
for file in /sys/fs/cgroup/memory.events /sys/fs/cgroup/memory/memory.oom_control; do
    if [ -r "$file" ]; then
        while read -r name count; do
            if [ "$name" = oom_kill ]; then echo "$count" >{INSIDE}/{STATE}/oom; fi
        done <"$file"
    fi
done
echo "$status" >{INSIDE}/{STATE}/status
exit "$status"
"""
BESIDE = f"""\
exec >>{INSIDE}/log 2>&1 </dev/null
{SHELL} -c "$1"
: >{INSIDE}/{STATE}/exit-command
"""
IDLE = "exec sleep 2147483647"  # 68 years


class Container:
    """The container of one instance."""

    def __init__(self, folder: str, spec: dict[str, Any]) -> None:
        """Run in a container what `spec` says."""
        self.folder = folder
        self.instance = os.path.basename(folder)
        self.name = engine.name_of(self.instance)
        self.spec = spec
        self.wanted: dict[str, Any] = spec["container"]
        self.state = os.path.join(folder, STATE)
        self.asked = False  # the engine may have made the container …
        self.begun = False  # … and started it
        self.first: processes.Process | None = None  # its first process, None: it was not seen alive
        self.engine: Engine | None = None
        self.killed = self.told = False
        self.data: list[tuple[str, str]] = []  # the task's own data: path on the host, path in the container

    def prepare(self, ordered: Callable[[], bool]) -> None:
        """Bring the image, within a time of its own; raises CannotStart with the cause `image`."""
        image = self.wanted["image"]
        try:
            self.engine = engine.open_engine(self.wanted["engine"])
            if not self._is_up_to_date(image):
                self._pull(image, ordered)
        except EngineFault as fault:
            raise CannotStart(f"The image {image} cannot be had: {fault}.", "image") from fault
        except EngineAway as fault:
            raise CannotStart(f"This host's container engine does not answer: {fault}.") from fault
        finally:
            self.wanted["registry"] = None

    def bind(self, binds: list[tuple[str, str]]) -> None:
        """Show the task its own data."""
        self.data = binds

    def _is_up_to_date(self, image: str) -> bool:
        # As Kubernetes does it: a name that says `latest` means what is there now, any other always the same.
        moves = not engine.tagged(image) or image.endswith(":latest")
        return not moves and self._works.has_image(image)

    @property
    def _works(self) -> Engine:
        if self.engine is None:
            raise CannotStart("There is no container engine.")
        return self.engine

    def _pull(self, image: str, ordered: Callable[[], bool]) -> None:
        """Pull in a thread: whatever it does, the order to end and the time limit are heard."""
        given = self.wanted["registry"]
        credentials = Credentials(username=given["username"], password=given["password"]) if given else None
        pull = _Pull(self._works, image, credentials, self._say)
        pull.start()
        limit_s = float(self.wanted["pull_timeout_s"])
        until = time.monotonic() + limit_s
        while pull.is_alive():
            if ordered():
                return  # the thread ends with the keeper, and the engine sees that nobody listens any more
            if time.monotonic() >= until:
                raise CannotStart(f"The image {image} was not here within {limit_s:g} s.", "image")
            pull.join(LOOK_S)
        if pull.fault is not None:
            raise pull.fault

    def _say(self, words: str) -> None:
        say(self.folder, words)

    def _log(self) -> str:
        os.close(open_log(self.folder))
        return os.path.join(self.folder, records.LOG)

    def start(self) -> None:
        """Make and start the container; raises CannotStart, and then nothing of it is left."""
        try:
            self._make_state()
            records.write(self.folder, records.CONTAINER, {"engine": self.wanted["engine"]})
            self.asked = True
            self._works.create(self._new())
            self.begun = True
            self._works.start(self.name)
            self._watch(self._works.pid(self.name))
            self._wait_for_shell()
        except (EngineFault, EngineAway, OSError) as fault:
            self._undo()
            raise CannotStart(f"The container could not be started: {fault}.") from fault
        except CannotStart:
            self._undo()
            raise

    def _make_state(self) -> None:
        """Make what the container may write, for the user that it runs as."""
        os.makedirs(self.state, 0o700, exist_ok=True)
        hand_over(self.state, self.spec["user"])
        hand_over(self._log(), self.spec["user"])

    def _new(self) -> NewContainer:
        command = IDLE if self.spec["command"] is None else self.spec["command"]
        devices = " ".join([*self.wanted["devices"], *self.wanted["besides"]])
        storage = self.spec["env"]["TAIJI_STORAGE"]
        user = self._user()
        return NewContainer(
            name=self.name,
            labels={engine.LABEL: self.instance, engine.OWNER: self.wanted["owner"]},
            image=self.wanted["image"],
            argv=(SHELL, "-c", FIRST, SHELL, command, devices),
            env=({} if user == ROOT else {"HOME": f"{INSIDE}/{records.WORK}"}) | self.spec["env"],
            mounts=(
                Mount(source=self._log(), target=f"{INSIDE}/log"),
                Mount(source=self.state, target=f"{INSIDE}/{STATE}"),
                Mount(source=os.path.join(self.folder, records.WORK), target=f"{INSIDE}/{records.WORK}"),
                Mount(source=os.path.join(self.folder, "hosts"), target=f"{INSIDE}/hosts", read_only=True),
                Mount(source=storage, target=storage),
                *(Mount(source=source, target=target) for source, target in self.data),
            ),
            work_dir=f"{INSIDE}/{records.WORK}",
            user=user,
            gpus=tuple(self.wanted["gpus"]),
            devices=tuple(self.wanted["besides"]),
            **{name: self.wanted[name] for name in LIMITS},
        )

    def _user(self) -> str:
        """Return the UID:GID in the container that is the owner of the task's files on the host."""
        if self.spec["user"]:
            return str(self.spec["user"])
        # The agent's own: root only where the operator allowed that, or where it is none outside.
        if os.geteuid() == 0 or self._works.is_rootless():
            return ROOT
        return f"{os.geteuid()}:{os.getegid()}"

    def _watch(self, pid: int) -> None:
        """Have the keeper woken by SIGCHLD, as by a child, when the first process ends."""
        until = time.monotonic() + SEEN_S
        while pid and not self._said("status"):  # an engine may name one that has just ended
            first = processes.find(pid)
            # An engine of another machine may name what is somebody else's here: that is never to be ended.
            if first is not None and processes.may_be_of(self.instance, first):
                self.first = first
                threading.Thread(target=_wake_at_end, args=(first,), daemon=True).start()
                return
            if time.monotonic() >= until:
                what = f"there is no pid {pid}" if first is None else f"pid {pid} is another's"
                raise EngineFault(f"the engine's processes are not among this host's ({what})")
            time.sleep(LOOK_S)
            pid = self._works.pid(self.name)

    def _wait_for_shell(self) -> None:
        until = time.monotonic() + START_S
        while not self._said("started"):
            if self.ended():
                if self._said("started"):
                    return
                if missing := self._said("missing"):
                    raise self._without(missing.split())
                raise CannotStart(f"{SHELL} in the container ended at once.", "image")
            if time.monotonic() >= until:
                raise CannotStart(f"{SHELL} in the container did not run within {START_S:g} s.", "image")
            time.sleep(LOOK_S / 4)

    def _without(self, missing: list[str]) -> CannotStart:
        """Say which of its devices the container did not get, and whose they are."""
        if cards := [device for device in missing if device in self.wanted["devices"]]:
            return CannotStart(
                f"The container did not get its cards: {' '.join(cards)} is not there.", "card"
            )
        named = " ".join(missing)
        return CannotStart(f"The container did not get the devices of this host's --devices: {named}.")

    def _undo(self) -> None:
        """Remove the container, for as long as it takes: until then it may run."""
        while True:
            try:
                if self.asked:
                    self._works.remove(self.name)
                self.asked = self.begun = False
                return
            except (EngineFault, EngineAway) as fault:
                note(f"the container is not removed: {fault}")
                self.kill()
                time.sleep(RETRY_S)

    def ended(self) -> bool:
        """Return whether the start command has ended: the first process ends after it."""
        first = self.first
        return self.begun and (first is None or not processes.alive(first.pid, first.start))

    def run_exit_command(self) -> bool:
        """Start the exit command in the container."""
        argv = (SHELL, "-c", BESIDE, SHELL, self.spec["exit_command"])
        limit_s = float(self.spec["grace_s"]) * EXIT_COMMAND_PART
        try:
            engine.within(limit_s, lambda: self._works.execute(self.name, argv, {BY_EXIT_COMMAND: "1"}))
        except (EngineFault, EngineAway) as fault:
            note(f"exit command: {fault}")
            return False
        return True

    def exit_command_ended(self) -> bool:
        """Return whether the exit command has ended, or everything has."""
        return os.path.lexists(os.path.join(self.state, "exit-command")) or self.ended()

    def terminate(self) -> None:
        """TERM every process in the container but the first and the exit command's."""
        self.told |= not self.ended()
        spared = {process.pid for process in processes.carrying(f"{BY_EXIT_COMMAND}=1", self._living())}
        for process in self._living():
            if process.pid not in spared and (self.first is None or process.pid != self.first.pid):
                processes.send(process, signal.SIGTERM)

    def kill(self) -> None:
        """KILL everything, by the engine where the agent's user may not do it."""
        self.killed |= not self.ended()
        processes.kill_all(self._living)
        if os.geteuid() != 0:
            try:
                engine.within(KILL_S, lambda: self._works.kill(self.name))
            except (EngineFault, EngineAway) as fault:
                note(f"not killed: {fault}")

    def _living(self) -> list[processes.Process]:
        everything = processes.table()
        found = {process.pid: process for process in processes.marked(self.instance, everything)}
        if self.first is not None and not self.ended():
            found[self.first.pid] = self.first
            found |= {process.pid: process for process in processes.below([self.first.pid], everything)}
        return list(found.values())

    def gone(self) -> bool:
        """Return whether the first process is dead, which is the last one to die, and nobody carries the mark."""
        at_rest = not self.begun or self.ended()
        return at_rest and not processes.marked(self.instance, processes.table())

    def status(self) -> tuple[int | None, int | None]:
        """Return how the command ended; as a shell says it, 128 and more also where a signal ended it."""
        if self.spec["command"] is None or not self._said("started"):
            return None, None
        said = self._said("status")
        if said.isdecimal() and int(said) <= 255:  # the task may write there too: no other number is a code
            return int(said), None
        return None, signal.SIGKILL  # the shell itself was killed: else it would have written

    def clear(self) -> dict[str, Any]:
        """Remove the container; say whether memory ran out."""
        cause = self._cause()
        until = time.monotonic() + REMOVE_S
        while self.asked:
            try:
                engine.within(REMOVE_S, lambda: self._works.remove(self.name))
                break
            except (EngineFault, EngineAway) as fault:
                note(f"the container is not removed: {fault}")
                if time.monotonic() >= until:
                    break  # the agent removes it once the engine is back
                time.sleep(RETRY_S)
        return {"cause": cause} if cause else {}

    def _cause(self) -> str:
        if self.told or self.killed or not self._said("started"):
            return ""
        code, number = self.status()
        if self._said("oom") not in {"", "0"} and (code, number) != (0, None):
            return "oom"
        return "maybe_oom" if number == signal.SIGKILL or code == 128 + signal.SIGKILL else ""

    def _said(self, word: str) -> str:
        """Return what the shell in the container wrote under `word`, "yes" for an empty file, "" for none.

        The task may write there too, so that nothing but a small plain file is read.
        """
        try:
            handle = os.open(os.path.join(self.state, word), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        except OSError:
            return ""
        try:
            return os.read(handle, 512).decode(errors="replace").strip() or "yes"
        except OSError:
            return ""
        finally:
            os.close(handle)


LIMITS = ("memory_mib", "cpus", "shm_mib", "pids", "network", "read_only")


class _Pull(threading.Thread):
    """One image on its way."""

    def __init__(
        self, works: Engine, image: str, credentials: Credentials | None, say: Callable[[str], None]
    ) -> None:
        super().__init__(daemon=True)
        self._works = works
        self._image = image
        self._credentials = credentials
        self._tell = say
        self.fault: EngineFault | EngineAway | None = None

    def run(self) -> None:
        """Pull; say each kind of step once, not every percent of it."""
        self._tell(f"pulling {self._image}")
        said = set()
        try:
            for words in self._works.pull(self._image, self._credentials):
                if words not in said:
                    said.add(words)
                    self._tell(words)
        except (EngineFault, EngineAway) as fault:
            self.fault = fault
        except Exception as error:  # a thread that only died would look like an image that is here
            self.fault = EngineFault(f"the pull broke off: {reason(error)}")


def _wake_at_end(first: processes.Process) -> None:
    try:
        handle = os.pidfd_open(first.pid)
    except OSError:  # it has ended, or Linux is older than 5.3
        while processes.alive(first.pid, first.start):
            time.sleep(LOOK_S)
    else:
        poll = select.poll()
        poll.register(handle, select.POLLIN)
        poll.poll()
        os.close(handle)
    os.kill(os.getpid(), signal.SIGCHLD)
