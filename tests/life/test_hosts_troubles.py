"""Hosts that fail and hosts that operators take out; processes that will not die."""

import contextlib
import os
import signal
import time
from datetime import timedelta

import pytest
from django.core.mail import EmailMessage
from django.test import Client
from django.utils import timezone
from pytest_django import Settings

from cluster import host_events, stuck
from cluster.models import CardLease, Host, HostEvent, Instance
from jobs import services
from jobs import tasks as tasks_of_the_beat
from jobs.engine import passes
from jobs.models import Task
from quotas.models import ApiToken
from tests.agent.conftest import marked
from tests.life.house import House, RealHost
from tests.life.test_hosts_away import ELASTIC, STAY, enough, keepers, outcomes


@pytest.fixture
def house(house: House) -> House:
    """Return a house with hardly any backoff."""
    house.policy(pull_up_backoff_s=0.1, exit_grace_s=2.0)
    return house


def ask(house: House, host: RealHost, verb: str, reason: str = "fan is loud") -> None:
    """Steer a host as an operator does."""
    token = ApiToken.objects.issue(house.world.operator(), f"{verb} {time.time()}")
    answer = Client().post(
        f"/api/v1/hosts/{host.row.pk if host.row else 0}/{verb}/",
        {"reason": reason},
        content_type="application/json",
        headers={"Authorization": f"Token {token}"},
    )
    assert answer.status_code == 200, answer.content


def test_a_host_that_starts_nothing_is_quarantined_and_the_tasks_run_elsewhere(
    house: House, settings: Settings, mailoutbox: list[EmailMessage]
) -> None:
    settings.MAIL_OPERATORS = ["ann@example.com"]
    bad = house.host("h1", 2, storage=house.broken_storage())
    good = house.host("h2", 8)
    with house.planning:
        tasks = [house.submit("echo well", retry_limit=1) for _ in range(50)]
    for task in tasks:
        house.reach(task, "succeeded", within_s=60)
    assert bad.row is not None
    assert bad.row.state == "quarantined"
    reason = host_events.reason(bad.row.state_reason, bad.row.state_args)
    failed = [task for task in tasks if outcomes(task) == ["failed", "succeeded"]]
    assert all(outcomes(task) == ["succeeded"] for task in tasks if task not in failed)
    assert 3 <= len(failed) <= 4  # the fourth was started before the third had failed
    assert sum(str(task.pk) in reason for task in failed) >= 3  # those that had failed when it was judged
    assert {house.member(task).host.name for task in tasks} == {good.name}
    assert all(house.member(task, number=1).host.name == bad.name for task in failed)
    event = HostEvent.objects.get(code="quarantine")
    assert (event.host, host_events.sentence(event.code, event.args)) == (bad.row, reason)
    assert mailoutbox == []
    tasks_of_the_beat.send_host_mails()
    (mail,) = mailoutbox
    assert (mail.to, mail.subject) == (["ann@example.com"], "Taiji: host h1 is quarantined")
    assert reason in mail.body


def test_a_host_whose_storage_is_away_says_so_and_is_given_no_task(house: House) -> None:
    away = house.folder / "not-mounted"
    bad = house.host("h1", 2, storage=str(away))
    good = house.host("h2", 1)
    tasks = [house.submit("echo well", retry_limit=1) for _ in range(3)]
    for task in tasks:
        house.reach(task, "succeeded")
        assert outcomes(task) == ["succeeded"]
    assert {house.member(task).host.name for task in tasks} == {good.name}
    assert bad.row is not None
    said = f"The storage {away} is not there: nothing can start here."
    assert (bad.row.state, bad.row.trouble, bad.row.offers) == ("ready", said, [])


def test_a_task_that_fails_everywhere_quarantines_no_host(house: House) -> None:
    """The task is bad, not the hosts."""
    for number in (1, 2, 3):
        house.host(f"h{number}", 1)
    task = house.submit("exit 1", retry_limit=3)
    house.reach(task, "failed")
    assert {house.member(task, number=number).host.name for number in (1, 2, 3)} == {"h1", "h2", "h3"}
    assert set(Host.objects.values_list("state", flat=True)) == {"ready"}


def test_a_draining_host_takes_no_starts_lets_high_tasks_finish_and_sends_elastic_ones_elsewhere(
    house: House,
) -> None:
    h1 = house.host("h1", 2)
    high, elastic = house.submit(STAY), house.submit(STAY, **ELASTIC)
    house.reach(high, "running")
    house.reach(elastic, "running")
    house.host("h2", 1)
    ask(house, h1, "drain")
    house.until(lambda: elastic.attempts.count() == 2)
    house.reach(elastic, "running")
    assert (outcomes(elastic), house.member(elastic).host.name) == (["evicted", ""], "h2")
    waits = house.submit("echo later", **ELASTIC)  # a high one would evict the elastic one once more
    time.sleep(0.3)
    house.reach(waits, "queued")
    house.reach(high, "running")
    enough(house, high)
    house.reach(high, "succeeded")
    ask(house, h1, "uncordon")
    house.reach(waits, "succeeded")


def test_what_is_on_a_removed_host_ends_as_lost_and_is_gone_before_its_cards_count(house: House) -> None:
    h1 = house.host("h1", 1)
    task = house.submit(STAY, retry_limit=1)
    house.reach(task, "running")
    old = house.member(task)
    ask(house, h1, "remove", "sold")
    house.host("h2", 1)
    house.until(lambda: task.attempts.count() == 2)
    house.reach(task, "running")
    assert (outcomes(task), marked(str(old.pk))) == (["lost", ""], [])


def test_a_removed_host_that_was_lost_ends_what_still_runs_there_when_it_comes_back(house: House) -> None:
    h1 = house.host("h1", 1)
    house.host("h2", 1)
    Host.objects.filter(name="h2").update(state="cordoned")
    task = house.submit(STAY, retry_limit=1)
    house.reach(task, "running")
    old = house.member(task)
    h1.end(signal.SIGKILL)
    Host.objects.filter(name="h1").update(lost_since=timezone.now())
    ask(house, h1, "remove", "burnt")
    Host.objects.filter(name="h2").update(state="ready")
    house.until(lambda: task.attempts.count() == 2)
    house.reach(task, "running")
    assert marked(str(old.pk))  # nobody could end it yet
    h1.start()
    house.until(lambda: not marked(str(old.pk)))
    house.reach(task, "running")
    ask(house, h1, "restore", "")
    house.until(lambda: h1.row and h1.row.lost_since is None)
    house.reach(house.submit("echo again"), "succeeded")


def test_a_process_that_will_not_die_keeps_its_cards_and_is_told_of(house: House) -> None:
    """However often the passes begin anew, it is neither queued again nor its card given away."""
    host = house.host("h1", 1)
    task = house.submit(STAY, **ELASTIC)
    house.reach(task, "running")
    member = house.member(task)
    host.pause()  # to the platform it is the same: it is told that the process lives on
    services.stop(task, task.user)
    for _ in range(3):
        passes.run()
    time.sleep(1)
    house.reach(task, "stopping")
    assert CardLease.objects.filter(released_at=None).count() == 1
    assert marked(str(member.pk))
    Instance.objects.filter(pk=member.pk).update(stop_asked_at=timezone.now() - timedelta(seconds=61))
    stuck.note(timezone.now())
    stuck.note(timezone.now())
    event = HostEvent.objects.get(code="will_not_die")
    assert member.label in host_events.sentence(event.code, event.args)
    token = ApiToken.objects.issue(task.user, "look")
    seen = Client().get(f"/api/v1/tasks/{task.pk}/", headers={"Authorization": f"Token {token}"}).json()
    assert "will not die" in seen["attempts"][0]["hosts"][0]["detail"]
    host.go_on()
    house.reach(task, "stopped")
    assert outcomes(task) == ["stopped"]


def test_a_process_that_vanishes_while_nobody_looks_ends_once_and_is_pulled_up_once(house: House) -> None:
    h1 = house.host("h1", 2)
    high, elastic = house.submit(STAY), house.submit(STAY, **ELASTIC)
    house.reach(high, "running")
    house.reach(elastic, "running")
    h1.end(signal.SIGKILL)
    for pid in keepers(h1):  # first: else they would see how the processes end
        os.kill(pid, signal.SIGKILL)
    for task in (high, elastic):
        for pid in marked(str(house.member(task).pk)):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    h1.start()
    house.reach(high, "failed")
    house.until(lambda: elastic.attempts.count() == 2)
    house.reach(elastic, "running")
    time.sleep(0.5)
    assert (outcomes(high), outcomes(elastic)) == (["lost"], ["lost", ""])
    assert _moves(elastic, "queued") == 1
    assert _moves(high, "failed") == 1


def _moves(task: Task, state: str) -> int:
    """Count how often the task was moved to a state from one in which it had cards."""
    return task.events.filter(new_state=state).exclude(old_state="").count()
