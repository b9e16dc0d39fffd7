"""What was measured on the cards of a task, over the API: who sees it, of what time, in what form."""

import json
from datetime import datetime, timedelta

import pytest
from django.utils import timezone
from jsonschema import Draft202012Validator

from cluster.models import Card, CardMinute
from jobs.api import shapes
from jobs.models import Attempt, Task
from tests.api.conftest import Caller, errors, run
from tests.world import World

BEGAN = timezone.now().replace(second=0, microsecond=0) - timedelta(hours=3)


@pytest.fixture
def task(ann: Caller, world: World) -> Task:
    """Return a task that ran for an hour on two cards of h1, and runs for an hour on one of h2."""
    task = world.task(state="running")
    run(task, "h1", 0, 1, number=1, ended_at=BEGAN + timedelta(hours=1), outcome="evicted")
    run(task, "h2", 0, number=2)
    for number, hours in ((1, 0), (2, 2)):
        Attempt.objects.filter(task=task, number=number).update(created_at=BEGAN + timedelta(hours=hours))
    for card in Card.objects.filter(host__name__in=("h1", "h2"), index__in=(0, 1)):
        measure(card, BEGAN - timedelta(minutes=1), use_mean=99)  # others had them
        measure(card, BEGAN + timedelta(minutes=5), use_mean=card.index * 10, temperature_max_c=60, xids="31")
        measure(card, BEGAN + timedelta(minutes=125), use_mean=50)
    return task


def measure(card: Card, at: datetime, **values: object) -> None:
    """Have measured `values` on a card in a minute."""
    CardMinute.objects.create(card=card, minute=int(at.timestamp() // 60), **values)


def test_the_cards_of_the_last_attempt_have_a_line_each_for_as_long_as_it_has_them(
    ann: Caller, task: Task
) -> None:
    answer = ann.get(f"tasks/{task.pk}/cards/").json()
    Draft202012Validator(json.loads(json.dumps(shapes.TASK_CARDS))).validate(answer)
    assert (answer["attempt"], answer["step_s"]) == (2, 60)
    assert answer["at"][0] == (BEGAN + timedelta(hours=2)).timestamp()
    (card,) = answer["cards"]
    assert (card["host"], card["rank"], card["index"], card["gpu_type"]) == ("h2", 0, 0, "P40")
    assert [value for value in card["use_mean"] if value is not None] == [50]
    assert card["use_mean"][5] == 50
    assert set(card["power_max_w"]) == {None}


def test_an_earlier_attempt_has_the_cards_that_it_had_and_nothing_of_what_others_did_with_them(
    ann: Caller, task: Task
) -> None:
    answer = ann.get(f"tasks/{task.pk}/cards/", attempt=1).json()
    seen = {
        card["index"]: [value for value in card["use_mean"] if value is not None] for card in answer["cards"]
    }
    assert seen == {0: [0], 1: [10]}
    at = int((BEGAN + timedelta(minutes=5)).timestamp())
    assert answer["cards"][0]["xids"] == [{"at": at, "xid": 31}]
    assert len(answer["at"]) == 61


def test_from_and_to_cut_the_time(ann: Caller, task: Task) -> None:
    since, until = BEGAN + timedelta(minutes=5), BEGAN + timedelta(minutes=6)
    query = {"attempt": 1, "from": since.isoformat(), "to": until.isoformat()}
    answer = ann.get(f"tasks/{task.pk}/cards/", **query).json()
    assert answer["at"] == [since.timestamp(), until.timestamp()]
    assert answer["cards"][1]["use_mean"] == [10, None]


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ({"from": "yesterday"}, "from"),
        ({"to": "2030-01-31T08:00:00"}, "to"),
        ({"to": "9999-12-31T23:59:59-12:00"}, "to"),
        ({"attempt": "first"}, "attempt"),
        ({"rank": "-1"}, "rank"),
    ],
)
def test_what_is_no_time_or_number_is_refused_by_its_name(
    ann: Caller, task: Task, query: dict[str, str], field: str
) -> None:
    response = ann.get(f"tasks/{task.pk}/cards/", **query)
    assert response.status_code == 400
    assert list(errors(response)) == [field]


def test_a_time_after_the_end_has_no_moments(ann: Caller, task: Task) -> None:
    answer = ann.get(f"tasks/{task.pk}/cards/", attempt=1, **{"from": timezone.now().isoformat()}).json()
    assert answer["at"] == []
    assert answer["cards"][0]["use_max"] == []


def test_a_task_that_never_had_cards_has_none(ann: Caller, world: World) -> None:
    waiting = world.task()
    answer = ann.get(f"tasks/{waiting.pk}/cards/").json()
    assert answer == {"attempt": None, "step_s": 60, "at": [], "cards": []}
    assert ann.get(f"tasks/{waiting.pk}/cards/", attempt=3).status_code == 404


def test_another_business_sees_nothing_of_it(outsider: Caller, task: Task) -> None:
    assert outsider.get(f"tasks/{task.pk}/cards/").status_code == 404


def test_an_operator_sees_it(world: World, task: Task) -> None:
    assert Caller(world.operator()).get(f"tasks/{task.pk}/cards/").status_code == 200
