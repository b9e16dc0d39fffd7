"""The life of tasks on a cluster, end to end: submitted, run as pods, evicted, pulled up, gone, with real processes."""

from pathlib import Path

from cluster.models import Card, Host, Instance
from jobs import services
from tests.kubernetes.conftest import Kube, node
from tests.world import World


def test_a_node_with_cards_becomes_a_host_of_the_region(world: World, kube: Kube) -> None:
    kube.add(node("gpu-1", 4))
    kube.control()
    kube.until(lambda: Card.objects.filter(state="ok").count() == 4)
    host = Host.objects.get()
    assert (host.name, host.node, host.region.name, host.state) == ("gpu-1", "gpu-1", "SZ", "ready")
    assert set(Card.objects.values_list("gpu_type__name", flat=True)) == {"P40"}


def test_a_task_runs_as_a_pod_and_its_log_outlives_it(world: World, kube: Kube) -> None:
    world.business("ads", P40=8)
    kube.add(node("gpu-1"))
    kube.control()
    kube.until(lambda: Card.objects.count() == 8)
    task = world.task(
        config={"start_cmd": "echo hello from $RANK of $WORLD_SIZE; echo $$ >/dev/null", "env": {"A": "1"}}
    )
    kube.state(task, "succeeded")
    kube.settle()
    assert kube.log(task) == b"hello from 0 of 1\n"
    assert kube.leased() == 0


def test_a_full_cluster_evicts_for_a_high_task_and_pulls_the_victim_up_again(
    world: World, kube: Kube, tmp_path: Path
) -> None:
    world.business("ads", P40=8)
    kube.add(node("gpu-1"))
    kube.control()
    kube.until(lambda: Card.objects.count() == 8)
    run = 'echo "$(cat $TAIJI_TASK_DIR/step 2>/dev/null) on"; until [ -e $TAIJI_TASK_DIR/end ]; do sleep 0.1; done'
    script = {"start_cmd": run, "exit_cmd": "echo 7 >$TAIJI_TASK_DIR/step", "enable_evicted_pulled_up": True}
    elastic = world.task(user="bob", cards=8, wanted_class="elastic", pull_up=True, config=script)
    kube.state(elastic, "running")
    high = world.task(cards=8, config={"start_cmd": "echo high; sleep 0.5"})
    kube.state(elastic, "queued")
    kube.state(high, "succeeded")
    kube.state(elastic, "running", 40)
    assert elastic.attempts.count() == 2
    assert elastic.attempts.get(number=1).outcome == "evicted"
    kube.until(lambda: b"on" in kube.log(elastic, number=2))
    assert kube.log(elastic, number=1) == b" on\n"
    assert kube.log(elastic, number=2) == b"7 on\n"
    (kube.storage / f"business-{elastic.business_id}" / f"task-{elastic.pk}" / "end").touch()
    kube.state(elastic, "succeeded")
    kube.settle()
    assert kube.leased() == 0


def test_the_members_of_a_gang_start_together_and_know_each_other(world: World, kube: Kube) -> None:
    world.business("ads", P40=16)
    for name in ("gpu-1", "gpu-2"):
        kube.add(node(name))
    kube.control()
    kube.until(lambda: Card.objects.count() == 16)
    kube.fleet.silent = {"gpu-2"}
    run = "echo $RANK of $WORLD_SIZE at $MASTER_ADDR; cat $TAIJI_HOSTFILE; sleep 1"
    task = world.task(hosts=2, cards=8, config={"start_cmd": run, "exec_start_in_all_mpi_pods": True})
    kube.until(lambda: Instance.objects.filter(phase="ready").count() == 1)
    for _ in range(10):
        kube.step()
    assert kube.log(task) == b""  # it waits for the other
    kube.fleet.silent = set()
    kube.state(task, "running")
    assert [one["metadata"]["name"] for one in kube.things("services")] == [f"taiji-{task.attempts.get().pk}"]
    kube.state(task, "succeeded")
    gang = task.attempts.get().pk
    where = kube.namespace.encode()
    hosts = b"".join(b"taiji-%d-%d.taiji-%d.%s.svc slots=8\n" % (gang, rank, gang, where) for rank in (0, 1))
    master = b"taiji-%d-0.taiji-%d.%s.svc" % (gang, gang, where)
    for rank in (0, 1):
        assert kube.log(task, rank) == b"%d of 2 at %s\n" % (rank, master) + hosts
    kube.settle()
    kube.until(lambda: not kube.things("services"))  # it went with its owner


def test_the_others_of_a_gang_keep_their_place_where_only_the_first_is_to_run(
    world: World, kube: Kube
) -> None:
    world.business("ads", P40=16)
    for name in ("gpu-1", "gpu-2"):
        kube.add(node(name))
    kube.control()
    kube.until(lambda: Card.objects.count() == 16)
    task = world.task(hosts=2, cards=8, config={"start_cmd": "echo only me"})
    kube.state(task, "succeeded")
    kube.settle()
    assert (kube.log(task, 0), kube.log(task, 1)) == (b"only me\n", b"")
    assert kube.leased() == 0


def test_a_failure_says_what_the_process_ended_with(world: World, kube: Kube) -> None:
    world.business("ads", P40=8)
    kube.add(node("gpu-1"))
    kube.control()
    kube.until(lambda: Card.objects.count() == 8)
    task = world.task(config={"start_cmd": "echo oh no; exit 3"})
    kube.state(task, "failed")
    attempt = task.attempts.get()
    assert (attempt.outcome_code, attempt.outcome_args["exit_code"]) == ("exit_code", 3)
    kube.settle()


def test_a_stop_ends_the_whole_tree_of_a_pod_within_its_grace(world: World, kube: Kube) -> None:
    world.business("ads", P40=8)
    kube.add(node("gpu-1"))
    kube.control()
    kube.until(lambda: Card.objects.count() == 8)
    run = "trap 'echo told; exit 9' TERM; sleep 100 & sleep 100 & wait"
    task = world.task(config={"start_cmd": run})
    kube.state(task, "running")
    services.stop(task, world.user("ann"))
    kube.state(task, "stopped")
    kube.settle()
    assert b"told" in kube.log(task)
    kube.until(lambda: not kube.fleet.running)
    assert kube.leased() == 0
