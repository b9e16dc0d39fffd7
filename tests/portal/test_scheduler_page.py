"""The page of the scheduler: its figures are those of the queue and of the passes, to whom they are his."""

from datetime import timedelta

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from jobs.engine import pass_log, passes
from jobs.models import PassMinute
from jobs.portal import queue_figures
from tests.world import World

PAGE = "/cluster/scheduler/"
NOW = timezone.now().replace(minute=30, second=0, microsecond=0)


def minute(before: timedelta, **fields: int) -> None:
    at = int((NOW - before).timestamp() // 60)
    given = {"passes": 2, "took_ms": 30, "longest_ms": 20, "starts": 0, "evictions": 0, **fields}
    PassMinute.objects.create(minute=at, **given)


def test_waiting_tasks_are_counted_by_reason_class_and_type(world: World) -> None:
    for _ in range(3):
        world.task(cards=4, reason_code="no_cards")
    world.task(cards=2, reason_code="no_cards", wanted_class="elastic", gpu_types=["M40", "P40"])
    world.task(cards=1)
    world.task(cards=8, state="running")
    found = queue_figures.read(world.operator())
    assert (found.tasks, found.cards) == (5, 15)
    first, second = found.by_reason
    assert [number.tasks for number in first.classes] == [3, 1, 0]
    assert (first.all.tasks, first.cards) == (4, 14)
    assert first.classes[0].address == "state=waiting&reason=no_cards&class=high"
    assert second.label == queue_figures.NEW
    assert [(line.label, line.all.tasks) for line in found.by_type] == [("P40", 4), ("M40, P40", 1)]
    assert found.by_type[1].all.address == "state=waiting&gpu_type=M40&gpu_type=P40"


def test_a_number_leads_to_the_list_of_the_tasks_that_it_counts(world: World, operator: Client) -> None:
    for name in ("one", "two"):
        world.task(task_flag=name, cards=4, reason_code="no_cards")
    world.task(task_flag="other", cards=4, reason_code="quota")
    address = queue_figures.read(world.operator()).by_reason[0].all.address
    rows = operator.get(f"/tasks/?{address}").context["page"].rows
    assert [row.flag for row in rows] == ["two", "one"]


def test_a_member_sees_the_queue_of_his_businesses_alone(world: World, ann: Client, operator: Client) -> None:
    world.task(cards=1, reason_code="quota")
    for _ in range(4):
        world.task("speech", "oz", cards=1, reason_code="quota")
    assert ann.get(PAGE).context["queue"].tasks == 1
    assert operator.get(PAGE).context["queue"].tasks == 5


def test_what_passes_did_is_for_those_who_see_all(world: World, ann: Client, operator: Client) -> None:
    minute(timedelta(0), starts=7)
    assert ann.get(PAGE).context["day"] is None
    assert b"pass-times" not in ann.get(PAGE).content
    assert b"pass-times" in operator.get(PAGE).content


def test_the_number_of_queries_does_not_grow_with_the_queue(world: World, operator: Client) -> None:
    def queries() -> int:
        with CaptureQueriesContext(
            connection,
        ) as seen:
            operator.get(PAGE)
        return len(seen)

    world.task(cards=1, reason_code="quota")
    few = queries()
    for number in range(30):
        world.task(cards=1, reason_code="quota", gpu_types=[f"T{number}"])
        minute(timedelta(minutes=number))
    assert queries() == few


def test_a_fragment_holds_the_queue_and_nothing_around_it(ann: Client) -> None:
    fragment = ann.get(PAGE, headers={"HX-Request": "true"}).content.decode()
    assert 'id="figures"' in fragment
    assert "<html" not in fragment


def test_a_pass_adds_itself_to_its_minute(world: World) -> None:
    world.business("ads", P40=8)
    world.host("h1")
    world.task(cards=8)
    world.task(cards=8)
    assert passes.run() is not None
    first = PassMinute.objects.get()
    assert (first.passes, first.starts, first.evictions) == (1, 1, 0)
    assert first.took_ms == first.longest_ms > 0


def test_two_passes_of_a_minute_share_its_row(world: World) -> None:
    pass_log.note(600.0, 20.0, 1, 0)
    pass_log.note(659.9, 50.0, 2, 3)
    pass_log.note(660.0, 5.0, 0, 0)
    assert list(PassMinute.objects.order_by("minute").values_list()) == [
        (10, 2, 70.0, 50.0, 3, 3),
        (11, 1, 5.0, 5.0, 0, 0),
    ]


def test_a_pass_that_has_nothing_to_plan_is_not_counted(world: World) -> None:
    passes.run()
    passes.run()
    assert PassMinute.objects.get().passes == 1


@pytest.mark.parametrize("empty", [False, True])
def test_spans_without_a_pass_are_there_too(world: World, empty: bool) -> None:
    if not empty:
        minute(timedelta(0), starts=4, evictions=1)
        minute(timedelta(minutes=1), starts=1, longest_ms=29)
        minute(timedelta(hours=2), passes=1)
    spans = pass_log.spans(NOW, 60, 3)
    assert [span.passes for span in spans] == ([0, 0, 0] if empty else [1, 0, 4])
    assert [span.starts for span in spans] == ([0, 0, 0] if empty else [0, 0, 5])
    assert spans[-1].at == NOW.replace(minute=0)
    assert spans[1].mean_ms is None
    assert spans[2].mean_ms == (None if empty else 15.0)
    assert spans[2].longest_ms == (None if empty else 29.0)


def test_old_minutes_go_and_the_others_stay(world: World) -> None:
    minute(timedelta(days=34))
    minute(timedelta(days=36))
    assert pass_log.remove_old(NOW) == 1
    assert PassMinute.objects.count() == 1
