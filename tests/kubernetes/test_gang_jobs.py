"""Gangs of which only the first member runs the command, as MPIJobs: the same life as in pods of their own."""

import time

import pytest

from cluster.kubernetes import gang_orders, nodes, watch
from cluster.models import Card, Instance
from jobs import services
from tests.kubernetes.conftest import Kube
from tests.kubernetes.floor import Floor, gang, phases, rest
from tests.kubernetes.mpi_operator import KIND
from tests.world import World


@pytest.fixture
def floor(world: World, kube: Kube) -> Floor:
    """Return a cluster with the operator, of which a business may use all cards."""
    world.business("ads", P40=32)
    return Floor(kube)


def test_the_first_member_runs_the_command_where_it_was_planned_and_the_others_keep_their_place(
    world: World, floor: Floor
) -> None:
    said = "echo $RANK of $WORLD_SIZE at $MASTER_ADDR with $TAIJI_CARDS; cat $TAIJI_HOSTFILE"
    task = gang(world, f"{said}; until [ -e $TAIJI_TASK_DIR/end ]; do sleep 0.1; done")
    floor.kube.state(task, "running", 40)
    [job] = floor.jobs()
    name = f"taiji-{task.attempts.get().pk}"
    assert job["metadata"]["name"] == name
    planned = list(Instance.objects.order_by("rank").values_list("host__node", flat=True))
    [launcher] = floor.pods("launcher")
    assert launcher["spec"]["nodeName"] == planned[0]
    workers = {pod["spec"]["nodeName"]: pod["spec"]["hostname"] for pod in floor.pods("worker")}
    assert workers.keys() == set(planned[1:])
    assert not Card.objects.exclude(state="ok").exists()  # ours, not somebody else's
    (floor.folder(task) / f"task-{task.pk}" / "end").touch()
    floor.kube.state(task, "succeeded", 40)
    floor.settle()
    where = f"{name}.{floor.kube.namespace}.svc"
    in_order = [f"{name}-launcher", *(workers[one] for one in planned[1:])]
    assert floor.kube.log(task).decode().splitlines() == [
        f"0 of 3 at {name}-launcher.{where} with 8",
        *(f"{host}.{where} slots=8" for host in in_order),
    ]
    assert [floor.kube.log(task, rank) for rank in (1, 2)] == [b"", b""]
    assert floor.starts(task) == 1


def test_nobody_starts_before_all_are_ready(world: World, floor: Floor) -> None:
    floor.kube.fleet.silent = {"gpu-2"}
    task = gang(world, "true")
    floor.kube.until(lambda: phases(task).count("ready") == 2)
    rest(floor, 1)
    assert floor.starts(task) == 0
    floor.kube.fleet.silent = set()
    floor.kube.state(task, "succeeded", 40)
    floor.settle()
    assert floor.starts(task) == 1


@pytest.mark.parametrize("every", [False, True])
def test_one_that_comes_back_waits_for_all_of_its_members_again(
    world: World, floor: Floor, every: bool
) -> None:
    config = {"enable_evicted_pulled_up": True, "exec_start_in_all_mpi_pods": every}
    elastic = gang(world, "sleep 60", 4, user="bob", wanted_class="elastic", pull_up=True, config=config)
    floor.kube.state(elastic, "running", 40)
    high = gang(world, "sleep 0.5", 1)
    floor.kube.state(high, "succeeded", 40)
    floor.kube.fleet.silent = {"gpu-2"}
    floor.kube.until(lambda: elastic.attempts.count() == 2 and phases(elastic).count("ready") == 3, 40)
    before = floor.starts(elastic)
    rest(floor, 1)
    assert floor.starts(elastic) == before
    floor.kube.fleet.silent = set()
    floor.kube.state(elastic, "running", 40)
    floor.kube.until(lambda: floor.starts(elastic) == before + (4 if every else 1))
    services.stop(elastic, world.user("bob"))
    floor.kube.state(elastic, "stopped", 40)
    floor.settle()


def test_secrets_reach_the_command_and_an_ordered_end_runs_the_exit_command_of_every_member(
    world: World, floor: Floor
) -> None:
    document = {
        "business_flag": "ads",
        "GPUName": "P40",
        "host_num": 3,
        "host_gpu_num": 8,
        "start_cmd": "echo $KEY | tr a-z A-Z; sleep 60",
        "exit_cmd": "echo $RANK $NODE_RANK >>$TAIJI_TASK_DIR/told; echo out of $RANK",
        "env": {"KEY": {"value": "hunter two", "secret": True}},
    }
    task = services.submit(world.user("ann", "ads"), document)
    floor.kube.state(task, "running", 40)
    ids = list(Instance.objects.order_by("rank").values_list("pk", flat=True))
    floor.kube.until(lambda: floor.kube.log(task) == b"HUNTER TWO\n")
    assert "hunter" not in str(floor.jobs()) + str(floor.pods())
    services.stop(task, world.user("ann"))
    floor.kube.state(task, "stopped", 40)
    floor.settle()
    told = (floor.folder(task) / f"task-{task.pk}" / "told").read_text().splitlines()
    assert sorted(told) == ["0 0", "1 1", "2 2"]
    assert [floor.kube.log(task, rank) for rank in range(3)] == [b"HUNTER TWO\n", b"", b""]
    assert (
        list(Instance.objects.filter(ended_by_itself=False).order_by("rank").values_list("pk", flat=True))
        == ids
    )


def test_workers_let_the_launcher_in_where_their_image_can_and_end_when_they_are_told_to(
    world: World, floor: Floor
) -> None:
    program = floor.kube.fleet.folder / "image" / "sshd"
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/sh\necho listening with $1\nsleep 600\n")
    program.chmod(0o755)
    task = gang(world, "sleep 60")
    floor.kube.state(task, "running", 40)
    floor.kube.until(lambda: [floor.kube.log(task, rank) for rank in (1, 2)] == [b"listening with -De\n"] * 2)
    services.stop(task, world.user("ann"))
    floor.kube.state(task, "stopped", 40)
    floor.settle()
    assert floor.kube.log(task) == b""


def test_one_that_is_evicted_leaves_its_cards_when_the_last_pod_is_gone_and_is_pulled_up_again(
    world: World, floor: Floor
) -> None:
    config = {"enable_evicted_pulled_up": True}
    elastic = gang(world, "sleep 60", 4, user="bob", wanted_class="elastic", pull_up=True, config=config)
    floor.kube.state(elastic, "running", 40)
    floor.kube.fleet.slow_exit_s = 2.0
    high = gang(world, "sleep 1", 2)
    floor.kube.until(lambda: phases(elastic).count("ending") == 4)
    began = time.monotonic()
    while time.monotonic() < began + 1:
        floor.kube.step()
        assert (floor.kube.leased(), elastic.attempts.count()) == (32, 1)
        time.sleep(0.05)
    floor.kube.fleet.slow_exit_s = 0.0
    floor.kube.state(high, "succeeded", 40)
    floor.kube.until(lambda: elastic.attempts.count() == 2, 40)
    floor.kube.state(elastic, "running", 40)
    rest(floor, 1)
    assert phases(elastic) == ["running"] * 4
    assert [job["metadata"]["name"] for job in floor.jobs()] == [f"taiji-{elastic.attempts.get(number=2).pk}"]
    assert floor.starts(elastic) == 3
    assert elastic.attempts.get(number=1).outcome == "evicted"
    services.stop(elastic, world.user("bob"))
    floor.kube.state(elastic, "stopped", 40)
    floor.settle()


def test_a_launcher_that_fails_fails_the_task_with_its_code_and_ends_the_workers(
    world: World, floor: Floor
) -> None:
    task = gang(world, "echo oh no; exit 3")
    floor.kube.state(task, "failed", 40)
    attempt = task.attempts.get()
    assert (attempt.outcome_code, attempt.outcome_args["exit_code"], attempt.outcome_args["rank"]) == (
        "exit_code",
        3,
        0,
    )
    floor.settle()
    assert (floor.kube.log(task), floor.starts(task)) == (b"oh no\n", 1)


def test_a_worker_that_was_removed_by_force_is_lost_whatever_the_operator_makes_in_its_place(
    world: World, floor: Floor
) -> None:
    task = gang(world, "sleep 60")
    floor.kube.state(task, "running", 40)
    floor.kube.until(lambda: floor.starts(task) == 1)  # else it may be ended before its command began
    gone = floor.pods("worker")[0]["metadata"]
    path = f"/api/v1/namespaces/{floor.kube.namespace}/pods/{gone['name']}"
    floor.kube.calls.patch(path, {"metadata": {"finalizers": []}})
    floor.kube.calls.delete(path, grace_s=0)
    floor.kube.state(task, "failed", 40)
    attempt = task.attempts.get()
    assert (attempt.outcome, attempt.outcome_code) == ("lost", "pod_lost")
    assert attempt.outcome_args["rank"] in {1, 2}
    floor.settle()
    assert floor.starts(task) == 1


def test_a_worker_that_its_node_refuses_ends_the_gang_before_anything_ran(world: World, floor: Floor) -> None:
    floor.kube.fleet.refusing["gpu-3"] = "Allocate failed: no healthy devices present"
    task = gang(world, "sleep 60", 4)
    floor.kube.state(task, "failed", 40)
    attempt = task.attempts.get()
    assert (attempt.outcome_code, attempt.outcome_args["host"]) == ("start_failed", "gpu-3")
    assert "no healthy devices present" in attempt.outcome_args["detail"]
    floor.settle()
    assert floor.starts(task) == 0


def test_a_worker_that_finds_no_place_is_given_up_with_what_the_scheduler_says(
    world: World, floor: Floor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nodes, "outside_use", lambda pods: {})  # bound before ours, and not seen in time
    floor.kube.other_pod("theirs", "gpu-3", 8)
    task = gang(world, "sleep 60", 4)
    floor.kube.state(task, "failed", 60)
    attempt = task.attempts.get()
    assert attempt.outcome_code == "no_place"
    assert "Insufficient nvidia.com/gpu" in attempt.outcome_args["detail"]
    floor.kube.until(lambda: not floor.jobs())
    assert floor.starts(task) == 0


def test_one_whose_mpijob_somebody_deletes_ends_as_from_outside_and_leaves_nothing(
    world: World, floor: Floor
) -> None:
    task = gang(world, "sleep 60")
    floor.kube.state(task, "running", 40)
    floor.kube.until(lambda: floor.starts(task) == 1)  # else it may be ended before its command began
    floor.kube.calls.delete(
        f"{KIND}/namespaces/{floor.kube.namespace}/mpijobs/{floor.jobs()[0]['metadata']['name']}"
    )
    floor.kube.state(task, "failed", 40)
    assert task.attempts.get().outcome == "failed"
    floor.settle()
    assert floor.starts(task) == 1


def test_without_its_operator_a_gang_waits_says_why_and_can_be_stopped(
    world: World, floor: Floor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gang_orders, "OPERATOR_S", 0.5)
    floor.without_operator()
    stopped, kept = gang(world, "true", 2), gang(world, "true", 2)
    floor.kube.until(lambda: phases(stopped) == phases(kept) == ["starting"] * 2)
    floor.kube.until(
        lambda: b"The MPI operator of the cluster has done nothing yet" in floor.kube.log(stopped)
    )
    rest(floor, 2)
    assert floor.kube.log(stopped).count(b"[taiji]") == 1
    assert (floor.pods(), len(floor.jobs()), floor.kube.leased()) == ([], 2, 32)
    services.stop(stopped, world.user("ann"))
    floor.kube.state(stopped, "stopped", 40)
    assert floor.kube.leased() == 16
    detail = "It was stopped before it started."
    assert set(Instance.objects.filter(phase="gone").values_list("detail", flat=True)) == {detail}
    floor.kube.until(lambda: len(floor.jobs()) == 1)
    floor.operates = True
    floor.kube.state(kept, "succeeded", 40)
    floor.settle()
    assert floor.starts(kept) == 1


def test_where_every_member_runs_the_command_or_there_is_no_operator_they_are_pods_of_their_own(
    world: World, floor: Floor
) -> None:
    every = gang(world, "true", 2, config={"exec_start_in_all_mpi_pods": True})
    floor.kube.state(every, "succeeded", 40)
    assert not floor.jobs()
    floor.kube.settle()
    floor.kube.server.unserved.add("kubeflow.org")
    floor.without_operator()
    floor.kube.controllers.pop().stop()
    floor.kube.control()
    first = gang(world, "true", 2)
    floor.kube.state(first, "succeeded", 40)
    floor.kube.settle()
    assert floor.starts(first) == 3
    assert floor.kube.controllers[0].trouble() == ""


def test_an_operator_that_is_installed_later_is_found_and_used(
    world: World, floor: Floor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch, "ABSENT_S", 0.2)
    floor.kube.server.unserved.add("kubeflow.org")
    floor.kube.controllers.pop().stop()
    gangs = floor.kube.control()._gangs
    floor.kube.until(lambda: floor.kube.controllers[0].trouble() == "")
    assert not gangs.is_served()
    floor.kube.server.unserved.clear()
    floor.kube.until(gangs.is_served)
    task = gang(world, "sleep 60", 2)
    floor.kube.state(task, "running", 40)
    assert len(floor.jobs()) == 1
    services.stop(task, world.user("ann"))
    floor.kube.state(task, "stopped", 40)
    floor.settle()


def test_a_gang_that_began_as_pods_goes_on_as_pods_though_the_operator_came_meanwhile(
    world: World, floor: Floor
) -> None:
    floor.kube.server.unserved.add("kubeflow.org")
    floor.without_operator()
    floor.kube.controllers.pop().stop()
    floor.kube.control()
    floor.kube.server.fail(500, method="POST", path="/pods", times=2)
    task = gang(world, "true", 2)
    floor.kube.until(lambda: len(floor.kube.pods()) == 1 or floor.kube.server.faults[0].times == 0)
    floor.kube.until(lambda: floor.kube.pods())
    floor.kube.server.unserved.clear()
    floor.operates = True
    floor.kube.controllers.pop().stop()
    floor.kube.control()
    floor.kube.state(task, "succeeded", 40)
    assert not floor.jobs()
    floor.kube.settle()
