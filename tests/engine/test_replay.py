"""What ran here as work for the simulator, and the command that replays it under two policies."""

import json
from datetime import UTC, datetime, timedelta
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from cluster.models import Card
from jobs.engine import replay
from jobs.models import Attempt, Policy, Task
from jobs.scheduling.types import Policy as Rules
from jobs.simulation.figures import report
from jobs.simulation.job import Job
from jobs.simulation.simulate import Simulator
from quotas.models import Reservation
from tests.world import World

pytestmark = pytest.mark.django_db
NOW = timezone.now().replace(microsecond=0)
HOUR = timedelta(hours=1)


def ran(
    task: Task, began_h: float, ended_h: float | None, outcome: str = "succeeded", told_h: float | None = None
) -> None:
    """Give the task an attempt that held its cards from so many hours ago to so many hours ago."""
    ended, told = (None if hours is None else NOW - hours * HOUR for hours in (ended_h, told_h))
    Attempt.objects.create(
        task=task,
        number=task.attempts.count() + 1,
        task_class="elastic" if task.wanted_class == "elastic" else "high",
        gpu_type_id=task.gpu_types[0],
        cards=task.host_num * task.host_gpu_num,
        created_at=NOW - began_h * HOUR,
        ending_at=told,
        ended_at=ended,
        outcome=outcome if ended else "",
    )
    state = "running" if ended is None else {"evicted": "queued"}.get(outcome, outcome)
    Task.objects.filter(pk=task.pk).update(state=state, ended_at=None if state == "queued" else ended)


def submitted(task: Task, hours_ago: float) -> Task:
    Task.objects.filter(pk=task.pk).update(submitted_at=NOW - hours_ago * HOUR)
    return task


def near(*numbers: float) -> Any:
    """Return what is equal to these numbers: the database keeps no more than a tenth of a millisecond."""
    return pytest.approx(numbers, abs=0.001)


def jobs(recorded: replay.Recorded) -> dict[int, Job]:
    return {what.id: what for _, kind, what in recorded.under(Rules()).events if kind == "submit"}


def load(days: float = 1) -> replay.Recorded:
    return replay.load(NOW.timestamp(), days)


@pytest.fixture
def small(world: World) -> World:
    """Return a world with one host and two businesses."""
    world.host("h1")
    world.business("ads", P40=8)
    world.business("nlp", P40=0)
    return world


def test_a_task_counts_from_its_submission_with_the_work_of_its_attempts(small: World) -> None:
    task = submitted(small.task("ads", hosts=1, cards=4, priority=2), 5)
    ran(task, 4, 1.5)
    [job] = jobs(load()).values()
    assert (job.submitted, job.duration) == near(19 * 3600, 2.5 * 3600)
    assert (job.host_num, job.host_gpu_num, job.priority, job.wanted) == (1, 4, 2, "high")
    assert (job.business, job.user, job.name) == (task.business_id, task.user_id, str(task.pk))


@pytest.mark.parametrize(("interval", "hours"), [(None, 2), (1800, 3.5), (0, 3.7)])
def test_of_an_evicted_attempt_only_what_its_checkpoints_kept_is_work(
    small: World, interval: int | None, hours: float
) -> None:
    task = submitted(
        small.task("nlp", "ben", wanted_class="elastic", pull_up=True, checkpoint_interval_s=interval), 9
    )
    ran(task, 8, 6.25, "evicted", told_h=6.3)
    ran(task, 5, 3)
    [job] = jobs(load()).values()
    assert job.duration == pytest.approx(hours * 3600, abs=1)
    assert job.exit_s == pytest.approx(0.05 * 3600, abs=1)
    assert job.pull_up


def test_what_runs_counts_so_far_and_what_never_ran_is_left_out(small: World) -> None:
    ran(submitted(small.task("ads"), 3), 2, None)
    submitted(small.task("ads"), 1)
    recorded = load()
    [job] = jobs(recorded).values()
    assert job.duration == pytest.approx(2 * 3600)
    assert (recorded.tasks, recorded.still_running, recorded.never_ran) == (1, 1, 1)


def test_earlier_days_count_only_as_far_as_they_reach_into_these(small: World) -> None:
    ran(submitted(small.task("ads"), 60), 50, 30)
    across = submitted(small.task("ads"), 60)
    ran(across, 50, 20)
    [job] = jobs(load()).values()
    assert (job.id, job.submitted, job.duration) == near(across.pk, 0, 4 * 3600)


def test_a_task_that_was_not_to_start_before_a_time_counts_from_then(small: World) -> None:
    later = (NOW - 2 * HOUR).astimezone(UTC).isoformat()
    ran(submitted(small.task("ads", config={"not_before": later}), 9), 1.5, 1)
    [job] = jobs(load()).values()
    assert job.submitted == 22 * 3600


def test_hosts_come_with_all_their_good_cards_free_and_quotas_as_they_are(small: World) -> None:
    Card.objects.filter(index=3).update(state="broken")
    ran(small.task("ads", cards=8), 1, None)
    setup = load().under(Rules(slice_s=5))
    [host] = setup.hosts
    assert (host.total, host.free_numbers, host.state) == (7, (0, 1, 2, 4, 5, 6, 7), "ready")
    assert sorted(row.cards for row in setup.quotas) == [0, 8]
    assert setup.policy.slice_s == 5


def test_reservations_of_these_days_hold_in_the_simulation_too(small: World) -> None:
    Reservation.objects.create(
        business=small.business("ads"), gpu_type=small.gpu_type(), cards=8, kind="once",
        starts_at=NOW - 5 * HOUR, ends_at=NOW - 4 * HOUR,
    )  # fmt: skip
    [(at, kind, row)] = [event for event in load().under(Rules()).events if event[1] == "reservation"]
    assert (at, kind, row.start, row.end) == (0, "reservation", 19 * 3600, 20 * 3600)


def test_a_simulation_leaves_the_work_as_it_was_for_the_next_one(small: World) -> None:
    ran(submitted(small.task("ads", cards=8), 3), 3, 2)
    ran(submitted(small.task("ads", cards=8), 3), 2, 1)
    recorded = load()
    waits = []
    for _ in range(2):
        simulator = Simulator(recorded.under(Rules()))
        simulator.run()
        waits.append(report(simulator)["summary"]["avg_wait_s"])
    assert waits == [pytest.approx(1800)] * 2


def test_it_takes_as_many_queries_for_many_tasks(small: World) -> None:
    counts = []
    for _ in range(2):
        for _ in range(3):
            ran(submitted(small.task("ads"), 3), 2, 1)
        with CaptureQueriesContext(connection) as queries:
            load()
        counts.append(len(queries))
    assert counts[0] == counts[1]


def live(*arguments: str) -> str:
    out = StringIO()
    call_command("simulate", "--live", *arguments, stdout=out)
    return out.getvalue()


@pytest.fixture
def queue(small: World) -> list[Task]:
    """Return three tasks that want the whole host: a long one, and two short ones behind it."""
    Policy.objects.create(pk=1, values={"elastic_order": "fifo"})
    tasks: list[Task] = []
    for work_h in (0.5, 4, 1):
        task = submitted(small.task("nlp", "ben", cards=8, wanted_class="elastic"), 9 - len(tasks) * 0.1)
        ran(task, work_h + 1, 1)
        tasks.append(task)
    return tasks


def test_two_policies_side_by_side(queue: list[Task]) -> None:
    said = live("--policy", "elastic_order=shortest_first", "aging_s=0", "--days", "1")
    rows = {line.split("  ")[0]: line.split("  ")[1:] for line in said.splitlines()}
    assert "3 tasks since" in said
    assert [cell.strip() for cell in rows["elastic: half wait no longer than"] if cell] == [
        "24 min",
        "18 min",
    ]
    assert [cell.strip() for cell in rows["elastic: 95 % wait no longer than"] if cell] == [
        "3 h 55 min",
        "1 h 17 min",
    ]
    assert "elastic_order=shortest_first, aging_s=0" in said


def test_the_json_has_both(queue: list[Task], tmp_path: Path) -> None:
    live("--policy", "elastic_order=shortest_first", "--json", str(tmp_path / "out.json"))
    found: dict[str, Any] = json.loads((tmp_path / "out.json").read_text())
    assert list(found) == ["today's policy", "elastic_order=shortest_first"]
    assert all(each["summary"]["finished"] == 3 for each in found.values())


def test_without_another_policy_it_shows_todays_alone(queue: list[Task]) -> None:
    assert "elastic: tasks finished" in live()


def test_where_nothing_ran_it_says_so(small: World) -> None:
    with pytest.raises(CommandError, match="no task ran here since"):
        live()


def test_the_clock_of_a_replay_begins_where_its_days_begin(small: World) -> None:
    assert load(0.5).since == datetime.fromtimestamp(NOW.timestamp() - 43200, UTC)
