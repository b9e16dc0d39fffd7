"""The hosts that a waiting task could run on, counted by why they do not take it: for its page."""

import threading
import time

from cluster import clock
from jobs.engine import snapshot
from jobs.models import Task
from jobs.scheduling import types
from jobs.scheduling.cluster_state import Cluster
from jobs.scheduling.survey import Seen, survey

KEPT_S = 5.0  # so many seconds one look at the hosts serves every page: it costs as much as loading a pass


class _Look:
    """The hosts as they were a moment ago, shared by the threads of this process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._cluster: Cluster | None = None
        self._until = 0.0

    def survey(self, task: types.Waiting) -> tuple[Seen, ...]:
        """Return what the task sees, looking anew where the last look is too old."""
        with self._lock:
            if self._cluster is None or time.monotonic() >= self._until:
                if self._cluster is not None:
                    self._cluster.take_apart()
                self._cluster = None  # where loading fails, the next one tries again
                self._cluster = _load()
                self._until = time.monotonic() + KEPT_S
            return _survey(self._cluster, task)


def _survey(cluster: Cluster, task: types.Waiting) -> tuple[Seen, ...]:
    """Survey without what is held for the task itself: that is not held for others."""
    if task.id not in cluster.claims:
        return survey(cluster, task)
    own = cluster.release(task.id)
    try:
        return survey(cluster, task)
    finally:
        cluster.hold(own, business=0)


_look = _Look()


def _load() -> Cluster:
    known = snapshot.load_hosts(clock.seconds())
    cluster = Cluster.of(known)
    for claim in known.claims:
        cluster.hold(claim, business=0)  # no quota is looked at
    return cluster


def hosts_for(task: Task) -> tuple[Seen, ...]:
    """Return the hosts of the task's types by why they do not take it, as they were at most KEPT_S ago."""
    return _look.survey(
        types.Waiting(
            id=task.pk,
            business=task.business_id,
            user=task.user_id,
            wanted=task.wanted_class,  # type: ignore[arg-type]  # the words of TaskClass
            host_num=task.host_num,
            host_gpu_num=task.host_gpu_num,
            gpu_types=tuple(task.gpu_types),
            region=task.region_id,
            needs=task.needs,
            submitted=0.0,
            queued=0.0,
            avoid=frozenset(task.avoid_hosts),
        )
    )
