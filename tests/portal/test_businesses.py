"""The list of businesses and the page of one: figures, who sees them, and what they cost."""

import csv
import io
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.contrib.auth.models import User
from django.db import connection
from django.test import AsyncClient, Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from jobs import usage_file
from jobs.models import Template
from jobs.portal import business_changes, business_figures, business_hours
from jobs.scheduling.reasons import SENTENCES
from quotas.models import Business, Member, PlatformRole, Quota, Reservation, UsageRow
from tests.portal.conftest import Login, run
from tests.portal.test_chinese import english
from tests.world import World


def text(browser: Client, address: str) -> str:
    return " ".join(browser.get(address).content.decode().split())


def used(world: World, user: str, cards: int, hours: float, **fields: Any) -> UsageRow:
    """Write the usage row of an attempt of `ads` that ended just now, after so many hours on so many cards."""
    end = fields.pop("ended_at", timezone.now())
    values: dict[str, Any] = {
        "task": 1,
        "business": world.business("ads"),
        "user": world.user(user),
        "gpu_type": world.gpu_type(),
        "task_class": "high",
        "outcome": "succeeded",
    }
    return UsageRow.objects.create(
        attempt=UsageRow.objects.count() + 1,
        cards=cards,
        started_at=end - timedelta(hours=hours),
        ended_at=end,
        seconds=hours * 3600,
        **values | fields,
    )


def line(world: World, region: str | None = None) -> business_figures.Line:
    """Return the line of ads's P40."""
    found = business_figures.lines([world.business("ads").pk])
    return next(one for one in found if one.region == (world.region(region).pk if region else None))


def test_a_quota_under_what_runs_is_over_and_nothing_is_left(world: World, ann: Client) -> None:
    run(world.task(cards=8), world.host("h1"))
    run(world.task(cards=8), world.host("h2"))
    Quota.objects.update(cards=8)
    page = text(ann, f"/businesses/{world.business('ads').pk}/")
    assert "16 of 8" in page
    assert "over by 8" in page
    assert line(world).left == 0


@pytest.mark.parametrize("rows", [0, 1])
def test_use_without_any_quota_is_shown_as_over(world: World, ann: Client, rows: int) -> None:
    run(world.task(cards=8), world.host("h1"))
    Quota.objects.update(cards=0)
    if not rows:
        Quota.objects.all().delete()
    assert "8 of 0" in text(ann, f"/businesses/{world.business('ads').pk}/")
    assert (line(world).over, line(world).left) == (8, 0)


def test_a_region_is_capped_by_its_own_row_only(world: World, ann: Client) -> None:
    run(world.task(cards=8), world.host("h1"))
    assert (line(world, "SZ").limit, line(world, "SZ").high) == (None, 8)
    quota = {"business": world.business("ads"), "gpu_type": world.gpu_type()}
    Quota.objects.create(**quota, region=world.region("SZ"), cards=4)
    assert (line(world, "SZ").limit, line(world, "SZ").over) == (4, 4)
    Quota.objects.filter(region=None).delete()
    Quota.objects.create(**quota, region=world.region("BJ"), cards=2)
    assert (line(world).limit, line(world).over) == (
        6,
        2,
    )  # only regions have rows: together they are the quota


def test_what_a_high_task_waits_for_is_told_apart(world: World, ann: Client) -> None:
    world.task(cards=1, reason_code="quota")
    world.task(cards=2, reason_code="no_room")
    world.task(hosts=2, cards=2, reason_code="behind")
    world.task(cards=8, reason_code="not_before")
    world.task(cards=8, reason_code="hold", state="held")
    world.task(cards=3, reason_code="no_cards", wanted_class="elastic")
    found = line(world)
    assert (found.for_quota, found.for_cards, found.for_elastic, found.waiting) == (1, 6, 3, 10)


def test_every_reason_is_about_quota_time_or_cards() -> None:
    groups = (business_figures.FOR_QUOTA, business_figures.FOR_TIME, business_figures.FOR_CARDS)
    assert sorted(code for group in groups for code in group) == sorted(SENTENCES)


def test_a_task_of_several_types_counts_at_each_and_in_its_region(world: World, ann: Client) -> None:
    world.task(cards=2, reason_code="no_room", gpu_types=["P40", "M40"], region=world.region("SZ"))
    found = business_figures.lines([world.business("ads").pk])
    asked = {(one.gpu_type, one.region): one.for_cards for one in found}
    places = [(world.gpu_type(name).pk, region) for name in ("P40", "M40") for region in (None, 1)]
    assert asked == dict.fromkeys([(kind, region and world.region("SZ").pk) for kind, region in places], 2)


def test_starved_and_borrowing_businesses_stand_side_by_side_the_neediest_first(
    world: World, operator: Client
) -> None:
    world.business("calm", P40=8)
    world.task("poor", cards=8, reason_code="no_room")
    world.task("tight", cards=4, reason_code="quota")
    run(world.task("rich", cards=4, wanted_class="elastic"), world.host("h1"))
    page = operator.get("/businesses/")
    assert [one.flag for one in page.context["page"]] == ["poor", "tight", "ads", "calm", "rich"]
    for show, flags in {"starved": ["poor", "tight"], "borrowing": ["rich"]}.items():
        found = operator.get("/businesses/", {"show": show}).context
        assert [one.flag for one in found["page"]] == flags
        assert [tab.number for tab in found["tabs"]] == [5, 2, 1]


def test_the_list_is_narrowed_by_name_and_type(world: World, operator: Client) -> None:
    Business.objects.create(flag="b2", name="Speech 语音")
    run(world.task("rich", cards=4, gpu_types=["M40"]), world.host("m1", gpu_type="M40"))
    assert [one.flag for one in operator.get("/businesses/?q=语音").context["page"]] == ["b2"]
    held = {one.flag: one.high for one in operator.get("/businesses/?gpu_type=M40").context["page"]}
    assert held == {"ads": 0, "b2": 0, "rich": 4}
    held = {one.flag: one.high for one in operator.get("/businesses/?gpu_type=P40").context["page"]}
    assert held["rich"] == 0
    assert "No business is like that" in text(operator, "/businesses/?q=nonesuch")


def test_of_many_businesses_a_page_shows_a_hundred(world: World, operator: Client) -> None:
    Business.objects.bulk_create(Business(flag=f"b{number:03}") for number in range(120))
    first = operator.get("/businesses/").context["page"]
    assert (len(first), first.has_next()) == (100, True)
    assert len(operator.get("/businesses/?page=2").context["page"]) == 21


def test_the_list_costs_the_same_for_any_number_of_businesses(world: World, operator: Client) -> None:
    def queries() -> int:
        with CaptureQueriesContext(
            connection,
        ) as caught:
            operator.get("/businesses/")
        return len(caught)

    before = queries()
    for number in range(20):
        flag = f"b{number}"
        world.business(flag, P40=8)
        world.task(flag, cards=2, reason_code="no_room")
        run(world.task(flag, cards=1), world.host(f"h{number + 2}"))
    assert (before, queries()) == (10, 10)


def test_a_business_costs_the_same_for_any_number_of_rows(world: World, operator: Client) -> None:
    address = f"/businesses/{world.business('ads').pk}/"

    def queries() -> int:
        with CaptureQueriesContext(connection) as caught:
            operator.get(address)
        return len(caught)

    used(world, "ann", 1, 1)
    before = queries()
    for number in range(10):
        name = f"u{number}"
        used(world, name, 2, 1)
        world.task(user=name, cards=2, reason_code="no_room")
        run(world.task(user=name, cards=1), world.host(f"h{number + 2}"))
        Template.objects.create(name=name, business=world.business("ads"), config={})
        Reservation.objects.create(business=world.business("ads"), gpu_type=world.gpu_type(), cards=1)
    assert (before, queries()) == (24, 24)


def test_card_hours_are_those_that_ended_and_those_that_run(world: World, ann: Client) -> None:
    used(world, "ann", 4, 0.5)
    used(world, "bob", 2, 0.5, task_class="elastic")
    run(world.task(cards=6), world.host("h1"))  # for five minutes now
    found = business_hours.hours(world.business("ads"), 7, None)
    assert (round(found.total.high, 1), round(found.total.elastic, 1)) == (2.5, 1.0)
    assert [(one.name, one.now.high, round(one.hours.total, 1)) for one in found.users] == [
        ("ann", 6, 2.5),
        ("bob", 0, 1.0),
    ]
    assert [(name, round(kind.total, 1)) for name, kind in found.by_type] == [("P40", 3.5)]
    assert len(found.by_day) == 7
    assert round(sum(day.total for _, day in found.by_day), 1) == 3.5


PEOPLE = {
    # who: sees ads at all, sees who uses it, may edit it
    "member": (True, False, False),
    "lead": (True, True, False),
    "operator": (True, True, True),
    "auditor": (True, True, False),
    "outsider": (False, False, False),
}


def person(world: World, role: str) -> User:
    """Return somebody of this role."""
    match role:
        case "operator":
            return world.operator()
        case "auditor":
            user = world.user("audrey")
            PlatformRole.objects.create(user=user, role=PlatformRole.Role.AUDITOR)
            return user
        case "outsider":
            return world.user("oz", "speech")
        case _:
            return world.user(role, "ads", role=Member.Role(role))


@pytest.mark.parametrize("role", PEOPLE)
def test_who_sees_a_business(world: World, ann: Client, login: Login, role: str) -> None:
    sees, oversees, edits = PEOPLE[role]
    used(world, "ann", 4, 0.5)
    user = person(world, role)
    browser = login(user)
    flags = [one.flag for one in browser.get("/businesses/").context["page"]]
    assert ("ads" in flags) == sees
    pk = world.business("ads").pk
    answer = browser.get(f"/businesses/{pk}/")
    assert answer.status_code == (200 if sees else 404)
    assert download(user, pk)[0] == (200 if sees else 404)
    if sees:
        page = answer.content.decode()
        assert ("ann" in page, 'id="members"' in page) == (oversees, oversees)
        assert (f"/admin/quotas/business/{pk}/" in page) == edits
        assert [row["user"] for row in rows_of(user, pk)] == ["ann" if oversees else ""]


def test_who_is_not_logged_in_is_led_to_the_login(world: World) -> None:
    for address in ("/businesses/", f"/businesses/{world.business().pk}/"):
        assert Client().get(address).status_code == 302


def download(user: User, pk: int, query: str = "") -> tuple[int, bytes]:
    """Return the status and all bytes of the file, read as a server sends them."""

    async def ask() -> tuple[int, bytes]:
        browser = AsyncClient()
        await browser.aforce_login(user)
        answer: Any = await browser.get(f"/businesses/{pk}/usage.csv{query}")
        if not answer.streaming:
            return answer.status_code, answer.content
        return answer.status_code, b"".join([part async for part in answer.streaming_content])

    return async_to_sync(ask)()


def rows_of(user: User, pk: int, query: str = "") -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(download(user, pk, query)[1].decode())))


def test_the_file_has_a_line_for_each_attempt_and_its_card_hours(world: World) -> None:
    end = timezone.now().replace(microsecond=0) - timedelta(hours=1)
    used(world, "=ann", 4, 0.5, ended_at=end, task=7)
    assert rows_of(world.operator(), world.business("ads").pk) == [
        {
            "attempt": "1", "task": "7", "business": "ads", "user": "'=ann", "gpu_type": "P40", "class": "high",
            "cards": "4", "started_at": (end - timedelta(hours=0.5)).astimezone(UTC).isoformat(),
            "ended_at": end.astimezone(UTC).isoformat(), "card_hours": "2.0", "outcome": "succeeded",
        }
    ]  # fmt: skip


def test_the_file_goes_over_many_chunks_without_losing_or_doubling_a_row(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(usage_file, "CHUNK", 2)
    end = timezone.now() - timedelta(hours=1)
    for hours in (0, 0, 0, 1, 2):  # three of them at the very same time
        used(world, "ann", 1, 0.1, ended_at=end - timedelta(hours=hours))
    used(world, "ann", 1, 0.1, business=world.business("other"))
    used(world, "ann", 1, 0.1, ended_at=end - timedelta(days=40))
    root, pk = world.operator(), world.business("ads").pk
    assert [row["attempt"] for row in rows_of(root, pk)] == ["5", "4", "1", "2", "3"]
    assert len(rows_of(root, pk, "?days=90")) == 6
    assert download(root, pk, "?excel=1")[1].startswith(b"\xef\xbb\xbf")


def test_the_page_says_who_changed_a_quota_when_and_why_also_once_it_is_deleted(
    world: World, ann: Client
) -> None:
    quota: Any = Quota.objects.get()
    quota.cards, quota.elastic_cards = 8, 4
    quota._change_reason = "the sale is over"
    quota._history_user = world.operator()
    quota.save()
    world.business("speech", P40=5)
    quota.delete()
    found = business_changes.changes(world.business("ads"))
    said = [[(str(of), old, new) for of, old, new in one.differences] for one in found]
    assert said == [
        [("cards", "8", "–"), ("elastic cards at most", "4", "–")],
        [("cards", "16", "8"), ("elastic cards at most", "–", "4")],
        [("cards", "–", "16")],
    ]
    assert (found[1].who, found[1].reason, found[1].gpu_type) == ("root", "the sale is over", "P40")
    assert "cards 16 → 8" in text(ann, f"/businesses/{world.business('ads').pk}/")


def test_both_pages_say_no_word_of_english_in_chinese(world: World, operator: Client) -> None:
    operator.post("/i18n/setlang/", {"language": "zh-hans"})
    used(world, "ann", 4, 0.5)
    run(world.task(cards=8), world.host("h1"))
    world.task(cards=1, reason_code="quota")
    Quota.objects.update(cards=4, elastic_cards=5, user_elastic_cards=2)
    once = {
        "kind": "once",
        "starts_at": datetime(2040, 1, 1, tzinfo=UTC),
        "ends_at": datetime(2040, 1, 2, tzinfo=UTC),
    }
    ads = {"business": world.business("ads"), "gpu_type": world.gpu_type()}
    Reservation.objects.create(**ads, cards=1, region=world.region(), **once)
    Reservation.objects.create(**ads, cards=1)
    assert english(operator.get("/businesses/"), "root") == []
    assert english(operator.get(f"/businesses/{world.business('ads').pk}/"), "root") == []
    assert english(operator.get("/businesses/?q=nonesuch"), "root") == []
