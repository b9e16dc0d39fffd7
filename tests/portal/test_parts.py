"""The parts of live pages: made once for those who get the same, and never given to anybody else."""

import asyncio
import re
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.test import Client

from cluster import hub, threads
from jobs.models import Task
from jobs.portal import parts, rows
from quotas.models import Member
from tests.portal.open_pages import DJANGO, TOKEN, Pages, told
from tests.world import World

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def pages(valkey: str, monkeypatch: pytest.MonkeyPatch) -> Pages:
    return Pages(monkeypatch)


@pytest.fixture
def task(valkey: str) -> Task:
    return World().task(task_flag="of-ads")


def test_a_list_is_made_once_for_all_of_the_same_businesses_who_ask_together(
    pages: Pages, task: Task
) -> None:
    people = [pages.of(World().user(name, "ads")) for name in ("ann", "cid", "eve") for _ in range(3)]

    async def deed() -> None:
        answers = await asyncio.gather(*(pages.ask(session) for session in people))
        assert "of-ads" in answers[0]
        assert len(set(answers)) == len(pages.made_at) == 1

    pages.run(deed)


def test_what_is_right_is_not_made_again_for_a_moment_and_anew_after_a_change(
    pages: Pages, task: Task
) -> None:
    ann = pages.of(task.user)

    async def deed() -> None:
        assert await pages.ask(ann) == await pages.ask(ann)
        assert len(pages.made_at) == 1
        await Task.objects.aupdate(task_flag="renamed")
        await told("tasks")
        assert "renamed" in await pages.ask(ann)

    pages.run(deed)


def test_what_no_topic_speaks_of_is_shown_after_a_moment(
    pages: Pages, task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parts, "FRESH_S", 0.1)
    ann = pages.of(task.user)

    async def deed() -> None:
        await pages.ask(ann)
        await Task.objects.aupdate(task_flag="renamed")
        await asyncio.sleep(0.2)
        assert parts._answers()._found == {}, "nothing is kept longer than it is right"
        assert "renamed" in await pages.ask(ann)

    pages.run(deed)


def test_rows_that_lists_have_in_common_are_read_once_and_anew_after_a_change(
    pages: Pages, task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[int] = []

    def counted(tasks: Any) -> list[rows.Row]:
        found = these(tasks)
        read.extend(row.id for row in found)
        return found

    these = rows.rows
    monkeypatch.setattr(rows, "rows", counted)
    his = World().task("speech", "oz", task_flag="of-speech")
    ann, eve = pages.of(task.user), pages.of(World().user("eve", "ads", "speech"))

    async def deed() -> None:
        await asyncio.gather(pages.ask(ann), pages.ask(ann, "/tasks/?state=open"))
        read.clear()
        await Task.objects.aupdate(task_flag="renamed")
        await told("tasks")
        mine = await pages.ask(ann)
        both = await pages.ask(eve)
        assert (mine.count("renamed"), both.count("renamed")) == (1, 2)
        assert read == [task.pk, his.pk]

    pages.run(deed)


def test_somebody_of_another_business_gets_his_own_list(pages: Pages, task: Task) -> None:
    ann, oz = pages.of(task.user), pages.of(World().user("oz", "speech"))
    World().task("speech", "oz", task_flag="of-speech")

    async def deed() -> None:
        mine, his = await asyncio.gather(pages.ask(ann), pages.ask(oz))
        assert ("of-ads" in mine, "of-speech" in mine) == (True, False)
        assert ("of-ads" in his, "of-speech" in his) == (False, True)

    pages.run(deed)


@pytest.mark.parametrize("query", ["user=me", "us%65r=me", "state=queued&user=me"])
def test_a_list_of_somebodys_own_tasks_is_his_alone(query: str, pages: Pages, task: Task) -> None:
    ann, cid = pages.of(task.user), pages.of(World().user("cid", "ads"))

    async def deed() -> None:
        mine, his = [await pages.ask(session, f"/tasks/?{query}") for session in (ann, cid)]
        assert ("of-ads" in mine, "of-ads" in his) == (True, False)

    pages.run(deed)


def test_the_open_tasks_on_the_first_page_are_those_of_whoever_asks(pages: Pages, task: Task) -> None:
    ann, cid = pages.of(task.user), pages.of(World().user("cid", "ads"))

    async def deed() -> None:
        mine, his = [await pages.ask(session, "/?part=mine") for session in (ann, cid)]
        assert ("of-ads" in mine, "of-ads" in his) == (True, False)

    pages.run(deed)


@pytest.mark.parametrize("where", ["/tasks/", "/tasks/{}/"], ids=["list", "task"])
def test_what_is_shared_has_no_form_with_a_secret(where: str, pages: Pages, task: Task) -> None:
    """Whoever had that of another could act in his name."""
    ann = pages.of(task.user)

    async def deed() -> None:
        shown = await pages.ask(ann, where.format(task.pk), token=32 * "a")
        assert "of-ads" in shown
        assert not TOKEN.findall(shown)

    pages.run(deed)


def test_the_page_of_a_task_is_made_once_for_all_who_see_it_and_may_do_the_same(
    pages: Pages, task: Task
) -> None:
    world = World()
    owner, lead, root = task.user, world.user("lea", "ads", role=Member.Role.LEAD), world.operator()
    others = [world.user("cid", "ads"), world.user("eve", "ads", "speech"), world.auditor()]
    steer, look = ([pages.of(user) for user in users] for users in ((owner, lead, root), others))

    async def deed() -> None:
        answers = await asyncio.gather(
            *(pages.ask(session, f"/tasks/{task.pk}/") for session in steer + look)
        )
        assert all("of-ads" in answer for answer in answers)
        assert ["/stop/" in answer for answer in answers] == [True] * 3 + [False] * 3
        assert (len(set(answers)), len(pages.made_at)) == (2, 2)

    pages.run(deed)


def test_nobody_gets_the_page_of_a_task_that_he_may_not_see(pages: Pages, task: Task) -> None:
    ann, oz = pages.of(task.user), pages.of(World().user("oz", "speech"))

    async def deed() -> None:
        where = f"/tasks/{task.pk}/"
        for asking in ((ann, oz, ann), (oz, ann, oz)):
            await asyncio.sleep(parts.FRESH_S + 0.1)
            answers = await asyncio.gather(*(pages.ask(session, where) for session in asking))
            assert ["of-ads" in answer for answer in answers] == [session == ann for session in asking]

    pages.run(deed)


def test_another_task_that_a_page_names_is_a_link_for_those_alone_who_see_it(
    pages: Pages, task: Task
) -> None:
    world = World()
    copied = world.task("speech", "oz")
    Task.objects.filter(pk=task.pk).update(origin=copied)
    both, ann, cid = world.user("eve", "ads", "speech"), task.user, world.user("cid", "ads")
    people = [pages.of(user) for user in (both, cid, both, ann)]

    async def deed() -> None:
        answers = await asyncio.gather(*(pages.ask(session, f"/tasks/{task.pk}/") for session in people))
        linked = [f'href="/tasks/{copied.pk}/"' in answer for answer in answers]
        assert linked == [True, False, True, False]

    pages.run(deed)


def test_in_a_storm_of_changes_a_part_is_made_a_few_times_a_second(pages: Pages, task: Task) -> None:
    ann = pages.of(task.user)

    async def deed() -> None:
        for _ in range(8):
            await told("tasks")
            await pages.ask(ann)
        assert all(later - earlier > 0.9 * parts.CALM_S for earlier, later in pairwise(pages.made_at))

    pages.run(deed)


def test_while_nothing_is_heard_a_part_is_made_once_a_moment(
    task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    pages = Pages(monkeypatch)
    ann = pages.of(task.user)
    monkeypatch.setattr(hub, "hears", lambda: False)

    async def deed() -> None:
        for _ in range(5):
            assert "of-ads" in await pages.ask(ann)
        assert len(pages.made_at) == 1

    pages.run(deed)


def test_a_crowd_is_answered_by_few_threads(
    pages: Pages, task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    running = most = 0

    async def run(call: Callable[..., Any], scope: Any) -> Any:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.01)
        running -= 1
        return await sync_to_async(call)(scope)

    monkeypatch.setattr(threads, "run_for_pages", run)
    ann = pages.of(task.user)

    async def deed() -> None:
        await asyncio.gather(*(pages.ask(ann, f"/tasks/?q={number}") for number in range(12)))
        assert (most, len(pages.made_at)) == (threads.PAGES, 12)

    pages.run(deed)


@pytest.mark.parametrize(
    "changes",
    [
        {"method": "POST"},
        {"path": "/tasks/csv/"},
        {"headers": [(b"hx-request", b"true"), (b"hx-target", b"tasks")]},
        {"headers": []},
        {"headers": [(b"hx-request", b"true"), (b"hx-history-restore-request", b"true")]},
    ],
    ids=["post", "other page", "with filters", "whole page", "back"],
)
def test_everything_else_goes_djangos_way(changes: dict[str, Any], pages: Pages, task: Task) -> None:
    ann = pages.of(task.user)

    async def deed() -> None:
        assert await pages.ask(ann, **changes) == DJANGO

    pages.run(deed)


def test_whatever_a_page_asks_for_again_comes_by_this_way(pages: Pages, task: Task) -> None:
    world = World()
    browser, host = Client(), world.host("h1")
    browser.force_login(world.operator())
    shown = [
        "/",
        f"/tasks/{task.pk}/",
        "/cluster/scheduler/",
        "/hosts/",
        f"/hosts/{host.pk}/",
        "/businesses/",
    ]
    shown += [f"/businesses/{task.business_id}/"]
    for where in shown:
        asked = re.findall(r'data-topic="[^"]+"\s+hx-get="([^"]+)"', browser.get(where).content.decode())
        assert asked, f"{where} does not ask again"
        for path in asked:
            scope = {"path": path.partition("?")[0]}
            assert any(part.fits(scope, "") for part in parts.PARTS), path
