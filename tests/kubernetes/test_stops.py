"""Tasks that are stopped at any moment of their start: nothing runs, nothing is left, and it is stopped, once."""

from collections.abc import Callable

import pytest

from cluster.models import Card, CardLease, Instance
from jobs import services
from jobs.engine import passes
from jobs.models import Task
from tests.kubernetes.conftest import Kube, node
from tests.kubernetes.floor import Floor
from tests.world import World

pytestmark = pytest.mark.kubernetes
RUN = "echo one >>$TAIJI_STORAGE/starts; trap 'exit 0' TERM; while :; do sleep 0.1; done"


def has_pods(kube: Kube, number: int, met: Callable[[dict[str, object]], object]) -> bool:
    return sum(bool(met(pod)) for pod in kube.pods()) == number


MOMENTS: dict[str, Callable[[Kube, int], bool]] = {
    "planned": lambda kube, number: Instance.objects.count() == number,
    "ordered": lambda kube, number: bool(kube.pods()),
    "bound": lambda kube, number: has_pods(kube, number, lambda pod: pod["spec"].get("nodeName")),  # type: ignore[attr-defined]
    "begun": lambda kube, number: Instance.objects.exclude(phase__in=["pending", "starting"]).exists(),
    "running": lambda kube, number: Instance.objects.filter(phase="running").count() == number,
}


@pytest.fixture(params=["alone", "pods", "mpijob"])
def kind(request: pytest.FixtureRequest, world: World, kube: Kube) -> str:
    """Return how the task is to run, on a cluster that is ready for it."""
    world.business("ads", P40=32)
    if request.param == "mpijob":
        Floor(kube)
    else:
        for number in range(2):
            kube.add(node(f"gpu-{number}"))
        kube.control()
        kube.until(lambda: Card.objects.filter(state="ok").count() == 16)
    found: str = request.param
    return found


@pytest.mark.parametrize("moment", MOMENTS)
def test_one_that_is_stopped_on_its_way_is_stopped_and_leaves_nothing(
    world: World, kube: Kube, kind: str, moment: str
) -> None:
    hosts = 1 if kind == "alone" else 2
    config = {"start_cmd": RUN, "exec_start_in_all_mpi_pods": kind == "pods"}
    task = world.task(hosts=hosts, cards=8, config=config)
    passes.run()
    kube.until(lambda: MOMENTS[moment](kube, hosts), 40)
    for _ in range(2):  # as who clicks twice
        services.stop(Task.objects.get(pk=task.pk), world.user("ann"))
    kube.state(task, "stopped", 40)
    kube.settle()
    kube.until(lambda: not kube.fleet.running)
    assert kube.leased() == 0
    assert CardLease.objects.count() == 8 * hosts
    assert [attempt.outcome for attempt in task.attempts.all()] == ["stopped"]
    for _ in range(5):
        kube.step()
    assert not kube.pods()
    if moment == "planned":
        assert not (kube.storage / f"business-{task.business_id}" / "starts").exists()
