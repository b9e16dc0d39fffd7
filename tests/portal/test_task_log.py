"""The log of a task on its page, and without scripts: removed, full, page by page."""

import re
from datetime import UTC, datetime
from html import unescape

import pytest
from django.test import Client

from cluster import logs
from cluster.models import Host, Instance
from jobs.portal import log_page
from tests.portal.conftest import run, text
from tests.world import World


def test_a_log_that_was_removed_and_a_full_disk_are_told(
    world: World, ann: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = world.task()
    run(task, world.host("h1"), outcome="evicted")
    Instance.objects.update(log_removed_at=datetime(2026, 5, 4, 12, tzinfo=UTC))
    run(task, world.host("h1"))
    Host.objects.update(trouble="The disk of /var/lib/taiji is full: starts may fail.")
    page = text(ann, task)
    assert page.count("The log was removed on 2026-05-04.") == 2, (
        "beside the member, and where its log would be"
    )
    assert page.count("The disk of /var/lib/taiji is full") == 1, "of those that run, not of those that ended"
    assert "disk is full: logs grow no further" not in page
    monkeypatch.setattr(logs, "has_room", lambda: False)
    assert "disk is full: logs grow no further" in text(ann, task)


def test_a_log_at_its_limit_is_marked_as_truncated(world: World, ann: Client) -> None:
    task = world.task()
    run(task, world.host("h1"))
    assert 'data-full=""' in text(ann, task)
    Instance.objects.update(log_bytes=logs.LOG_AT_MOST)
    assert 'data-full="1"' in text(ann, task)


def test_the_log_can_be_read_without_scripts_page_by_page(
    world: World, ann: Client, outsider: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_page, "PAGE", 64)
    task = world.task()
    assert "Nothing was written yet" in ann.get(f"/tasks/{task.pk}/log/").content.decode()
    run(task, world.host("h1"))
    lines = [b"\x1b[31mred\x1b[0m", b"1 %\r2 %\r", b"nul \x00 <b>", b"\xff", "中文".encode("gb18030")] + [
        b"line %d" % n for n in range(20)
    ]
    logs.append(Instance.objects.get().pk, 0, b"\n".join(lines) + b"\n")
    address, seen = f"/tasks/{task.pk}/log/", list[str]()
    for _page in range(10):
        page = ann.get(address).content.decode()
        seen = page.split("</pre>")[0].rpartition("<pre")[2].partition(">")[2].splitlines() + seen
        if (earlier := re.search(r'href="(\?[^"]*until=\d+)">Earlier', page)) is None:
            break
        address = f"/tasks/{task.pk}/log/" + unescape(earlier[1])
    assert seen == ["red", "2 %", "nul ␀ &lt;b&gt;", "\ufffd", "中文", *(f"line {n}" for n in range(20))]
    assert outsider.get(f"/tasks/{task.pk}/log/").status_code == 404
    assert ann.get(f"/tasks/{task.pk}/log/?attempt=7").status_code == 404


def test_a_title_for_a_terminal_is_left_out_and_one_without_an_end_hides_no_line() -> None:
    assert log_page.plain(b"\x1b]0;title\x07one\x1b]0;title\x1b\\two") == "onetwo"
    assert log_page.plain(b"\x1b]0;title\nkept\nbell\x07").split("\n")[1:] == ["kept", "bell␇"]


def test_a_page_without_scripts_links_to_the_log_of_every_member(world: World, ann: Client) -> None:
    task = world.task(hosts=2, cards=1)
    run(task, world.host("h1"), world.host("h2"))
    page = text(ann, task)
    for rank in (0, 1):
        assert f'href="/tasks/{task.pk}/log/?attempt=1&amp;rank={rank}"' in page
