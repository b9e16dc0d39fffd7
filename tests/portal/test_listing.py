"""The list of tasks: what it shows, filters, order and page in the address."""

import re
from datetime import timedelta
from html import unescape
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries, Settings

from jobs import pages
from jobs.models import Task
from jobs.portal import listing
from tests.portal.conftest import run
from tests.world import World

QUERIES = 13
FRAGMENT_QUERIES = 7


def flags(browser: Client, query: str = "") -> list[str]:
    """Return the names of the tasks that the list shows, in its order."""
    return [row.flag for row in browser.get(f"/tasks/{query}").context["page"].rows]


def walk(browser: Client, address: str, way: str) -> tuple[list[list[str]], str]:
    """Follow the links of one way from page to page; return the names on each, and the last address."""
    found = []
    while True:
        answer = browser.get(f"/tasks/{address}")
        found.append([row.flag for row in answer.context["page"].rows])
        link = re.search(rf'rel="{way}"\s+href="/tasks/([^"]+)"', answer.content.decode())
        if link is None:
            return found, address
        address = unescape(link[1])
        assert len(found) < 50, "the pages have no end"


def test_the_newest_task_stands_first_with_all_that_tells_it_apart(world: World, ann: Client) -> None:
    world.task(task_flag="older")
    world.task(task_flag="newer", hosts=2, cards=8, gpu_types=["P40", "M40"], wanted_class="elastic")
    assert flags(ann) == ["newer", "older"]
    page = ann.get("/tasks/").content.decode()
    for shown in ("queued", "elastic", "2 × 8", "P40, M40", "ads", "ann"):
        assert shown in page


def test_a_waiting_task_says_why(world: World, ann: Client) -> None:
    numbers = {"per_host": 8, "types": "P40", "free": 14, "largest": 6}
    world.task(reason_code="no_cards", reason_args=numbers)
    assert "14" in ann.get("/tasks/").context["page"].rows[0].reason


def test_a_running_task_says_for_how_long_and_no_other_does(world: World, ann: Client) -> None:
    runs, over = world.task(task_flag="runs"), world.task(task_flag="over", state="succeeded")
    run(runs, world.host("h1"))
    run(over, outcome="succeeded")
    world.task(task_flag="waits")
    shown = {row.flag: row.runs and row.runs.shown[:-1] for row in ann.get("/tasks/").context["page"].rows}
    assert shown == {"runs": "0:04:0", "over": None, "waits": None}
    ann.post("/i18n/setlang/", {"language": "zh-hans"})
    for address in ("/", "/tasks/"):
        assert '已运行 <span class="lasts" data-lasts="24' in ann.get(address).content.decode()


def test_a_reason_of_another_version_is_shown_as_it_is(world: World, ann: Client) -> None:
    world.task(reason_code="no_cards", reason_args={"odd": 1})
    world.task(reason_code="of_the_future")
    assert [row.reason for row in ann.get("/tasks/").context["page"].rows] == ["of_the_future", "no_cards"]


def test_a_time_in_a_reason_is_shown_with_its_zone(world: World, ann: Client, settings: Settings) -> None:
    settings.TIME_ZONE = "Asia/Shanghai"
    world.task(reason_code="not_before", reason_args={"at": 1_900_000_000})
    assert "2030-03-18 01:46:40 CST" in ann.get("/tasks/").context["page"].rows[0].reason


def test_an_auto_task_of_two_types_shows_what_it_runs_as(world: World, ann: Client) -> None:
    task = world.task(wanted_class="auto", gpu_types=["M40", "P40"])
    run(task, world.host("h1"))
    row = ann.get("/tasks/").context["page"].rows[0]
    assert (str(row.class_label), row.types) == ("elastic", "M40")


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("", ["of-cid", "went-badly", "went-well", "waits"]),
        ("?state=queued", ["waits"]),
        ("?state=open", ["of-cid", "waits"]),
        ("?state=over", ["went-badly", "went-well"]),
        ("?state=queued,running", ["of-cid", "waits"]),
        ("?state=queued&state=failed", ["went-badly", "waits"]),
        ("?class=elastic", ["went-well"]),
        ("?user=me", ["went-badly", "went-well", "waits"]),
        ("?user=cid", ["of-cid"]),
        ("?user=nobody", []),
        ("?q=WENT", ["went-badly", "went-well"]),
        ("?q=ent-b", ["went-badly"]),
        ("?q=%25", []),  # a sign of patterns is a sign
        ("?business=ads&state=open&user=me", ["waits"]),
        ("?business=ads,speech", ["of-cid", "went-badly", "went-well", "waits"]),
        ("?business=nonesuch", []),
        ("?gpu_type=M40", ["went-well"]),
        ("?gpu_type=P40&state=over", ["went-badly"]),
        ("?gpu_type=p40,M40", ["of-cid", "went-badly", "went-well", "waits"]),
        ("?region=SZ", ["waits"]),
        ("?reason=no_cards", ["waits"]),
        ("?tag=night", ["went-badly"]),
        ("?tag=nigh", []),
        ("?ended_from=today", ["went-badly"]),
        ("?ended_from=30d", ["went-badly", "went-well"]),
        ("?submitted_to=30d", ["went-well", "waits"]),
        ("?submitted_from=30d&class=elastic", []),
        ("?sort=oldest", ["waits", "went-well", "went-badly", "of-cid"]),
        ("?sort=ended_last", ["went-badly", "went-well"]),
        ("?sort=waiting_longest", ["waits"]),
        ("?sort=waiting_longest&user=cid", []),
    ],
)
def test_filters_narrow_the_list(query: str, found: list[str], world: World, ann: Client) -> None:
    now = timezone.now()
    numbers = {"per_host": 8, "types": "P40", "free": 14, "largest": 6}
    older = world.task(task_flag="waits", region=world.region(), reason_code="no_cards", reason_args=numbers)
    old = world.task(
        task_flag="went-well", state="succeeded", wanted_class="elastic", gpu_types=["M40", "V100"],
        ended_at=now - timedelta(days=20),
    )  # fmt: skip
    # In the order of their ids, as they are: a time is looked for along those.
    Task.objects.filter(pk=older.pk).update(submitted_at=now - timedelta(days=41))
    Task.objects.filter(pk=old.pk).update(submitted_at=now - timedelta(days=40))
    world.task(task_flag="went-badly", state="failed", config={"tags": ["night", "x"]}, ended_at=now)
    world.task(task_flag="of-cid", user="cid", state="running")
    assert flags(ann, query) == found


BOUNDS = [
    pytest.param(None, id="as it is"),
    pytest.param({"LOOKED_AT": 3, "SCATTERED": 2, "FEW": 1}, id="little, and no small set"),
    pytest.param({"LOOKED_AT": 2, "SCATTERED": 3}, id="little, and small sets"),
]


@pytest.mark.parametrize("bounds", BOUNDS)
@pytest.mark.parametrize("sort", ["newest", "oldest", "waiting_longest", "ended_last"])
@pytest.mark.parametrize("query", ["", "state=failed,queued&q=even", "user=cid&class=high"])
def test_pages_go_to_the_end_and_back_without_a_gap_however_little_one_page_looks_at(
    query: str,
    sort: str,
    bounds: dict[str, int] | None,
    world: World,
    ann: Client,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = timezone.now()
    for number in range(12):
        over: dict[str, Any] = (
            {"state": "failed", "ended_at": now - timedelta(hours=number % 4)} if number % 3 else {}
        )
        world.task(
            task_flag=f"{'odd' if number % 2 else 'even'}-{number}", user="cid" if number % 5 else "ann",
            wanted_class="elastic" if number % 4 == 0 else "high", **over,
        )  # fmt: skip
    listed = set(flags(ann, f"?{query}&sort={sort}"))  # all on one page
    for name, value in (bounds or {}).items():
        monkeypatch.setattr(pages, name, value)
    monkeypatch.setattr(listing, "PAGE", 2)
    down, address = walk(ann, f"?{query}&sort={sort}", "next")
    up, _address = walk(ann, address, "prev")
    seen = [flag for page in down for flag in page]
    assert len(set(seen)) == len(seen)
    assert set(seen) == listed
    assert [flag for page in reversed(up) for flag in page] == seen


def test_a_task_is_found_by_its_number(world: World, ann: Client) -> None:
    task = world.task(task_flag="this")
    world.task(task_flag="that")
    assert flags(ann, f"?q=%23{task.pk}") == ["this"]


@pytest.mark.parametrize(
    "query",
    [
        *("?state=nonsense", "?business=999999", "?below=x", "?above=-1", "?below=" + "9" * 30, "?q=%00"),
        *("?submitted_from=2030-13-45", "?ended_from=x", "?sort=x", "?sort=ended_last&below=1.2.3"),
        *("?sort=ended_last&below=5", "?sort=ended_last&below=" + "9" * 18 + ".1", "?user=%00", "?region=x"),
    ],
)
def test_a_filter_that_means_nothing_breaks_nothing(query: str, world: World, ann: Client) -> None:
    world.task()
    assert ann.get(f"/tasks/{query}").status_code == 200


def test_a_filter_that_means_nothing_is_named_with_what_would_do(ann: Client) -> None:
    page = unescape(ann.get("/tasks/?state=odd&submitted_from=soon").content.decode())
    assert "State: Write some of blocked, queued" in page
    assert "Submitted from: Write a day such as" in page


def test_another_business_cannot_be_filtered_for(world: World, ann: Client) -> None:
    world.business("speech")
    world.task("speech", "oz", task_flag="secret")
    assert flags(ann, "?business=speech") == []
    assert flags(ann, "?user=oz") == []
    assert flags(ann, "?q=secret") == []
    assert "speech" not in ann.get("/tasks/").content.decode()


def test_a_member_of_two_businesses_sees_both_and_an_operator_all(
    world: World, ann: Client, operator: Client
) -> None:
    world.user("ann", "speech")
    for flag in ("ads", "speech", "other"):
        world.task(flag, "oz", task_flag=flag)
    assert flags(ann) == ["speech", "ads"]
    assert flags(operator) == ["other", "speech", "ads"]
    assert flags(operator, "?business=other,ads") == ["other", "ads"]


def test_links_to_other_pages_keep_the_filters(
    world: World, ann: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listing, "PAGE", 1)
    world.task(task_flag="one")
    last = world.task(task_flag="two")
    page = ann.get("/tasks/?q=o&user=me").content.decode()
    assert f"?q=o&amp;user=me&amp;below={last.pk}" in page


def test_a_page_that_looked_at_enough_says_so_and_where_to_look_on(
    world: World, ann: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pages, "SCATTERED", 2)
    monkeypatch.setattr(pages, "FEW", 1)
    for name in ("rare", "b", "c", "d"):
        world.task(task_flag=name)
    page = ann.get("/tasks/?q=rare").content.decode()
    assert "None so far" in page
    assert "2 tasks were looked at" in page
    assert "Look further" in page
    found, _address = walk(ann, "?q=rare", "next")
    assert found[:2] == [[], ["rare"]]


def test_htmx_gets_the_rows_alone_and_history_the_whole_page(world: World, ann: Client) -> None:
    world.task(task_flag="here")
    part = {"HX-Request": "true", "HX-Target": "list"}
    rows = ann.get("/tasks/", headers=part).content.decode()
    assert "here" in rows
    assert "<form" not in rows
    answer = ann.get("/tasks/?q=&state=open&below=7", headers=part | {"HX-Target": "tasks"})
    assert "<form" in answer.content.decode()
    assert "<html" not in answer.content.decode()
    assert answer["HX-Push-Url"] == "/tasks/?state=open"
    back = {"HX-Request": "true", "HX-History-Restore-Request": "true"}
    assert "<html" in ann.get("/tasks/", headers=back).content.decode()


def test_an_empty_list_says_whether_filters_made_it_so(ann: Client) -> None:
    assert "No tasks yet" in ann.get("/tasks/").content.decode()
    assert "No task is like that" in ann.get("/tasks/?q=x").content.decode()


def test_names_are_shown_as_text(world: World, ann: Client) -> None:
    world.task(task_flag="<script>alert(1)</script>")
    assert "<script>alert" not in ann.get("/tasks/").content.decode()


@pytest.mark.parametrize("tasks", [1, 7])
def test_the_list_takes_as_many_queries_for_many_tasks_as_for_few(
    tasks: int, world: World, ann: Client, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    for number in range(tasks):
        task = world.task(task_flag=str(number), cards=1)
        if not number:
            run(task, world.host("h1"))
    assert Task.objects.count() == tasks
    with django_assert_num_queries(QUERIES):
        ann.get("/tasks/")
    with django_assert_num_queries(QUERIES + 2):  # where the time begins, and how far one page looks
        ann.get("/tasks/?state=queued,running&class=high&submitted_from=today&sort=oldest")
    with django_assert_num_queries(FRAGMENT_QUERIES):
        ann.get("/tasks/", headers={"HX-Request": "true", "HX-Target": "list"})


def test_a_task_that_failed_says_why(world: World, ann: Client) -> None:
    task = world.task(state="failed")
    run(task, world.host("h1"), outcome="evicted", outcome_code="evicted")
    run(
        task,
        world.host("h1"),
        outcome="failed",
        outcome_code="exit_code",
        outcome_args={"host": "h1", "exit_code": 3},
    )
    row = ann.get("/tasks/").context["page"].rows[0]
    assert (row.reason_code, row.reason) == ("exit_code", "The process on h1 ended with exit code 3")
