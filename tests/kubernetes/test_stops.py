"""Tasks as pods that are stopped at any moment of their start leave nothing, and are stopped and nothing else."""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import pytest
from django.db.models import QuerySet

from cluster.models import Card, CardLease, Instance
from jobs import brought
from jobs.engine import passes
from jobs.models import Task, TaskEvent
from quotas.models import UsageRow
from tests.kubernetes.conftest import JSON, Kube, node
from tests.kubernetes.desk import FOLDER, Desk, mpijob
from tests.kubernetes.floor import Floor
from tests.life.test_stops import double_click
from tests.world import World

pytestmark = pytest.mark.django_db(transaction=True)  # two click at once, in threads
RUN = "echo one >>$TAIJI_STORAGE/starts; trap 'exit 0' TERM; while :; do sleep 0.1; done"
STEPS, STEP_S = 8, 0.06  # further moments, at even distances over a start
# How each kind of task is made in the cluster. "brought": by its owner, and only run by us.
HOSTS = {"alone": 1, "pods": 2, "mpijob": 2, "brought": 2}


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """A cluster that is ready for one kind of task."""

    kube: Kube
    world: World
    kind: str
    desk: Desk | None = None

    @property
    def hosts(self) -> int:
        return HOSTS[self.kind]

    def submit(self, name: str) -> Task:
        if self.desk is None:
            config = {"start_cmd": RUN, "exec_start_in_all_mpi_pods": self.kind == "pods"}
            return self.world.task(hosts=self.hosts, cards=8, config=config, task_flag=name)
        self.desk.apply(mpijob(name, workers=self.hosts, launcher="sleep 60"))
        found: Task = self.kube.until(lambda: self.adopted(name), plan=False)
        return found

    def adopted(self, name: str) -> Task | None:
        brought.adopt()
        return Task.objects.filter(task_flag=name).first()

    def until(self, met: Callable[[], object]) -> None:
        if self.desk is not None:
            self.desk.until(met)
        else:
            self.kube.until(met)

    def pods(self) -> list[JSON]:
        return self.desk.live_pods() if self.desk else self.kube.pods()

    def is_left(self) -> bool:
        """Say whether anything of any task is there yet."""
        return bool(self.pods() or self.kube.fleet.running or CardLease.objects.filter(released_at=None))


def members(task: Task) -> QuerySet[Instance]:
    """Return the members of all attempts of a task."""
    return Instance.objects.filter(gang__in=task.attempts.values("pk"))


# Where it is by what can be seen of it: every round and pass in between is made.
SEEN: dict[str, Callable[[Site, Task], object]] = {
    "waits": lambda site, task: True,
    "planned": lambda site, task: passes.run() and members(task).count() == site.hosts,
    "begun": lambda site, task: members(task).exclude(phase__in=["pending", "starting"]).exists(),
    "running": lambda site, task: members(task).filter(phase="running").count() == site.hosts,
}
# Where it is by a call that the API server was asked for: the clicks come while it is made, or when it is done and
# nobody has heard so.
CALLS: dict[str, dict[str, tuple[str, str, bool]]] = {
    "alone": {
        "pod asked for": ("POST", "/pods$", False),
        "pod made": ("POST", "/pods$", True),
        "bound": ("POST", "/binding$", True),
        "process started": ("PATCH", "/pods/taiji-[^/]+/status$", False),
        "process known": ("PATCH", "/pods/taiji-[^/]+/status$", True),
        "first line asked for": ("GET", "/log$", False),
    },
    "pods": {
        "service asked for": ("POST", "/services$", False),
        "service made": ("POST", "/services$", True),
        "first pod asked for": ("POST", "/pods$", False),
        "first pod made": ("POST", "/pods$", True),
        "last pod bound": ("POST", "taiji-[0-9]+-1/binding$", True),
        "told to start": ("PATCH", "/pods/taiji-[^/]+$", False),
        "one told to start": ("PATCH", "/pods/taiji-[^/]+$", True),
        "first line asked for": ("GET", "/log$", False),
    },
    "mpijob": {
        "job asked for": ("POST", "/mpijobs$", False),
        "job made": ("POST", "/mpijobs$", True),
        "operator makes the first worker": ("POST", "/pods$", False),
        "a pod is held": ("PATCH", "/pods/taiji-[^/]+$", False),
        "launcher bound": ("POST", "-launcher-[^/]+/binding$", True),
        "launcher told to start": ("PATCH", "-launcher-[^/]+$", True),
        "first line asked for": ("GET", "/log$", False),
    },
    "brought": {
        "told to run": ("PATCH", "/mpijobs/[^/]+$", False),
        "runs and nobody heard so": ("PATCH", "/mpijobs/[^/]+$", True),
        "operator makes the first worker": ("POST", "/research/pods$", False),
        "worker bound": ("POST", "/binding$", True),
        "process started": ("PATCH", "/pods/[^/]+/status$", False),
        "first line asked for": ("GET", "/log$", False),
    },
}


@pytest.fixture(params=HOSTS)
def site(request: pytest.FixtureRequest, world: World, kube: Kube) -> Site:
    """Return a cluster for tasks of one kind."""
    world.business("ads", P40=32)
    world.user("ann", "ads")
    site = Site(kube=kube, world=world, kind=request.param)
    if request.param == "mpijob":
        Floor(kube)
    elif request.param == "brought":
        site = replace(site, desk=Desk(kube, "gpu-1", "gpu-2"))
    else:
        for number in range(2):
            kube.add(node(f"gpu-{number}"))
        kube.control()
        kube.until(lambda: Card.objects.filter(state="ok").count() == 16)
    return site


def stop_at(site: Site, task: Task, moment: str) -> None:
    """Stop the task, by two clicks at once, when it has come so far."""
    if moment in SEEN:
        site.until(lambda: SEEN[moment](site, task))
        double_click(task)
    elif moment in CALLS[site.kind]:
        method, path, once_done = CALLS[site.kind][moment]
        clicks = site.kube.server.meanwhile(lambda: double_click(task), method, path, once_done=once_done)
        site.until(clicks.done)
        clicks.result()
    else:
        until = time.monotonic() + float(moment)
        site.until(lambda: time.monotonic() >= until)
        double_click(task)


def check_stopped(site: Site, task: Task) -> None:
    """See that it ends as stopped, that nothing is left of it, and that nothing comes afterwards."""

    def is_over() -> bool:
        task.refresh_from_db()
        return task.state == "stopped" and not site.is_left()

    site.until(is_over)
    attempts = list(task.attempts.order_by("number").values_list("outcome", flat=True))
    assert attempts in ([], ["stopped"])
    assert CardLease.objects.filter(instance__in=members(task)).count() == 8 * site.hosts * len(attempts)
    assert UsageRow.objects.filter(task=task.pk).count() == len(attempts)
    events = TaskEvent.objects.filter(task=task).exclude(new_state="").order_by("pk")
    states = list(events.values_list("new_state", flat=True))
    ended = [state for state in states if state in {"stopping", "stopped"}]
    assert ended == states[-len(ended) :]  # it went nowhere else once it was told
    assert ended in (["stopped"], ["stopping", "stopped"])
    for _ in range(3):
        site.kube.step()
    assert not site.is_left()
    if site.desk is not None:
        assert site.desk.job(task.task_flag)["spec"]["runPolicy"]["suspend"]
        site.kube.calls.delete(
            f"{FOLDER}/{task.task_flag}"
        )  # its operator would look after it with each step


def test_tasks_that_are_stopped_one_after_the_other_anywhere_on_their_way_leave_nothing(site: Site) -> None:
    calls = CALLS[site.kind] if site.kube.played_alone else {}
    moments = [*SEEN, *calls, *(str(number * STEP_S) for number in range(STEPS))]
    reached: set[str] = set()
    for number, moment in enumerate(moments):
        print("stopped at", moment)  # for who reads that this test failed
        task = site.submit(f"t{number}")
        stop_at(site, task, moment)
        check_stopped(site, task)
        reached |= set(TaskEvent.objects.filter(task=task).values_list("new_state", flat=True))
        if moment in {"waits", "planned"}:
            begun = site.kube.storage / f"business-{task.business_id}" / "starts"
            assert not begun.exists()
    assert {"starting", "running", "stopping"} <= reached
