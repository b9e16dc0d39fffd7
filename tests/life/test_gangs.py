"""Gangs over several hosts: they start together, talk to each other, and end together."""

import shutil
import signal
import sys
import time
from datetime import timedelta

import pytest
from django.utils import timezone

from cluster.models import CardLease, Host, Instance
from jobs import endings
from jobs.models import Task
from tests.agent.conftest import ROOT, marked
from tests.agent.engines import Service
from tests.life.house import House

ALL = {"host_num": 2, "exec_start_in_all_mpi_pods": True}
STAY = "echo up; while :; do sleep 0.05; done"


@pytest.fixture
def two(house: House) -> House:
    """Return a house with two hosts, each with an address of its own."""
    return with_two(house)


def with_two(house: House) -> House:
    """Add two hosts, each with an address of its own."""
    house.host("h2", address="127.0.0.2")
    house.host("h3", address="127.0.0.3")
    return house


def members(task: Task) -> list[Instance]:
    attempt = task.attempts.latest("number")
    return list(Instance.objects.filter(gang=attempt.pk).select_related("host").order_by("rank"))


def free_of_leases() -> bool:
    return not CardLease.objects.filter(released_at=None).exists()


def said_of(task: Task) -> str:
    attempt = task.attempts.latest("number")
    return endings.sentence(attempt.outcome_code, attempt.outcome_args)


def test_the_members_of_a_gang_add_up_their_numbers_over_the_network(two: House) -> None:
    script = two.storage / "allreduce.py"
    shutil.copy(ROOT / "docs/examples/allreduce.py", script)
    task = two.submit(f"exec {sys.executable} {script}", **ALL)
    two.reach(task, "succeeded")
    lines = sorted(two.printed(task, "\n", rank) for rank in (0, 1))
    assert lines == ["rank 0 of 2: sums [3.0, 110.0]\n", "rank 1 of 2: sums [3.0, 110.0]\n"]


@pytest.mark.parametrize("everywhere", [True, False], ids=["on all", "on the first"])
def test_the_start_command_runs_once_all_members_are_ready(two: House, everywhere: bool) -> None:
    late = two.hosts[1]
    late.pause()
    task = two.submit(STAY, host_num=2, exec_start_in_all_mpi_pods=everywhere)
    two.reach(task, "starting")
    on_time = next(one for one in members(task) if one.host.name == "h2")
    waits = "ready" if everywhere or on_time.rank == 0 else "running"
    two.until(lambda: two.member(task, on_time.rank).phase == waits)
    time.sleep(0.5)
    assert [two.log(task, rank) for rank in (0, 1)] == ["", ""]
    late.go_on()
    two.reach(task, "running")
    assert two.printed(task, "up") == "up\n"
    assert two.until(lambda: two.log(task, 1) == ("up\n" if everywhere else ""))


def test_where_only_the_first_member_runs_the_others_keep_their_place_until_it_ends(two: House) -> None:
    task = two.submit("echo only $RANK of $WORLD_SIZE; sleep 0.5", host_num=2)
    two.reach(task, "succeeded")
    assert two.printed(task, "only") == "only 0 of 2\n"
    assert [(one.exit_code, one.ended_by_itself) for one in members(task)] == [(0, True), (None, False)]
    assert free_of_leases()


def test_a_gang_whose_member_cannot_start_is_stopped_whole_and_the_host_is_named(either: House) -> None:
    house = either
    house.host("h2", address="127.0.0.2")
    house.host("h3", address="127.0.0.3", storage=(broken := house.broken_storage()))
    task = house.submit("echo never", retry_limit=1, **ALL)
    house.reach(task, "queued", "failed")
    house.until(lambda: task.attempts.filter(ended_at__isnull=False).exists())
    first = house.attempt(task, 1)
    assert endings.sentence(first.outcome_code, first.outcome_args) == (
        f"Rank {first.outcome_args['rank']} of a gang of 2: It could not be started on h3: "
        f"The folder {broken}/business-{task.business_id} could not be made: File exists."
    )
    assert [house.log(task, rank, number=1) for rank in (0, 1)] == ["", ""]
    task.refresh_from_db()
    assert task.avoid_hosts == [Host.objects.get(name="h3").pk]


def test_a_gang_that_is_not_whole_by_its_deadline_is_stopped_whole_and_frees_its_cards(either: House) -> None:
    two = with_two(either)
    two.hosts[1].pause()
    task = two.submit("echo never", **ALL)
    two.until(Instance.objects.filter(phase="ready").exists)  # h2 did its part
    two.policy(start_deadline_s=1.0)
    two.reach(task, "stopping")
    assert task.attempts.get().outcome_args["hosts"] == "h3"
    two.until(lambda: sorted(one.phase for one in members(task)) == ["gone", "pending"])
    assert CardLease.objects.filter(released_at=None).count() == 2  # nobody knows what h3 does
    two.hosts[1].go_on()
    two.reach(task, "failed")
    assert free_of_leases()
    assert said_of(task) == "Not every process ran 1 s after the start: h3"
    assert [two.log(task, rank) for rank in (0, 1)] == ["", ""]


def test_a_member_that_fails_ends_the_others_once_and_is_named(either: House) -> None:
    two = with_two(either)
    command = f'if [ $RANK = 1 ]; then while ! test -e "$TAIJI_TASK_DIR/fail"; do sleep 0.02; done; exit 7; fi; {STAY}'
    task = two.submit(command, exit_cmd="echo leaving", **ALL)
    two.reach(task, "running")
    two.printed(task, "up")
    (two.storage / f"business-{task.business_id}/task-{task.pk}/fail").touch()
    two.reach(task, "failed")
    second = members(task)[1].host.name
    assert said_of(task) == f"Rank 1 of a gang of 2: The process on {second} ended with exit code 7"
    two.printed(task, "leaving")
    assert two.log(task).count("leaving") == 1
    assert task.events.filter(new_state="stopping").count() == 1
    assert free_of_leases()


def test_an_evicted_gang_is_no_failure_whatever_its_members_say(either: House) -> None:
    house = either
    for number in range(2, 6):
        house.host(f"h{number}", 1, address=f"127.0.0.{number}")
    command = f"trap 'exit $((134 + 3 * (RANK % 2)))' TERM; {STAY}"
    task = house.submit(
        command,
        **{**ALL, "host_num": 4},
        is_elasticity=True,
        enable_evicted_pulled_up=True,
        retry_limit=3,
    )
    house.reach(task, "running")
    for rank in range(4):
        house.printed(task, "up", rank)
    Host.objects.filter(name="h2").update(state="draining")
    house.reach(task, "queued")
    assert [attempt.outcome for attempt in task.attempts.all()] == ["evicted"]
    assert task.events.filter(new_state="evicting").count() == 1
    assert {one.exit_code for one in members(task)} == {134, 137}
    assert [marked(str(one.pk)) for one in members(task)] == [[]] * 4


@pytest.mark.postgresql_alone
def test_a_gang_whose_image_nobody_has_never_runs_and_gives_its_cards_back(
    two: House, podman: Service
) -> None:
    image = f"{podman.registry.address}/nobody/has:1"
    two.contain(podman)
    boxed = [two.host(f"h{number}", address=f"127.0.0.{number}") for number in (4, 5)]
    task = two.submit("echo never", **ALL, image_full_name=image)
    two.reach(task, "failed")
    assert "running" not in task.events.values_list("new_state", flat=True)
    assert task.attempts.count() == 1
    assert f"The image {image} cannot be had: " in said_of(task)
    assert {one.host.name for one in members(task)} == {
        host.name for host in boxed
    }  # h2 and h3 have no engine
    assert free_of_leases()


def test_members_of_a_lost_attempt_are_ended_and_harm_the_next_one_not(house: House) -> None:
    for number in (2, 3, 4):
        house.host(f"h{number}", address=f"127.0.0.{number}")
    house.policy(pull_up_backoff_s=0.1)
    task = house.submit(STAY, **ALL, is_elasticity=True, enable_evicted_pulled_up=True)
    house.reach(task, "running")
    old = members(task)
    lost = next(host for host in house.hosts if host.name == old[1].host.name)
    lost.end(signal.SIGKILL)
    silent = Host.objects.filter(name=lost.name)
    long_ago = timezone.now() - timedelta(hours=1)
    # Again and again: a last report may be on its way.
    house.until(lambda: silent.update(lost_since=long_ago) and task.attempts.count() == 2)
    house.reach(task, "running")
    assert marked(str(old[1].pk))  # nobody could end it yet
    new = members(task)
    assert lost.name not in {one.host.name for one in new}
    lost.start()
    house.until(lambda: not marked(str(old[1].pk)))  # reported as running, and ended before it takes work
    house.until(lambda: Host.objects.get(name=lost.name).lost_since is None)
    house.reach(task, "running")
    assert task.attempts.count() == 2
    assert all(marked(str(one.pk)) for one in new)
