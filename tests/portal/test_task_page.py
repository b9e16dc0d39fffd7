"""The page of one task: what it says, and what may be done there."""

from datetime import UTC, datetime, timedelta

import pytest
from django.test import Client
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries

from cluster import logs
from cluster.models import Host, Instance
from jobs.engine import forecasts
from jobs.models import Task
from jobs.portal.history import ranges
from tests.portal.conftest import note, run
from tests.world import World


def text(browser: Client, task: Task, **headers: str) -> str:
    return " ".join(browser.get(f"/tasks/{task.pk}/", headers=headers).content.decode().split())


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
    assert "from the time limits of tasks before it (1)" in page
    assert f"{starts:%Y-%m-%d %H}" in page.split("Estimated start")[1][:120]


def test_a_start_that_nobody_can_know_is_said_to_be_unknown(world: World, ann: Client) -> None:
    runner = world.task(cards=8)
    run(runner, world.host("h1"))
    task = world.task(cards=8)
    forecasts.run()
    said = f"Estimated start: unknown: how long task {runner.pk} runs is not known"
    assert said in text(ann, task)
    ann.post("/i18n/setlang/", {"language": "zh-hans"})
    assert f"预计启动： 未知：任务 {runner.pk} 要运行多久尚不清楚" in text(ann, task)


def test_attempts_show_their_hosts_cards_and_end(world: World, ann: Client) -> None:
    task = world.task(hosts=2, cards=4)
    run(
        task,
        world.host("h1"),
        world.host("h2"),
        outcome="failed",
        outcome_code="lost",
        outcome_args={"host": "h2"},
    )
    run(task, world.host("h1"), world.host("h2"))
    page = text(ann, task)
    assert page.index("Attempt 2") < page.index("Attempt 1")
    assert "h2" in page
    assert "cards 0–3" in page
    assert "Its host h2 was lost" in page
    assert "0:05:00" in page
    assert "0.67 card-hours" in page


@pytest.mark.parametrize(
    ("numbers", "shown"),
    [([], ""), ([3], "3"), ([0, 1, 2, 3], "0–3"), ([0, 1, 4, 6, 7], "0–1, 4, 6–7")],
)
def test_card_numbers_are_written_as_ranges(numbers: list[int], shown: str) -> None:
    assert ranges(numbers) == shown


def test_the_time_line_says_who_and_for_whom_and_by_which_rule(world: World, ann: Client) -> None:
    victim = world.task(wanted_class="elastic")
    mine = world.task(task_flag="mine")
    note(victim, "submitted", actor=world.user("ann"))
    note(victim, "evicted", "evicting", args={"for": mine.pk, "rule": "victim"})
    page = text(ann, victim)
    assert "by ann" in page
    assert "Evicted: told to leave its cards" in page
    assert f'for <a href="/tasks/{mine.pk}/">task {mine.pk}</a> of ads' in page
    assert "its cards were the cheapest to give up" in page
    assert page.index("Evicted: told") < page.index(">Submitted</span>")


def test_a_task_of_others_is_named_as_a_cause_and_not_linked(world: World, ann: Client) -> None:
    victim, other = world.task(), world.task("speech", "oz", task_flag="their-secret")
    note(victim, "evicted", "evicting", args={"for": other.pk, "rule": "guarantee"})
    page = text(ann, victim)
    assert f"for task {other.pk} of speech" in page
    assert f"/tasks/{other.pk}/" not in page
    assert "their-secret" not in page


@pytest.mark.parametrize(
    ("state", "verbs"),
    [
        ("queued", {"hold", "stop", "clone"}),
        ("held", {"release", "stop", "clone"}),
        ("running", {"stop", "clone"}),
        ("stopping", {"clone"}),
        ("keeping", {"free", "stop", "clone"}),
        ("succeeded", {"retry", "clone"}),
        ("failed", {"retry", "clone"}),
    ],
)
def test_only_what_is_legal_now_is_offered(state: str, verbs: set[str], world: World, ann: Client) -> None:
    task = world.task(state=state)
    page = text(ann, task)
    for verb in ("hold", "release", "stop", "free", "retry"):
        assert (f'action="/tasks/{task.pk}/{verb}/"' in page) is (verb in verbs), verb
    assert f"/tasks/new/?clone={task.pk}" in page


def test_a_colleague_may_copy_and_not_steer(world: World, colleague: Client) -> None:
    task = world.task(state="running")
    page = text(colleague, task)
    assert f"/tasks/new/?clone={task.pk}" in page
    assert f"/tasks/{task.pk}/stop/" not in page


def test_what_is_done_comes_back_to_the_page(world: World, ann: Client) -> None:
    task = world.task()
    assert ann.post(f"/tasks/{task.pk}/hold/")["Location"] == f"/tasks/{task.pk}/"
    assert "held" in text(ann, task)
    ann.post(f"/tasks/{task.pk}/release/")
    ann.post(f"/tasks/{task.pk}/stop/")
    task.refresh_from_db()
    assert task.state == "stopped"


def test_a_refusal_says_why(world: World, ann: Client) -> None:
    task = world.task(state="succeeded")
    page = ann.post(f"/tasks/{task.pk}/stop/", follow=True).content.decode()
    assert "The task is over already" in page


def test_running_again_leads_to_the_new_task(world: World, ann: Client) -> None:
    document = {"GPUName": "P40", "is_elasticity": False, "host_num": 1, "host_gpu_num": 1}
    task = world.task(state="failed", config=document)
    answer = ann.post(f"/tasks/{task.pk}/retry/")
    again = Task.objects.latest("pk")
    assert answer["Location"] == f"/tasks/{again.pk}/"
    assert again.origin == task


def test_running_again_what_is_refused_now_says_so(world: World, ann: Client) -> None:
    task = world.task(state="failed", config={"GPUName": "P40", "host_gpu_num": 99})
    page = ann.post(f"/tasks/{task.pk}/retry/", follow=True).content.decode()
    assert "host_gpu_num" in page
    assert Task.objects.count() == 1


def test_an_unknown_verb_is_not_found_and_none_is_done_by_looking(world: World, ann: Client) -> None:
    task = world.task()
    assert ann.post(f"/tasks/{task.pk}/explode/").status_code == 404
    assert ann.get(f"/tasks/{task.pk}/stop/").status_code == 405
    task.refresh_from_db()
    assert task.state == "queued"


def test_why_an_attempt_ended_comes_with_what_can_be_done(world: World, ann: Client) -> None:
    task = world.task(state="failed")
    run(task, world.host("h1"), outcome="failed", outcome_code="out_of_memory", outcome_args={"host": "h1"})
    page = text(ann, task)
    assert "The process on h1 was ended because the memory of the host ran out" in page
    assert "What could be done: Take smaller batches or fewer loader processes" in page
    ann.post("/i18n/setlang/", {"language": "zh-hans"})
    assert "h1 上的进程因母机内存耗尽而被终止" in text(ann, task)


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


def test_an_open_task_is_asked_for_again_and_one_that_is_over_is_not(world: World, ann: Client) -> None:
    assert "every 5s" in text(ann, world.task())
    assert "every 5s" not in text(ann, world.task(state="failed", ended_at=timezone.now()))


def test_htmx_gets_what_changes_and_leaves_the_log_alone(world: World, ann: Client) -> None:
    part = text(ann, world.task(), **{"HX-Request": "true"})
    assert 'id="live"' in part
    assert 'id="log"' not in part


def test_the_config_is_shown_as_text(world: World, ann: Client) -> None:
    task = world.task(config={"start_cmd": "echo '<b>' 中文"})
    page = text(ann, task)
    assert "echo &#x27;&lt;b&gt;&#x27; 中文" in page


@pytest.mark.parametrize("many", [False, True])
def test_the_page_takes_as_many_queries_for_a_long_past_as_for_a_short_one(
    many: bool, world: World, ann: Client, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    task = world.task(hosts=2, cards=1)
    for _time in range(5 if many else 1):
        run(task, world.host("h1"), world.host("h2"), outcome="evicted")
        note(task, "evicted", "evicting", actor=world.user("ann"), args={"for": task.pk, "rule": "victim"})
    run(task, world.host("h1"), world.host("h2"))
    with django_assert_num_queries(11):
        ann.get(f"/tasks/{task.pk}/")
