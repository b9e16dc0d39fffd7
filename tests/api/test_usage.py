"""Card-hours over the API: by day and class, as much as the file of the same days says."""

import json
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.utils import timezone
from jsonschema import Draft202012Validator

from jobs.api import shapes
from quotas.models import Business, UsageRow
from tests.api.conftest import Caller, errors
from tests.api.test_files import table
from tests.world import World


@pytest.fixture
def ads(ann: Caller, world: World) -> Business:
    """Return a business that used cards today, yesterday and nine days ago."""
    ads = world.business("ads")
    used(world, 1, "high", days_ago=0, seconds=1800.0)
    used(world, 2, "elastic", days_ago=0, seconds=1234.5)
    used(world, 3, "elastic", days_ago=0, seconds=3600.0)
    used(world, 4, "high", days_ago=1, seconds=7200.0)
    used(world, 5, "high", days_ago=9, seconds=7200.0)
    return ads


def noon(days_ago: int) -> datetime:
    return timezone.localtime().replace(hour=12) - timedelta(days=days_ago)


def used(world: World, attempt: int, task_class: str, *, days_ago: int, seconds: float) -> None:
    end = noon(days_ago)
    UsageRow.objects.create(
        **{"attempt": attempt, "task": attempt, "business": world.business("ads")},
        **{"user": world.user("ann", "ads"), "gpu_type": world.gpu_type(), "task_class": task_class},
        **{"cards": 2, "seconds": seconds, "started_at": end - timedelta(seconds=seconds)},
        **{"ended_at": end, "outcome": "succeeded"},
    )


def days(caller: Caller, business: Business, **query: Any) -> Any:
    return caller.get(f"businesses/{business.pk}/usage/", **query).json()


def test_each_day_says_what_ended_on_it_by_class(ann: Caller, ads: Business) -> None:
    found = days(ann, ads, days=3)
    Draft202012Validator(json.loads(json.dumps(shapes.page_of(shapes.USAGE_DAY)))).validate(found)
    before, yesterday, today = found["results"]
    assert today == {
        "day": timezone.localdate().isoformat(),
        "high": {"card_hours": 1.0, "attempts": 1},
        "elastic": {"card_hours": 2.6858, "attempts": 2},
    }
    assert yesterday["high"] == {"card_hours": 4.0, "attempts": 1}
    assert before["high"] == before["elastic"] == {"card_hours": 0.0, "attempts": 0}
    assert found["next"] is None


def test_the_days_add_up_to_the_file(ann: Caller, ads: Business) -> None:
    rows = table(ann, f"businesses/{ads.pk}/usage/csv/?days=10")
    shown = days(ann, ads, days=10)["results"]
    assert len(rows) == sum(day[name]["attempts"] for day in shown for name in ("high", "elastic")) == 5
    for name in ("high", "elastic"):
        filed = sum(float(row["card_hours"]) for row in rows if row["class"] == name)
        assert sum(day[name]["card_hours"] for day in shown) == pytest.approx(filed, abs=0.001)


def test_pages_follow_each_other_day_by_day(ann: Caller, ads: Business) -> None:
    whole = days(ann, ads, days=10)["results"]
    found, address = [], f"businesses/{ads.pk}/usage/?days=10&limit=4"
    while address:
        page = ann.get(address).json()
        found += page["results"]
        address = (page["next"] or "").partition("/api/v1/")[2]
    assert found == whole
    assert len(found) == 10


def test_a_page_behind_today_is_empty(ann: Caller, ads: Business) -> None:
    assert days(ann, ads, cursor="2990-01-01") == {"results": [], "next": None}


@pytest.mark.parametrize(
    ("query", "refused"),
    [
        ({"days": 0}, {"days": "range"}),
        ({"days": 99999}, {"days": "range"}),
        ({"limit": 501}, {"limit": "range"}),
        ({"cursor": "9"}, {"cursor": "cursor"}),
        ({"cursor": "9999-12-31"}, {"cursor": "cursor"}),
        ({"excel": 1}, {"excel": "unknown"}),
    ],
)
def test_what_is_wrong_is_named(
    query: dict[str, Any], refused: dict[str, str], ann: Caller, ads: Business
) -> None:
    answer = ann.get(f"businesses/{ads.pk}/usage/", **query)
    assert (answer.status_code, errors(answer)) == (400, refused)


def test_those_of_other_businesses_see_none_of_it(outsider: Caller, ads: Business) -> None:
    assert outsider.get(f"businesses/{ads.pk}/usage/").status_code == 404


def test_days_are_those_of_the_platform(ann: Caller, ads: Business, settings: Any, world: World) -> None:
    """An attempt that ends at noon in UTC ends on the next day on the other side of the world."""
    UsageRow.objects.all().delete()
    used(world, 6, "high", days_ago=2, seconds=3600.0)
    settings.TIME_ZONE = "Pacific/Kiritimati"  # 14 hours ahead
    shown = {day["day"]: day["high"]["attempts"] for day in days(ann, ads, days=5)["results"]}
    end = UsageRow.objects.get().ended_at
    assert shown[(end + timedelta(hours=14)).date().isoformat()] == 1
    assert sum(shown.values()) == 1
