"""The page of a task that waits: why, for how long, and what can be done about it."""

import re
from datetime import timedelta
from html import unescape

import pytest
from django.test import Client
from django.utils import timezone

from cluster.models import Host
from jobs.engine import forecasts, hosts_for, passes
from jobs.models import Task
from quotas.models import Quota
from tests.portal.conftest import run, text
from tests.world import World


@pytest.fixture(autouse=True)
def _looks_at_hosts_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hosts_for, "KEPT_S", 0.0)


def test_a_waiting_task_shows_its_reason_and_its_place(world: World, ann: Client) -> None:
    world.task(task_flag="first")
    numbers = {"per_host": 8, "types": "P40", "free": 14, "largest": 6}
    task = world.task(task_flag="second", reason_code="no_cards", reason_args=numbers)
    page = text(ann, task)
    assert "14" in page
    assert "Place 2 of 2 in line" in page


def test_a_waiting_task_shows_when_it_starts_and_what_that_stands_on(world: World, ann: Client) -> None:
    runner = world.task(cards=8, time_limit_s=3600)
    run(runner, world.host("h1"))
    task = world.task(cards=8)
    assert "Estimated start" not in text(ann, task), "nobody looked ahead yet"
    forecasts.run()
    starts = timezone.localtime(timezone.now() + timedelta(minutes=55))
    page = text(ann, task)
    assert "if tasks before it run until their time limits (1 of them)" in page
    assert f"{starts:%Y-%m-%d %H}" in page.split("Estimated start")[1][:120]


def test_a_start_that_nobody_can_know_is_said_to_be_unknown(world: World, ann: Client) -> None:
    runner = world.task(cards=8)
    run(runner, world.host("h1"))
    task = world.task(cards=8)
    forecasts.run()
    said = f"Estimated start: unknown: task {runner.pk} before it has no time limit, and too few"
    assert said in text(ann, task)
    ann.post("/i18n/setlang/", {"language": "zh-hans"})
    assert f"预计启动： 未知：排在前面的任务 {runner.pk} 没有时限" in text(ann, task)


def test_a_blocker_is_tagged_with_what_can_be_done_about_it(world: World, ann: Client) -> None:
    numbers = {"host_num": 1, "per_host": 8, "types": "P40", "hosts": 0, "out": 1}
    tags = {"leaving": "wait", "too_large": "change it", "no_host": "ask operators"}
    for code, tag in tags.items():
        args = {"cards": 8, "missing": 8} if code == "leaving" else numbers
        page = text(ann, world.task(cards=8, reason_code=code, reason_args=args))
        assert f'-lt">{tag}</span> <span class="fw-medium reason' in page


def test_what_operators_say_of_hosts_they_took_out_is_told_in_both_languages(
    world: World, ann: Client
) -> None:
    world.host("h1")
    Host.objects.update(state="cordoned", state_reason="new fans on Friday")
    task = world.task(cards=8)
    passes.run()
    assert "1 more that are large enough take no starts; operators say: new fans on Friday" in text(ann, task)
    ann.post("/i18n/setlang/", {"language": "zh-hans"})
    assert "另有 1 台够大的母机不接新任务；运维说明：new fans on Friday" in text(ann, task)


def test_hosts_are_counted_by_why_they_do_not_take_it(world: World, ann: Client) -> None:
    for name in ("h1", "h2"):  # four of eight cards are free on each: eight in all, and no host has them
        run(world.task(cards=4), world.host(name))
    world.host("h3")
    Host.objects.filter(name="h3").update(state="cordoned")
    numbers = {"per_host": 8, "types": "P40", "free": 8, "largest": 4}
    page = text(ann, world.task(cards=8, reason_code="no_cards", reason_args=numbers))
    assert "8 are free, the largest host has 4" in page
    table = page.split('id="why-hosts"')[1].split("</table>")[0]
    rows = [
        re.findall(r"<td.*?>(?:<span.*?>)?(.*?)(?:</span>)?</td>", row) for row in table.split("<tr>")[2:]
    ]
    assert rows == [
        ["2 hosts", "wait", "have too few free cards: tasks are on them", "8", "4"],
        ["1 host", "ask operators", "take no starts: cordoned", "8", "8"],
    ]
    ann.post("/i18n/setlang/", {"language": "zh-hans"})
    assert "2 台母机" in text(ann, Task.objects.latest("pk"))


def test_hosts_that_run_no_mpijobs_are_told_so_to_who_brought_one(world: World, ann: Client) -> None:
    world.host("h1")
    task = world.task(cards=8, needs="mpijob", reason_code="no_mpijob")
    said = "cannot run it: their cluster's controller runs no MPIJobs that people bring"
    page = unescape(text(ann, task))
    assert said in page
    assert "no container engine" not in page
    assert said not in unescape(text(ann, world.task(cards=8, needs="container_ceph")))
    ann.post("/i18n/setlang/", {"language": "zh-hans"})
    assert "无法运行它：其集群的控制器不运行用户自带的 MPIJob" in text(ann, task)


def test_a_quota_lowered_under_what_runs_is_shown_as_over_and_never_as_less_than_nothing(
    world: World, ann: Client
) -> None:
    for name in ("h1", "h2"):
        run(world.task(cards=8), world.host(name))
    world.business("ads", P40=8)
    numbers = {"business": "ads", "used": 16, "type": "P40", "limit": 8, "over": 8}
    task = world.task(cards=8, reason_code="quota_over", reason_args=numbers)
    page = text(ann, task)
    assert "P40: 16 of 8 in use by high tasks, 0 left <strong>· over by 8</strong>" in page
    Quota.objects.all().delete()
    assert "P40: 16 of 0 in use by high tasks, 0 left <strong>· over by 16</strong>" in text(ann, task)


def test_whom_it_waits_for_and_who_leaves_for_it_are_named(world: World, ann: Client) -> None:
    head = world.task("speech", "oz")
    behind = text(ann, world.task(reason_code="behind", reason_args={"head": head.pk}))
    assert f"task {head.pk} of speech" in behind
    assert f'href="/tasks/{head.pk}/"' not in behind
    victim = world.task(cards=8, wanted_class="elastic")
    task = world.task(cards=8, reason_code="leaving", reason_args={"cards": 8, "missing": 8})
    run(victim, world.host("h1"), evicted_for=task)
    page = text(ann, task)
    assert f'leaving for it</span> <a href="/tasks/{victim.pk}/">task {victim.pk}</a> of ads' in page


def test_a_held_task_counts_no_hosts(world: World, ann: Client) -> None:
    page = text(ann, world.task(state="held", reason_code="hold"))
    assert "held by its owner" in page
    assert "why-hosts" not in page
    assert "Why it waits" not in text(ann, world.task(state="failed"))
