"""The page of one task: what it says, and what may be done there."""

import re
from datetime import timedelta
from html import escape

import pytest
from django.test import Client
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries

from cluster.models import Host, Instance
from jobs import losses, task_events
from jobs.engine import hosts_for
from jobs.models import Task
from jobs.portal.history import ranges
from tests.portal.conftest import note, run, text
from tests.world import World


@pytest.fixture(autouse=True)
def _looks_at_hosts_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hosts_for, "KEPT_S", 0.0)


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
    assert page.index("Evicted: told") < page.index('text-break">Submitted</span>')


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


def test_running_again_twice_from_one_page_makes_one_task_and_from_the_next_page_another(
    world: World, ann: Client
) -> None:
    task = world.task(state="failed")

    def run_again(page: str) -> str:
        key = re.search(r'name="key" value="(\w+)" form="run-again"', page)
        assert key is not None
        assert 'id="run-again"' in page
        return str(ann.post(f"/tasks/{task.pk}/retry/", {"key": key[1]})["Location"])

    page = text(ann, task)
    assert run_again(page) == run_again(page)
    assert Task.objects.filter(origin=task).count() == 1
    run_again(text(ann, task))
    assert Task.objects.filter(origin=task).count() == 2


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


@pytest.mark.parametrize(
    ("asked_s", "lost", "said"),
    [(61, False, True), (59, False, False), (61, True, False), (None, False, False)],
)
def test_a_process_that_will_not_die_is_told_while_its_host_is_heard(
    world: World, ann: Client, asked_s: int | None, lost: bool, said: bool
) -> None:
    task = world.task(state="stopping")
    run(task, world.host("h1"))
    now = timezone.now()
    asked_at = None if asked_s is None else now - timedelta(seconds=asked_s)
    Instance.objects.update(wanted=asked_s is None, stop_asked_at=asked_at)
    Host.objects.update(lost_since=now if lost else None)
    told = "A process of it will not die: the cards stay with it until it does."
    assert (told in text(ann, task)) == said
    [host] = ann.get(f"/api/v1/tasks/{task.pk}/").json()["attempts"][0]["hosts"]
    assert host["detail"] == (told if said else "")
    ann.post("/i18n/setlang/", {"language": "zh-hans"})
    assert ("它有进程无法结束" in text(ann, task)) == said


def test_an_open_task_is_asked_for_again_and_one_that_is_over_is_not(world: World, ann: Client) -> None:
    assert 'hx-trigger="taiji:task' in text(ann, world.task())
    assert 'hx-trigger="taiji:task' not in text(ann, world.task(state="failed", ended_at=timezone.now()))


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
        text(ann, task, **{"HX-Request": "true"})


@pytest.mark.parametrize(
    ("interval", "said"),
    [
        (None, "At most 0.53 card-hours of work are lost: it names no checkpoint_interval."),
        (0, "No work is lost: it saves all the time."),
        (60, "Next to no work is lost: it saves each 0:01:00."),
        (150, "About 0.20 card-hours of work since its last checkpoint are lost (one each 0:02:30)."),
    ],
)
def test_an_attempt_says_who_evicted_it_by_which_rule_and_what_was_lost(
    interval: int | None, said: str, world: World, ann: Client
) -> None:
    cause = world.task("speech", "oz")
    task = world.task(cards=8, wanted_class="elastic", checkpoint_interval_s=interval)
    attempt = run(task, world.host("h1"), outcome="evicted", evicted_for=cause, evict_rule="guarantee")
    attempt.ending_at = attempt.created_at + timedelta(seconds=240.1)
    attempt.save()
    page = text(ann, task)
    part = page.split('id="attempts"')[1].split('id="moments"')[0]
    assert f"Evicted for task {cause.pk} of speech · the guarantee of a high task needed its cards" in part
    assert said in part


def test_an_attempt_that_ended_at_once_lost_nothing_worth_a_word(world: World) -> None:
    task = world.task(cards=8)
    attempt = run(task, world.host("h1"), outcome="failed")
    attempt.ended_at = attempt.created_at + timedelta(seconds=4)
    assert losses.said(attempt, task) == ""
    attempt.ended_at = attempt.created_at + timedelta(seconds=5)
    assert losses.said(attempt, task).startswith("At most 0.01 card-hours")


@pytest.mark.parametrize(
    ("rule", "causer", "said"),
    [
        ("guarantee", 7, "Evicted for task 7 of ads: the guarantee of a high task needed its cards"),
        ("drain", None, "Evicted: its host is being drained"),
        ("", None, ""),
    ],
)
def test_an_eviction_is_said_with_its_rule_and_whom_it_was_for(
    rule: str, causer: int | None, said: str
) -> None:
    assert task_events.evicted(rule, causer, "ads") == said


@pytest.mark.parametrize("language", ["en", "zh-hans"])
def test_what_lasted_for_days_is_shown_in_hours(language: str, world: World, ann: Client) -> None:
    task = world.task(checkpoint_interval_s=30 * 3600, state="evicted", ended_at=timezone.now())
    attempt = run(task, world.host("h1"), outcome="evicted", outcome_code="evicted")
    assert attempt.ended_at is not None
    attempt.created_at = attempt.ended_at - timedelta(hours=51)
    attempt.running_at = attempt.ended_at - timedelta(hours=50)
    attempt.save()
    page = text(ann, task, **{"Accept-Language": language})
    assert "51:00:00" in page
    assert "50:00:00" in page
    assert "30:00:00" in page
    assert "2 days" not in page


def test_an_attempt_that_ended_well_lost_nothing(world: World, ann: Client) -> None:
    task = world.task(state="succeeded", ended_at=timezone.now())
    run(task, world.host("h1"), outcome="succeeded")
    assert "lost" not in text(ann, task).split('id="attempts"')[1].split('id="moments"')[0]


def test_a_failure_stands_above_all_else_with_what_can_be_done(world: World, ann: Client) -> None:
    task = world.task(state="failed", ended_at=timezone.now())
    run(task, world.host("h1"), outcome="failed", outcome_code="start_failed", outcome_args={"host": "h1"})
    top = text(ann, task).split('id="failure"')[1].split("</div> </div>")[0]
    assert "It could not be started on h1" in top
    assert "What could be done: Mend what the sentence names" in top


def test_a_copy_shows_in_what_it_differs_from_its_origin(world: World, ann: Client) -> None:
    origin = world.task(config={"env": {"SEED": "1", "OLD": "x"}, "host_gpu_num": 4})
    task = world.task(origin=origin, config={"env": {"SEED": "<2>"}, "host_gpu_num": 4, "tags": ["a"]})
    part = text(ann, task).split('id="differences"')[1].split("</table>")[0]
    assert re.findall(r"<code>(.*?)</code>", part) == ["env.OLD", "env.SEED", "tags"]
    assert "<del><bdi>1</bdi></del>" in part
    assert "<ins><bdi>&lt;2&gt;</bdi></ins>" in part
    assert "<bdi>[&quot;a&quot;]</bdi>" in part


def test_a_copy_of_a_task_that_one_may_not_see_shows_nothing_of_it(world: World, ann: Client) -> None:
    origin = world.task("speech", "oz", config={"start_cmd": "their secret"})
    page = text(ann, world.task(origin=origin))
    assert "differences" not in page
    assert "their secret" not in page
    assert f"A copy of task {origin.pk} of speech" in page
    assert f"/tasks/{origin.pk}/" not in page
    same = world.task(origin=world.task(config={"a": 1}), config={"a": 1})
    assert "It is the same as that of" in text(ann, same)


@pytest.mark.parametrize(
    "flag", ["广告-推荐 🚀", "a" * 255, ".hidden", "../up", "right \u202e left", "<b>x</b>"]
)
def test_any_name_is_shown_as_it_is_and_turns_nothing_around(flag: str, world: World, ann: Client) -> None:
    page = ann.get(f"/tasks/{world.task(task_flag=flag).pk}/").content.decode()
    assert f"<bdi>{escape(flag)}</bdi>" in page
    for place in ("/", "/tasks/"):
        assert f"<bdi>{escape(flag)}</bdi>" in ann.get(place).content.decode()
