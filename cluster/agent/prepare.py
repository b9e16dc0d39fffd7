"""Bring the code and the data of an instance before its command starts, and clear away what that needed."""

import os
import shlex
import shutil
import stat
from typing import TYPE_CHECKING

from cluster.agent import processes, records
from cluster.agent.git import Git
from cluster.agent.mounts import Mounts
from cluster.agent.python import PYTHON, ROOT
from cluster.agent.steps import NOT_WRITTEN, Cancelled, Failed, Steps, TooLong
from cluster.agent.workload import CannotStart, reason, say

if TYPE_CHECKING:  # as in records.py
    from collections.abc import Callable
    from typing import Any

PREPARE_S = 840.0  # where the spec does not say how long it may take
UNPACK = "import sys; sys.path.append(sys.argv[1]); from cluster.agent.bundle import main; main(sys.argv[2:])"


class Preparation:
    """What one instance needs before it starts.

    The keeper asks its agent for what only the platform has: what it writes into its status the agent reads, and
    what the agent then writes into the record TOLD is read here. Both may be killed in between.
    """

    def __init__(
        self,
        folder: str,
        spec: "dict[str, Any]",
        ordered: "Callable[[], bool]",
        record: "Callable[[], bool]",
    ) -> None:
        """Prepare the instance in `folder` until `ordered`.

        `record` writes its status, `facts` included, and returns whether that could be done.
        """
        self.facts: dict[str, Any] = {}  # what the status, and in the end the exit record, say besides
        self._folder = folder
        self._spec = spec
        self._ordered = ordered
        self._record = record
        self._private = os.path.join(folder, records.PRIVATE)
        self._env = {
            **(spec.get("tools") or {}),
            "PATH": os.environ.get("PATH", os.defpath),
            processes.MARK: os.path.basename(folder),
        }
        self._mounts = Mounts(folder, self._private, self._env, contained=bool(spec.get("container")))

    @property
    def binds(self) -> list[tuple[str, str]]:
        """Return what a container has to bind besides: (path on the host, path in it)."""
        return list(self._mounts.binds)

    def bring(self) -> None:
        """Bring code into the present folder and mount data; raises CannotStart.

        Where the end is ordered meanwhile it returns early, with nothing of it left running.
        """
        limit_s = float(self._spec.get("prepare_s") or PREPARE_S)
        cause = "code"
        try:
            os.mkdir(self._private, 0o700)
            steps = Steps(self._private, limit_s, self._ordered, self._say)
            if self._spec.get("code"):
                self._bring_code(self._spec["code"], steps)
            self._choose_command()
            cause = "data"
            if self._spec.get("data"):
                self._bring_data(self._spec["data"], steps)
        except Cancelled:
            self._say("stopped before it started")
        except TooLong as late:
            raise CannotStart(f"The {cause} was not there within {limit_s:.0f} s.", f"{cause}_away") from late
        except OSError as error:
            raise CannotStart(
                f"The {cause} could not be brought: {reason(error)}.", f"{cause}_away"
            ) from error
        finally:
            shutil.rmtree(self._private, ignore_errors=True)

    def clear(self) -> None:
        """Clear away what outlives the instance: mounts."""
        self._mounts.clear()

    def _bring_code(self, code: "dict[str, Any]", steps: Steps) -> None:
        if code["kind"] == "git":
            self._fetch(code, steps)
        else:
            self._unpack(code, steps)

    def _fetch(self, code: "dict[str, Any]", steps: Steps) -> None:
        wanted = str(code.get("commit") or "")
        if not wanted and code.get("follow"):
            steps.say("waiting for the first member of the gang to choose the commit")
            wanted = self._agreed_commit(steps)
        commit = Git(code, self._private, steps, self._env).fetch(wanted)
        self.facts["commit"] = commit
        self._tell(steps)
        steps.say(f"the code is commit {commit}")

    def _agreed_commit(self, steps: Steps) -> str:
        """Return the commit that the first member chose; that this takes long is no fault of this host."""
        try:
            return str(self._answer("commit", steps))
        except TooLong as late:
            said = "The first member of the gang did not say in time which commit it runs."
            raise CannotStart(said, "waited") from late

    def _unpack(self, code: "dict[str, Any]", steps: Steps) -> None:
        steps.say(f"waiting for the code sha256:{code['digest']}")
        self.facts["wants"] = code["digest"]
        self._tell(steps)
        archive = str(self._answer("bundle", steps))
        steps.say("unpacking the code")
        arguments = (ROOT, archive, os.getcwd(), str(int(code["files"])), str(int(code["bytes"])))
        try:
            steps.run([*PYTHON, UNPACK, *arguments], self._env)
        except Failed as fault:
            cause = "code_away" if fault.last.startswith(NOT_WRITTEN) else "code"
            raise CannotStart(f"The code could not be unpacked: {fault.last}", cause) from fault
        del self.facts["wants"]
        self._tell(steps)

    def _tell(self, steps: Steps) -> None:
        """Tell the agent the facts, on a full disk as soon as there is room: it may be waiting for them."""
        while not self._record():
            steps.wait(records.RETRY_S)

    def _answer(self, name: str, steps: Steps) -> object:
        """Return what the agent says under `name`, once it does."""
        while True:
            told = records.read(self._folder, records.TOLD) or {}
            if told.get("fault"):
                raise CannotStart(str(told["fault"]), str(told.get("cause") or "code"))
            if told.get(name):
                return told[name]
            steps.wait()

    def _choose_command(self) -> None:
        """Take `./start.sh`, else `./start.py`, where the task names no command."""
        if self._spec["command"] == "":
            self._spec["command"] = start_command(os.getcwd())

    def _bring_data(self, data: "list[dict[str, Any]]", steps: Steps) -> None:
        steps.say("mounting " + ", ".join(f"{each['addr']}:{each['src']} at {each['dst']}" for each in data))
        self._mounts.mount(data, self._taken(), steps)
        os.chdir(os.path.join(self._folder, records.WORK))  # as it is seen in the mounts' own namespace
        steps.say("all data is mounted")

    def _taken(self) -> list[str]:
        """Return the paths of the platform's own that no data may cover or lie below, as the task sees them."""
        if self._spec.get("container"):
            from cluster.agent.engine import INSIDE  # only keepers of containers have that module

            return [INSIDE, *self._spec["folders"]]
        # Of the whole agent and all businesses: a folder that is made for a mount stays there, as root's.
        return [os.path.dirname(os.path.dirname(self._folder)), self._spec["storage_root"]]

    def _say(self, line: str) -> None:
        say(self._folder, line)


def start_command(folder: str) -> str:
    """Return the command that starts the code in `folder` by itself; raises CannotStart where there is none."""
    for name, interpreter in (("start.sh", "/bin/sh"), ("start.py", "python3")):
        path = os.path.join(folder, name)
        try:
            mode = os.stat(path).st_mode
        except FileNotFoundError:
            continue
        if not stat.S_ISREG(mode):
            continue
        # Packed on other systems it may have lost its mark as a program, but its first line still says which runs it.
        with open(path, "rb") as file:
            first = file.readline(256)
        if mode & 0o111 and first.startswith(b"#!"):
            return f"exec ./{name}"
        named = first[2:].decode(errors="replace").split() if first.startswith(b"#!") else []
        return f"exec {shlex.join(named or [interpreter])} ./{name}"
    raise CannotStart("The code has neither start.sh nor start.py, and the task names no start_cmd.", "code")
