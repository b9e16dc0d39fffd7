"""The list of tasks: what it shows, filters in the address, pages by id."""

import pytest
from django.test import Client
from pytest_django import DjangoAssertNumQueries, Settings

from jobs.models import Task
from jobs.portal import listing
from tests.portal.conftest import run
from tests.world import World


def flags(browser: Client, query: str = "") -> list[str]:
    """Return the names of the tasks that the list shows, in its order."""
    return [row.flag for row in browser.get(f"/tasks/{query}").context["page"].rows]


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


def test_filters_narrow_the_list(world: World, ann: Client) -> None:
    world.task(task_flag="waits")
    world.task(task_flag="went-well", state="succeeded", wanted_class="elastic")
    world.task(task_flag="of-cid", user="cid", state="running")
    business = world.business("ads").pk
    assert flags(ann, "?state=queued") == ["waits"]
    assert flags(ann, "?state=open") == ["of-cid", "waits"]
    assert flags(ann, "?state=over") == ["went-well"]
    assert flags(ann, "?kind=elastic") == ["went-well"]
    assert flags(ann, "?mine=on") == ["went-well", "waits"]
    assert flags(ann, "?q=WENT") == ["went-well"]
    assert flags(ann, f"?business={business}&state=open&mine=on") == ["waits"]


def test_a_task_is_found_by_its_number(world: World, ann: Client) -> None:
    task = world.task(task_flag="this")
    world.task(task_flag="that")
    assert flags(ann, f"?q=%23{task.pk}") == ["this"]


@pytest.mark.parametrize(
    "query",
    ["?state=nonsense", "?business=999999", "?before=x", "?after=-1", "?before=" + "9" * 30, "?q=%00"],
)
def test_a_filter_that_means_nothing_breaks_nothing(query: str, world: World, ann: Client) -> None:
    world.task()
    assert ann.get(f"/tasks/{query}").status_code == 200


def test_another_business_cannot_be_filtered_for(world: World, ann: Client) -> None:
    other = world.business("speech")
    world.task("speech", "oz", task_flag="secret")
    assert flags(ann, f"?business={other.pk}") == []
    assert "speech" not in ann.get("/tasks/").content.decode()


def test_pages_go_to_the_oldest_and_back_without_a_gap(
    world: World, ann: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listing, "PAGE", 2)
    for number in range(5):
        world.task(task_flag=str(number))
    page = ann.get("/tasks/").context["page"]
    seen, newer = [], []
    while page:
        seen += [row.flag for row in page.rows]
        newer.append(page.newer)
        page = ann.get(f"/tasks/?before={page.older}").context["page"] if page.older else None
    assert seen == ["4", "3", "2", "1", "0"]
    assert flags(ann, f"?after={newer[-1]}") == ["2", "1"]
    assert newer[0] is None


def test_links_to_other_pages_keep_the_filters(
    world: World, ann: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listing, "PAGE", 1)
    world.task(task_flag="one")
    last = world.task(task_flag="two")
    page = ann.get("/tasks/?q=o&mine=on").content.decode()
    assert f"?q=o&amp;mine=on&amp;before={last.pk}" in page


def test_htmx_gets_the_rows_alone_and_history_the_whole_page(world: World, ann: Client) -> None:
    world.task(task_flag="here")
    rows = ann.get("/tasks/", headers={"HX-Request": "true"}).content.decode()
    assert "here" in rows
    assert "<html" not in rows
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
    with django_assert_num_queries(6):
        ann.get("/tasks/")
