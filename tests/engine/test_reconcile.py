"""What an open attempt does next, given what its hosts observed."""

from datetime import timedelta

import pytest
from django.utils import timezone

from cluster import host_events
from cluster.agent import protocol
from cluster.models import CardLease, Host, Instance
from jobs import services
from jobs.models import Attempt, Task
from quotas.models import UsageRow
from tests.engine.started import after_pass, start
from tests.world import World

pytestmark = pytest.mark.django_db


@pytest.fixture
def running(world: World) -> Task:
    """Return a gang of two hosts whose members all run the start command."""
    return start(world, hosts=2, cards=2, config={"exec_start_in_all_mpi_pods": True})


def last_end(task: Task) -> tuple[str, str]:
    attempt = task.attempts.latest("number")
    return attempt.outcome, attempt.outcome_code


def live_leases() -> int:
    return CardLease.objects.filter(released_at=None).count()


def test_a_started_task_is_starting_until_every_member_runs(world: World) -> None:
    world.business("ads", P40=16)
    world.host("h1")
    world.host("h2")
    task = world.task(hosts=2, cards=2)
    assert after_pass(task).state == "starting"
    world.host_says(task, "running", 0)
    assert after_pass(task).state == "starting"
    world.host_says(task, "running", 1)
    assert after_pass(task).state == "running"
    assert world.attempt(task).running_at is not None


def test_a_task_succeeds_when_all_members_ended_well_and_its_cards_are_free(
    world: World, running: Task
) -> None:
    world.host_says(running, "gone", 0)
    assert after_pass(running).state == "running"
    assert live_leases() == 4
    world.host_says(running, "gone", 1)
    assert after_pass(running).state == "succeeded"
    assert live_leases() == 0
    assert running.ended_at is not None


def test_every_attempt_leaves_one_usage_row(world: World, running: Task) -> None:
    attempt = world.attempt(running)
    world.host_says(running, "gone")
    after_pass(running)
    after_pass(running)
    row = UsageRow.objects.get(attempt=attempt.pk)
    assert (row.cards, row.task_class, row.outcome) == (4, "high", "succeeded")
    assert row.seconds == pytest.approx((row.ended_at - row.started_at).total_seconds())


def test_a_failed_member_stops_the_rest_once_and_the_cause_is_named(world: World, running: Task) -> None:
    attempt = world.attempt(running)
    world.host_says(running, "gone", 1, exit_code=3)
    assert after_pass(running).state == "stopping"
    assert not Instance.objects.get(gang=attempt.pk, rank=0).wanted
    world.host_says(running, "gone", 0, exit_code=None, exit_signal=15, ended_by_itself=False)
    assert after_pass(running).state == "failed"
    assert last_end(running) == ("failed", "exit_code")
    ended = running.attempts.get()
    assert ended.outcome_args["exit_code"] == 3
    assert ended.outcome_args["host"] == Instance.objects.get(gang=attempt.pk, rank=1).host.name
    assert running.events.filter(new_state="stopping").count() == 1


def test_where_only_the_first_member_works_its_good_end_ends_the_idle_ones(world: World) -> None:
    task = start(world, hosts=2, cards=2)
    world.host_says(task, "gone", 0)
    assert after_pass(task).state == "stopping"
    world.host_says(task, "gone", 1, exit_code=None, ended_by_itself=False)
    assert after_pass(task).state == "succeeded"


def test_an_instance_that_never_started_fails_its_task_with_what_the_host_said(world: World) -> None:
    task = start(world)
    world.host_says(task, "gone", exit_code=None, detail="the work folder cannot be made: disk full")
    assert after_pass(task).state == "failed"
    assert last_end(task) == ("failed", "start_failed")
    assert "disk full" in task.attempts.get().outcome_args["detail"]


def test_only_failures_spend_the_retry_limit(world: World) -> None:
    task = start(world, retry_limit=1, wanted_class="elastic", pull_up=True)
    Task.objects.filter(pk=task.pk).update(submitted_at=timezone.now() - timedelta(hours=1))
    for _ in range(2):
        evict(world, task)
        assert task.state == "queued"
        again(world, task)
    world.host_says(task, "gone", exit_code=1)
    assert after_pass(task).state == "queued"
    again(world, task)
    world.host_says(task, "gone", exit_code=1)
    assert after_pass(task).state == "failed"


def evict(world: World, task: Task) -> None:
    """Let the cordon of its host's drain evict the task, wholly."""
    attempt = world.attempt(task)
    host = Instance.objects.get(gang=attempt.pk).host
    host.state = "draining"
    host.save()
    assert after_pass(task).state == "evicting"
    world.host_says(task, "gone", exit_code=None, exit_signal=15, ended_by_itself=False)
    after_pass(task)
    host.state = "ready"
    host.save()


def again(world: World, task: Task) -> None:
    """Let the backoff pass and the task run again."""
    Task.objects.filter(pk=task.pk).update(ready_at=timezone.now() - timedelta(seconds=1))
    assert after_pass(task).state == "starting"
    world.host_says(task, "running")
    assert after_pass(task).state == "running"


def test_an_evicted_task_waits_with_a_backoff_that_grows(world: World) -> None:
    task = start(world, wanted_class="elastic", pull_up=True)
    waits = []
    for _ in range(3):
        evict(world, task)
        assert task.ready_at is not None
        waits.append((task.ready_at - task.queued_at).total_seconds())
        again(world, task)
    assert waits == [10, 20, 40]
    assert task.submitted_at < task.queued_at


def test_an_evicted_task_without_pull_up_ends_as_evicted(world: World) -> None:
    task = start(world, wanted_class="elastic")
    evict(world, task)
    assert task.state == "evicted"
    assert live_leases() == 0


def test_a_victim_that_ended_well_before_the_order_reached_it_has_succeeded(world: World) -> None:
    task = start(world, wanted_class="elastic", pull_up=True)
    Host.objects.update(state="draining")
    assert after_pass(task).state == "evicting"
    world.host_says(task, "gone")
    assert after_pass(task).state == "succeeded"
    assert last_end(task) == ("succeeded", "succeeded")


def test_an_evicted_gang_whose_members_report_137_is_evicted_and_not_failed(world: World) -> None:
    task = start(
        world,
        hosts=2,
        cards=1,
        wanted_class="elastic",
        pull_up=True,
        config={"exec_start_in_all_mpi_pods": True},
    )
    Host.objects.update(state="draining")
    assert after_pass(task).state == "evicting"
    world.host_says(task, "gone", 0, exit_code=137, ended_by_itself=False)
    world.host_says(task, "gone", 1, exit_code=143, ended_by_itself=True)
    assert after_pass(task).state == "queued"
    assert last_end(task) == ("evicted", "evicted")


def test_a_task_over_its_time_limit_is_stopped_and_failed(world: World) -> None:
    task = start(world, time_limit_s=60)
    Attempt.objects.update(created_at=timezone.now() - timedelta(seconds=61))
    assert after_pass(task).state == "stopping"
    world.host_says(task, "gone", exit_code=None, exit_signal=9, ended_by_itself=False)
    assert after_pass(task).state == "failed"
    assert last_end(task) == ("failed", "time_limit")


def test_a_gang_that_is_not_whole_by_its_deadline_is_stopped_whole_and_the_host_is_named(
    world: World,
) -> None:
    world.business("ads", P40=16)
    world.host("h1")
    world.host("h2")
    task = world.task(hosts=2, cards=2)
    after_pass(task)
    world.host_says(task, "running", 0)
    Attempt.objects.update(created_at=timezone.now() - timedelta(seconds=901))
    assert after_pass(task).state == "stopping"
    assert world.attempt(task).outcome_args["hosts"] == Instance.objects.get(rank=1).host.name
    assert not Instance.objects.filter(wanted=True).exists()


@pytest.mark.parametrize(
    ("phases", "late"),
    [(("ready", "starting"), [1]), (("pending", "running"), [0]), (("ready", "ready"), [0, 1])],
)
def test_a_next_attempt_avoids_the_hosts_that_the_others_waited_for(
    world: World, phases: tuple[str, str], late: list[int]
) -> None:
    world.business("ads", P40=16)
    for name in ("h1", "h2", "h3", "h4"):
        world.host(name)
    task = world.task(hosts=2, cards=2, retry_limit=1)
    after_pass(task)
    gang = Instance.objects.filter(gang=world.attempt(task).pk)
    for rank, phase in enumerate(phases):
        world.host_says(task, phase, rank)
    Attempt.objects.update(created_at=timezone.now() - timedelta(seconds=901))
    assert after_pass(task).state == "stopping"
    world.host_says(
        task, "gone", exit_code=None, ended_by_itself=False, detail="It was stopped before it started."
    )
    assert after_pass(task).state == "queued"
    assert last_end(task) == ("failed", "start_deadline")
    assert task.avoid_hosts == sorted(gang.filter(rank__in=late).values_list("host_id", flat=True))


def test_a_task_that_keeps_its_place_holds_cards_and_quota_until_it_is_freed(world: World) -> None:
    task = start(world, keep_alive=True)
    world.host_says(task, "gone")
    assert after_pass(task).state == "keeping"
    assert live_leases() == 1
    services.free(task, task.user)
    assert task.state == "succeeded"
    assert live_leases() == 0


def test_a_kept_place_ends_by_itself(world: World) -> None:
    task = start(world, keep_alive=True)
    world.host_says(task, "gone", exit_code=2)
    assert after_pass(task).state == "keeping"
    Attempt.objects.update(keep_until=timezone.now())
    assert after_pass(task).state == "failed"


@pytest.mark.parametrize(
    ("detail", "code"), [(protocol.KEEPER_LOST, "keeper_lost"), (protocol.HOST_RESTARTED, "host_restarted")]
)
def test_an_end_that_nobody_saw_is_lost_and_pulled_up_where_the_task_asks_so(
    world: World, detail: str, code: str
) -> None:
    task = start(world, wanted_class="elastic", pull_up=True)
    world.host_says(task, "gone", exit_code=None, detail=detail, ended_by_itself=None)
    assert after_pass(task).state == "queued"
    assert last_end(task) == ("lost", code)


def test_a_lost_host_keeps_its_tasks_until_the_policy_gives_them_up(world: World) -> None:
    task = start(world, wanted_class="elastic", pull_up=True)
    host = Instance.objects.get().host
    Host.objects.exclude(pk=host.pk).update(last_seen_at=timezone.now())  # somebody is heard
    host.lost_since = timezone.now() - timedelta(seconds=800)
    host.save()
    assert after_pass(task).state == "running"
    host.lost_since = timezone.now() - timedelta(seconds=901)
    host.save()
    assert after_pass(task).state == "queued"
    assert last_end(task) == ("lost", "lost")


def test_what_runs_on_a_removed_host_is_ended_there_before_it_comes_back_elsewhere(world: World) -> None:
    task = start(world, wanted_class="elastic", pull_up=True)
    Host.objects.filter(pk=Instance.objects.get().host_id).update(state="removed")
    assert after_pass(task).state == "stopping"
    world.host_says(task, "gone", exit_code=None, exit_signal=15, ended_by_itself=False)
    assert after_pass(task).state == "queued"
    assert last_end(task) == ("lost", "lost")


def test_a_lost_host_that_operators_remove_gives_up_its_tasks_at_once(world: World) -> None:
    task = start(world, wanted_class="elastic", pull_up=True)
    host = Host.objects.filter(pk=Instance.objects.get().host_id)
    host.update(state="removed", lost_since=timezone.now())
    assert after_pass(task).state == "queued"


def test_while_no_host_at_all_is_heard_nothing_is_given_up(world: World) -> None:
    task = start(world, wanted_class="elastic", pull_up=True)
    Host.objects.update(
        last_seen_at=timezone.now() - timedelta(hours=2), lost_since=timezone.now() - timedelta(hours=1)
    )
    assert after_pass(task).state == "running"


def test_when_all_hosts_were_silent_the_first_that_is_back_does_not_give_up_the_others(world: World) -> None:
    task = start(world, wanted_class="elastic", pull_up=True)
    lost, back = Instance.objects.get().host, world.host("back")
    Host.objects.exclude(pk=back.pk).update(lost_since=timezone.now() - timedelta(hours=1))
    Host.objects.filter(pk=back.pk).update(last_seen_at=timezone.now())
    event = host_events.note(back.pk, "back")
    assert after_pass(task).state == "running"
    event.at -= timedelta(seconds=91)  # by now the others would be heard as well
    event.save()
    Host.objects.filter(pk=back.pk).update(last_seen_at=timezone.now())
    assert lost != back
    assert after_pass(task).state == "queued"


def test_an_attempt_that_cannot_be_judged_does_not_keep_others_from_their_step(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    broken, good = start(world), start(world)
    CardLease.objects.filter(instance__gang=world.attempt(broken).pk).delete()
    Instance.objects.filter(gang=world.attempt(broken).pk).delete()
    Task.objects.filter(pk=broken.pk).update(state="starting")
    world.host_says(good, "gone")
    assert after_pass(good).state == "succeeded"
    assert f"task {broken.pk} was left as it is" in caplog.text


def test_a_task_that_is_stopped_while_it_leaves_was_evicted_all_the_same(world: World) -> None:
    task = start(world, wanted_class="elastic")
    Host.objects.update(state="draining")
    assert after_pass(task).state == "evicting"
    services.stop(task, task.user)
    attempt = world.attempt(task)
    assert (attempt.ending, attempt.evict_rule) == ("stopped", "drain")


def test_a_gang_that_lost_one_host_is_stopped_whole_on_the_others_before_it_comes_back(world: World) -> None:
    task = start(world, hosts=2, cards=1, wanted_class="elastic", pull_up=True)
    lost = Instance.objects.get(rank=1).host_id
    Host.objects.exclude(pk=lost).update(last_seen_at=timezone.now())
    Host.objects.filter(pk=lost).update(lost_since=timezone.now() - timedelta(hours=1))
    assert after_pass(task).state == "stopping"
    world.host_says(task, "gone", 0, exit_code=None, exit_signal=15, ended_by_itself=False)
    assert after_pass(task).state == "queued"
    assert last_end(task) == ("lost", "lost")


def test_a_task_that_fails_at_once_avoids_its_host_on_retry(world: World) -> None:
    task = start(world, retry_limit=3)
    host = Instance.objects.get().host_id
    world.host_says(task, "gone", exit_code=1)
    assert after_pass(task).state == "queued"
    assert task.avoid_hosts == [host]


FAULTS = [
    ("code", False),
    ("data", False),
    ("code_away", True),
    ("data_away", True),
    ("image", True),
    ("place", True),
    ("", True),
]


@pytest.mark.parametrize(("cause", "blamed"), FAULTS)
def test_only_a_start_that_another_host_might_have_managed_makes_a_task_avoid_its_host(
    world: World, cause: str, blamed: bool
) -> None:
    task = start(world, retry_limit=1)
    host = Instance.objects.get().host_id
    world.host_says(task, "gone", exit_code=None, detail="It could not be had.", cause=cause)
    assert after_pass(task).state == "queued"
    assert task.avoid_hosts == ([host] if blamed else [])


@pytest.mark.parametrize(("cause", "blamed"), FAULTS)
def test_a_gang_avoids_no_host_for_code_that_none_of_them_can_have(
    world: World, cause: str, blamed: bool
) -> None:
    task = start(world, hosts=2, cards=1, retry_limit=1)
    Instance.objects.update(phase="starting")
    failed = Instance.objects.get(rank=1).host_id
    world.host_says(task, "gone", 1, exit_code=None, detail="It could not be had.", cause=cause)
    assert after_pass(task).state == "stopping"
    world.host_says(task, "gone", 0, exit_code=None, ended_by_itself=False, detail="Stopped.")
    assert after_pass(task).state == "queued"
    assert task.avoid_hosts == ([failed] if blamed else [])


def test_a_task_that_failed_on_every_host_there_is_is_tried_again_all_the_same(world: World) -> None:
    task = start(world, retry_limit=9)
    used = []
    for _ in range(4):
        used.append(Instance.objects.latest("created_at").host_id)
        world.host_says(task, "gone", exit_code=1)
        assert after_pass(task).state == "queued"
        again(world, task)
    assert used[0] != used[1]


def test_hosts_out_of_use_are_no_others_to_go_to(world: World) -> None:
    task = start(world, retry_limit=1)
    Host.objects.exclude(pk=Instance.objects.get().host_id).update(state="cordoned")
    world.host_says(task, "gone", exit_code=1)
    assert after_pass(task).state == "queued"
    again(world, task)
