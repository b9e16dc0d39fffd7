"""Where the agent may make control groups on this host, of version 1 or 2, and why not where it may not."""

import contextlib
import errno
import logging
import os
import re
import uuid
from dataclasses import dataclass, field

from cluster.agent import cgroups, processes
from cluster.agent.cgroups import CONTROLLERS, MEMBERS, Group
from cluster.agent.workload import reason

log = logging.getLogger(__name__)

OURS = "taiji"  # the group that the groups of instances lie in
AGENT = "agent"  # where a delegated group of version 2 keeps the agent itself: it may hold no process beside groups
SUBTREE = "cgroup.subtree_control"
# What systemd counts as its own and moves as it likes: root's groups lie beside it, as those of engines do.
UNIT = re.compile(r".*\.(slice|service|scope)")
TRIAL = {"memory_mib": 64, "cpus": 1.0, "pids": 64}


@dataclass(frozen=True, slots=True, kw_only=True)
class Hierarchy:
    """A tree of control groups that is mounted here, and where in it this process is."""

    version: int
    controllers: tuple[str, ...]
    mount: str
    own: str  # path below the mount, "/" at its top


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """Where groups may be made: controller → folder; and what is not to be had, with the reason."""

    parents: dict[str, str] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)

    @property
    def complete(self) -> bool:
        """Return whether every limit of a plain process holds here."""
        return not self.missing

    def say(self) -> None:
        """Say which limits hold for plain processes."""
        if self.parents:
            log.info("Limits of plain processes hold here: %s.", ", ".join(self.parents))
        if self.missing:
            why = "; ".join(f"{name}: {fault}" for name, fault in self.missing.items())
            log.warning("Limits of plain processes do not hold here (%s).", why)


def find(mountinfo: str = "/proc/self/mountinfo", groups: str = "/proc/self/cgroup") -> Places:
    """Look where the agent may make groups, by making one in each place and removing it again."""
    try:
        hierarchies = read(mountinfo, groups)
    except OSError as error:
        return Places(missing=dict.fromkeys(CONTROLLERS, reason(error)))
    parents, missing = {}, {}
    for controller in CONTROLLERS:
        try:
            parents[controller] = _place(controller, hierarchies)
        except OSError as error:
            missing[controller] = reason(error)
    return Places(parents=parents, missing=missing)


def read(mountinfo: str, groups: str) -> list[Hierarchy]:
    """Return the hierarchies that are mounted here; raises OSError."""
    with open(groups) as file:
        rows = [line.rstrip("\n").split(":", 2) for line in file]
    own = {name: path for _number, names, path in rows for name in names.split(",")}  # version 2: no name
    found = []
    with open(mountinfo) as file:
        for line in file:
            before, _dash, after = line.rstrip("\n").partition(" - ")
            root, mount = before.split(" ")[3:5]
            kind, _source, options = after.split(" ")[:3]
            if kind == "cgroup2" and "" in own:
                names = _words(f"{mount}/cgroup.controllers")
                found.append(Hierarchy(version=2, controllers=names, mount=mount, own=_below(root, own[""])))
            elif kind == "cgroup" and (names := tuple(n for n in options.split(",") if n in CONTROLLERS)):
                place = _below(root, own.get(names[0], "/"))
                found.append(Hierarchy(version=1, controllers=names, mount=mount, own=place))
    return found


def _place(controller: str, hierarchies: list[Hierarchy]) -> str:
    """Return the folder in which groups with this controller can be made; raises OSError."""
    for hierarchy in hierarchies:
        if controller in hierarchy.controllers:
            base = _base(hierarchy, os.geteuid() == 0)
            parent = os.path.join(base, OURS)
            try:
                os.makedirs(parent, exist_ok=True)
                if hierarchy.version == 2:
                    _delegate(base, controller)
                    _enable(parent, controller)
                _try(controller, parent)
            except OSError:
                with contextlib.suppress(OSError):
                    os.rmdir(parent)  # unless it serves for another controller, or another agent
                raise
            return parent
    raise FileNotFoundError(f"no control groups with {controller} are mounted")


def _base(hierarchy: Hierarchy, root: bool) -> str:
    """Return the group that ours lies in: the agent's own, of root outside of what is systemd's."""
    parts = hierarchy.own.strip("/").split("/")
    if root:
        units = [place for place, part in enumerate(parts) if UNIT.fullmatch(part)]
        parts = parts[: units[0]] if units else parts
    if hierarchy.version == 2 and parts[-1:] == [AGENT]:
        parts = parts[:-1]
    return os.path.join(hierarchy.mount, *parts) if parts != [""] else hierarchy.mount


def _delegate(base: str, controller: str) -> None:
    """Hand a controller of `base` on to what is below it, its own processes out of the way; raises OSError."""
    try:
        _enable(base, controller)
    except OSError as error:
        if error.errno != errno.EBUSY:
            raise
        _move_aside(base)
        _enable(base, controller)


def _move_aside(base: str) -> None:
    """Put this process and its children into a group of their own; raises OSError, also where others live here."""
    me = os.getpid()
    mine = {me, *(process.pid for process in processes.below([me], processes.table()))}
    here = [int(pid) for pid in _words(os.path.join(base, MEMBERS))]
    if others := [pid for pid in here if pid not in mine]:
        raise OSError(errno.EBUSY, f"other processes live in {base}, such as {others[0]}")
    agent = os.path.join(base, AGENT)
    os.makedirs(agent, exist_ok=True)
    for pid in here:
        cgroups.write(os.path.join(agent, MEMBERS), str(pid))


def _enable(folder: str, controller: str) -> None:
    path = os.path.join(folder, SUBTREE)
    if controller not in _words(path):
        cgroups.write(path, f"+{controller}")


def _try(controller: str, parent: str) -> None:
    trial = Group({controller: parent}, f"trial-{uuid.uuid4()}")
    try:
        trial.make(TRIAL)
    finally:
        trial.remove()


def _below(root: str, path: str) -> str:
    """Return `path` of a hierarchy as it is seen where `root` of it is mounted."""
    inside = path == root or path.startswith(root.rstrip("/") + "/")
    return "/" + path.removeprefix(root).strip("/") if inside else "/"


def _words(path: str) -> tuple[str, ...]:
    with open(path) as file:
        return tuple(file.read().split())
