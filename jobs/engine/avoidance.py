"""Tasks avoid the hosts where they failed at once, but only where enough others are left."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice

from jobs.scheduling.types import HostCards, Waiting


def relent(waiting: Iterable[Waiting], hosts: Sequence[HostCards]) -> Iterator[Waiting]:
    """Return the tasks as they are, but avoiding nothing where too few usable hosts would be left.

    Else a retry would wait for ever where a task failed on the only hosts that can run it.
    """
    for task in waiting:
        yield replace(task, avoid=frozenset()) if task.avoid and not _enough_others(task, hosts) else task


def _enough_others(task: Waiting, hosts: Sequence[HostCards]) -> bool:
    """Say whether so many hosts of one type are left as the task asks, whoever holds their cards now."""
    for gpu_type in task.gpu_types:
        fitting = (host for host in hosts if host.gpu_type == gpu_type and _could_hold(host, task))
        if len(list(islice(fitting, task.host_num))) == task.host_num:  # looks no further than it must
            return True
    return False


def _could_hold(host: HostCards, task: Waiting) -> bool:
    return (
        host.host not in task.avoid
        and host.state == "ready"
        and host.total >= task.host_gpu_num
        and task.region in {None, host.region}
        and task.needs in host.offers
    )
