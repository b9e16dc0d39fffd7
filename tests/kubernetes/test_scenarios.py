"""Courses that went wrong elsewhere: half a gang, a stop that comes late, members that are counted as there."""

import time

import pytest

from cluster.models import Card, Instance
from tests.kubernetes.conftest import Kube, node
from tests.world import World


@pytest.fixture
def four(world: World, kube: Kube) -> Kube:
    """Return a cluster of four nodes that the platform knows."""
    world.business("ads", P40=32)
    for number in range(4):
        kube.add(node(f"gpu-{number}"))
    kube.control()
    kube.until(lambda: Card.objects.filter(state="ok").count() == 32)
    return kube


def test_a_member_that_its_node_refuses_ends_the_whole_gang_once(world: World, four: Kube) -> None:
    four.fleet.refusing["gpu-3"] = "Allocate failed: no healthy devices present"
    run = "echo one >>$TAIJI_STORAGE/starts; sleep 60"
    task = world.task(hosts=4, cards=8, config={"start_cmd": run, "exec_start_in_all_mpi_pods": True})
    four.state(task, "failed")
    attempt = task.attempts.get()
    assert (attempt.outcome_code, attempt.outcome_args["host"]) == ("start_failed", "gpu-3")
    assert "no healthy devices present" in attempt.outcome_args["detail"]
    four.settle()
    assert four.leased() == 0
    assert not (
        four.storage / f"business-{task.business_id}" / "starts"
    ).exists()  # none began without the others


def test_a_member_that_fails_ends_the_others_once(world: World, four: Kube) -> None:
    run = 'if [ "$RANK" = 1 ]; then sleep 1; exit 7; fi; sleep 60'
    task = world.task(hosts=4, cards=8, config={"start_cmd": run, "exec_start_in_all_mpi_pods": True})
    four.state(task, "failed", 40)
    args = task.attempts.get().outcome_args
    assert (args["rank"], args["exit_code"]) == (1, 7)
    four.settle()
    assert four.leased() == 0


def test_a_pull_up_waits_until_every_pod_of_the_evicted_run_is_gone_and_then_lives(
    world: World, four: Kube
) -> None:
    run = "echo one >>$TAIJI_STORAGE/starts; sleep 60"
    config = {"start_cmd": run, "exec_start_in_all_mpi_pods": True, "enable_evicted_pulled_up": True}
    elastic = world.task(user="bob", hosts=2, cards=8, wanted_class="elastic", pull_up=True, config=config)
    four.state(elastic, "running")
    four.fleet.slow_exit_s = 3.0
    first = elastic.attempts.get()
    high = world.task(hosts=4, cards=8, config={"start_cmd": "sleep 1", "exec_start_in_all_mpi_pods": True})
    four.until(lambda: Instance.objects.filter(gang=first.pk, phase="ending").count() == 2)
    began = time.monotonic()
    while time.monotonic() < began + 1.5:
        four.step()
        assert elastic.attempts.count() == 1
        assert four.leased() == 16
        time.sleep(0.05)
    four.fleet.slow_exit_s = 0.0
    four.state(high, "succeeded", 40)
    four.until(lambda: elastic.attempts.count() == 2, 40)
    four.state(elastic, "running", 40)
    until = time.monotonic() + 1
    while time.monotonic() < until:
        four.step()
        time.sleep(0.05)
    assert {one.phase for one in Instance.objects.filter(gang=elastic.attempts.get(number=2).pk)} == {
        "running"
    }
    starts = four.storage / f"business-{elastic.business_id}" / "starts"
    assert len(starts.read_text().split()) == 4
    elastic.refresh_from_db()
    assert (elastic.state, elastic.attempts.get(number=1).outcome) == ("running", "evicted")
