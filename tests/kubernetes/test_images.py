"""Images of pods that one node cannot have, that take long, or that come late."""

from pathlib import Path
from typing import Any

import pytest

from cluster.models import Host, Instance
from jobs import endings
from jobs.engine import passes
from jobs.models import Policy, Strike, Task, TaskEvent
from tests.kubernetes.conftest import Kube
from tests.kubernetes.floor import Floor
from tests.world import World

IMAGE = "registry.test/train:7"
WAITS_S = 1.0  # so long an image is waited for here
KINDS = {"alone": 1, "pods": 3, "mpijob": 3}


@pytest.fixture
def floor(world: World, kube: Kube) -> Floor:
    """Return a cluster with the operator, in which images are not waited for as long as elsewhere."""
    world.business("ads", P40=32)
    Policy.objects.update_or_create(pk=1, defaults={"values": {"pull_up_backoff_s": 0.0}})
    floor = Floor(kube)
    kube.controllers[0]._troubles._limits["image"] = WAITS_S
    Host.objects.update(offers=["container"])
    return floor


def planned(world: World, kind: str, command: str = "sleep 1", **more: Any) -> Task:
    """Return a task that names the image and has its hosts, and of which no pod was made yet."""
    config = {
        "start_cmd": f"echo $RANK >>$TAIJI_STORAGE/starts; {command}",
        "image_full_name": IMAGE,
        "exec_start_in_all_mpi_pods": kind == "pods",
    }
    task = world.task(hosts=KINDS[kind], cards=8, needs="container", config=config, **more)
    passes.run()
    assert task.attempts.count() == 1
    return task


def member(task: Task, rank: int) -> Instance:
    return Instance.objects.select_related("host").get(gang=task.attempts.get(number=1).pk, rank=rank)


def states(task: Task) -> list[str]:
    """Return the states that the task went through, without those in which what is left of it ends."""
    events = TaskEvent.objects.filter(task=task).exclude(new_state__in=["", "stopping"]).order_by("pk")
    return list(events.values_list("new_state", flat=True))


def starts(floor: Floor, task: Task) -> Path:
    return floor.folder(task) / "starts"


@pytest.mark.parametrize("kind", KINDS)
def test_one_that_a_single_node_cannot_have_fails_by_that_node_and_is_tried_on_others(
    world: World, floor: Floor, kind: str
) -> None:
    last = KINDS[kind] - 1
    task = planned(world, kind, retry_limit=1)
    without = member(task, last).host
    floor.kube.fleet.images_on[without.node, IMAGE] = "manifest unknown"
    others = Instance.objects.filter(gang=task.attempts.get().pk, rank__lt=last)
    floor.kube.until(lambda: others.filter(phase="ready").count() == last and floor.pods())
    task.refresh_from_db()
    assert (task.state, floor.kube.leased()) == ("starting", 8 * KINDS[kind])
    floor.kube.until(lambda: task.attempts.count() == 2)
    assert not starts(floor, task).exists()  # none began without the one
    first = task.attempts.get(number=1)
    args = first.outcome_args
    assert (first.outcome_code, args["host"], args["rank"]) == ("image_failed", without.name, last)
    said = f"The image {IMAGE} cannot be had: manifest unknown."
    assert said in endings.sentence(first.outcome_code, args)
    assert floor.kube.log(task, last) == f"[taiji] {said}\n".encode()
    assert [floor.kube.log(task, rank) for rank in range(last)] == [b""] * last
    floor.kube.state(task, "succeeded")
    second = Instance.objects.filter(gang=task.attempts.get(number=2).pk)
    assert without.pk not in second.values_list("host", flat=True)
    assert states(task) == ["starting", "queued", "starting", "running", "succeeded"]
    assert len(starts(floor, task).read_text().split()) == (last + 1 if kind == "pods" else 1)
    strike = Strike.objects.get()
    assert (strike.host_id, strike.sure) == (without.pk, False)  # as the image may be at fault, too
    floor.settle()


@pytest.mark.parametrize("kind", KINDS)
def test_one_that_takes_longer_to_pull_than_a_missing_one_is_waited_for_is_not_given_up(
    world: World, floor: Floor, kind: str
) -> None:
    floor.kube.fleet.pull_s[IMAGE] = 3 * WAITS_S
    task = planned(world, kind)
    floor.kube.state(task, "succeeded")
    attempt = task.attempts.get()
    assert attempt.running_at is not None
    assert (attempt.running_at - attempt.created_at).total_seconds() > 3 * WAITS_S
    assert states(task) == ["starting", "running", "succeeded"]
    assert floor.kube.log(task) == b""
    floor.settle()


def test_one_that_comes_late_is_said_once_and_used(world: World, floor: Floor) -> None:
    floor.kube.controllers[0]._troubles._limits["image"] = 60.0
    floor.kube.fleet.images[IMAGE] = "the registry is busy"
    task = planned(world, "alone", "echo here")
    floor.kube.until(lambda: b"busy" in floor.kube.log(task))
    for _ in range(5):
        floor.kube.step()
    floor.kube.fleet.images.clear()
    floor.kube.state(task, "succeeded")
    said = f"[taiji] The image {IMAGE} cannot be had: the registry is busy.\n"
    assert floor.kube.log(task) == f"{said}here\n".encode()
    assert task.attempts.count() == 1
