"""The page of one task: what it says, and what may be done there."""

import re
from datetime import UTC, datetime, timedelta
from html import escape, unescape

import pytest
from django.test import Client
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries

from cluster import logs
from cluster.models import Host, Instance
from jobs.engine import forecasts, hosts_for, passes
from jobs.models import Task
from jobs.portal import log_page
from jobs.portal.history import ranges
from quotas.models import Quota
from tests.portal.conftest import note, run
from tests.world import World


@pytest.fixture(autouse=True)
def _looks_at_hosts_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hosts_for, "KEPT_S", 0.0)


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


# Why it waits


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


# Its way


def steps_of(page: str) -> list[tuple[str, str]]:
    """Return how each step stands, and its name."""
    return re.findall(r'<li class="stage stage-(\w+)".*?stage-name">(.*?)</span>', page)


def test_the_steps_of_a_task_that_waits_stand_at_queued(world: World, ann: Client) -> None:
    assert steps_of(text(ann, world.task())) == [
        ("done", "Submitted"),
        ("now", "Queued"),
        ("ahead", "Starting"),
        ("ahead", "Running"),
        ("ahead", "Ended"),
    ]


def test_the_steps_of_a_task_that_runs_have_their_times(world: World, ann: Client) -> None:
    task = world.task()
    attempt = run(task, world.host("h1"))
    page = text(ann, task)
    assert steps_of(page)[2:] == [("done", "Starting"), ("now", "Running"), ("ahead", "Ended")]
    assert "took 0:01:00" in page, "from its cards to all of it running"
    lasting = re.findall(r'data-lasts="(\d+)">(.*?)<', page)
    assert [seconds[:-1] for seconds, _shown in lasting] == ["24", "30"], (
        "since it ran, and since it has cards"
    )
    assert [shown[:-1] for _seconds, shown in lasting] == ["0:04:0", "0:05:0"]
    assert f"{timezone.localtime(attempt.running_at):%m-%d %H:%M:%S}</time>" in page.split("Ended</span>")[0]


def test_the_steps_of_a_task_that_was_evicted_begin_anew(world: World, ann: Client) -> None:
    task = world.task(pull_up=True)
    run(task, world.host("h1"), outcome="evicted")
    stands = [stand for stand, _name in steps_of(text(ann, task))]
    assert stands == ["done", "now", "ahead", "ahead", "ahead"]


def test_the_steps_of_a_task_that_never_ran_pass_over_what_it_did_not_reach(
    world: World, ann: Client
) -> None:
    task = world.task(state="stopped", ended_at=timezone.now())
    assert steps_of(text(ann, task)) == [
        ("done", "Submitted"),
        ("done", "Queued"),
        ("skipped", "Starting"),
        ("skipped", "Running"),
        ("done", "stopped"),
    ]


# Attempts


@pytest.mark.parametrize(
    ("interval", "said"),
    [
        (None, "At most 0.53 card-hours of work are lost: it names no checkpoint_interval."),
        (0, "No work is lost: it saves all the time."),
        (60, "About 0.00 card-hours of work since its last checkpoint are lost (one each 0:01:00)."),
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


def test_a_log_at_its_limit_is_marked_as_truncated(world: World, ann: Client) -> None:
    task = world.task()
    run(task, world.host("h1"))
    assert 'data-full=""' in text(ann, task)
    Instance.objects.update(log_bytes=logs.LOG_AT_MOST)
    assert 'data-full="1"' in text(ann, task)


def test_a_failure_stands_above_all_else_with_what_can_be_done(world: World, ann: Client) -> None:
    task = world.task(state="failed", ended_at=timezone.now())
    run(task, world.host("h1"), outcome="failed", outcome_code="start_failed", outcome_args={"host": "h1"})
    top = text(ann, task).split('id="failure"')[1].split("</div> </div>")[0]
    assert "It could not be started on h1" in top
    assert "What could be done: Mend what the sentence names" in top


# Config


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


# Names and languages


@pytest.mark.parametrize(
    "flag", ["广告-推荐 🚀", "a" * 255, ".hidden", "../up", "right \u202e left", "<b>x</b>"]
)
def test_any_name_is_shown_as_it_is_and_turns_nothing_around(flag: str, world: World, ann: Client) -> None:
    page = ann.get(f"/tasks/{world.task(task_flag=flag).pk}/").content.decode()
    assert f"<bdi>{escape(flag)}</bdi>" in page
    for place in ("/", "/tasks/"):
        assert f"<bdi>{escape(flag)}</bdi>" in ann.get(place).content.decode()


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
