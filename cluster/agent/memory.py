"""Whether the kernel ended something because memory ran out: by its counters, where they can be read."""

import signal

# Where each version of control groups keeps the counter of one group; the line is `oom_kill N` in both.
COUNTERS = {
    "0": "/sys/fs/cgroup{path}/memory.events",
    "memory": "/sys/fs/cgroup/memory{path}/memory.oom_control",
}
HOST_COUNTER = "/proc/vmstat"
OWN_GROUPS = "/proc/self/cgroup"


def group_kills() -> "int | None":
    """Return how many processes of our control group the kernel has ended so; None where nobody can know."""
    try:
        with open(OWN_GROUPS) as file:
            lines = [line.rstrip("\n").split(":", 2) for line in file]
    except OSError:
        return None
    for number, controllers, path in lines:
        names = ["0"] if number == "0" else controllers.split(",")
        for name in names:
            kills = _counter(COUNTERS[name].format(path=path.rstrip("/"))) if name in COUNTERS else None
            if kills is not None:
                return kills
    return None


def host_kills() -> "int | None":
    """Return how many processes of this host the kernel has ended so; None where nobody can know."""
    return _counter(HOST_COUNTER)


class Watch:
    """The counters as they were when a command was started."""

    def __init__(self) -> None:
        """Read them."""
        self._group = group_kills()
        self._host = host_kills() if self._group is None else None

    def cause(self, exit_code: "int | None", exit_signal: "int | None") -> str:
        """Return "oom", "maybe_oom" or "" for a command that nobody of us ended, by how it ended.

        137 is what a shell says of a child that was killed. Others of the same control group count too, so only
        a killed command is put down to memory.
        """
        if exit_signal != signal.SIGKILL and exit_code != 128 + signal.SIGKILL:
            return ""
        group = group_kills()
        if self._group is not None and group is not None:
            return "oom" if group > self._group else ""
        if self._host is not None and host_kills() == self._host:
            return ""  # nothing at all was ended so on this host
        return "maybe_oom"


def _counter(path: str) -> "int | None":
    try:
        with open(path) as file:
            found = [line.split() for line in file if line.startswith("oom_kill ")]
    except OSError:
        return None
    return int(found[0][1]) if found else None
