"""A sync: reports become rows, only forward and only once, and the answer is what should run."""

import uuid
from collections.abc import Callable
from contextlib import AbstractContextManager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries, DjangoCaptureOnCommitCallbacks, Settings

from cluster import hints, reports, sync
from cluster.executors import agents
from cluster.models import Card, Host, Instance
from tests.cluster import words
from tests.cluster.words import Agent, instance, launch, row
from tests.world import World

NOW = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def host(world: World) -> Host:
    """Return a host with four cards."""
    return world.host("h1", 4)


@pytest.fixture
def agent(host: Host) -> Agent:
    """Return its agent, which has synced once."""
    agent = Agent(host)
    agent.sync()
    return agent


@pytest.fixture
def published(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the list of the topics that are published, and `pass` where the pass was woken."""
    topics: list[str] = []
    monkeypatch.setattr(hints, "publish", lambda *more: topics.extend(more))
    monkeypatch.setattr(hints, "wake_pass", lambda: topics.append("pass"))
    return topics


# Who may speak


@pytest.mark.parametrize("header", ["", "Bearer", "Bearer wrong", "Token token-of-h1", "Bearer "])
def test_without_a_valid_token_nothing_is_taken(host: Host, header: str) -> None:
    Agent(host)
    answer = Client().post(
        "/api/agent/sync/", words.report(cards=1), "application/json", headers={"authorization": header}
    )
    assert answer.status_code == 401
    assert answer.json()["errors"][0]["code"] == "token"
    assert not Card.objects.filter(state="missing").exists()


def test_a_host_without_a_token_admits_nobody(host: Host) -> None:
    answer = Client().post("/api/agent/sync/", words.report(), "application/json")
    assert answer.status_code == 401


def test_a_removed_host_is_not_known_any_more(agent: Agent) -> None:
    Host.objects.update(state="removed")
    agent.sync(status=401)


def test_an_old_protocol_is_told_to_update(agent: Agent) -> None:
    assert "newer agent" in agent.sync(status=426, protocol=0)["errors"][0]["message"]


@pytest.mark.parametrize("method", ["get", "put"])
def test_only_a_post_syncs(agent: Agent, method: str) -> None:
    assert getattr(Client(), method)("/api/agent/sync/", headers=agent.headers).status_code == 405


@pytest.mark.parametrize("body", [b"", b"{", b"\xff", b"[1]", b"null", b"[" * 100_000])
def test_what_is_no_report_is_refused(agent: Agent, body: bytes) -> None:
    answer = Client().post("/api/agent/sync/", body, "application/json", headers=agent.headers)
    assert answer.status_code == 400
    assert answer.json()["errors"][0]["message"]


def test_a_faulty_report_is_never_half_applied(agent: Agent, host: Host) -> None:
    pk = launch(host)
    answer = agent.sync(status=400, address="new", cards=1, instances=[instance(pk), instance("x")])
    assert [fault["field"] for fault in answer["errors"]] == ["instances[1].id"]
    assert (row(pk).phase, host.cards.filter(state="missing").count()) == ("pending", 0)
    assert Host.objects.get().address == "h1.test"


# What a report says of the host


def test_the_host_s_facts_are_kept(agent: Agent, host: Host) -> None:
    before = datetime.now(UTC)
    agent.sync(
        address="10.9.9.9", offers=["process", "container"], version="9.9", clock=before.timestamp() + 60
    )
    host.refresh_from_db()
    assert (host.address, host.offers, host.agent_version) == ("10.9.9.9", ["container", "process"], "9.9")
    assert (host.agent_boot, host.agent_seq) == (words.BOOT, 2)
    assert host.last_seen_at is not None
    assert host.last_seen_at >= before
    assert host.clock_offset_s == pytest.approx(60, abs=5)


def test_a_card_that_breaks_is_broken_and_told_of(agent: Agent, host: Host, published: list[str]) -> None:
    cards = [words.card(0), words.card(1, state="broken", reason="XID 79"), words.card(2)]
    agent.seq += 1
    Client().post(
        "/api/agent/sync/",
        words.report(agent.seq) | {"cards": cards},
        "application/json",
        headers=agent.headers,
    )
    states = list(host.cards.order_by("index").values_list("state", "state_reason"))
    assert states == [("ok", ""), ("broken", "XID 79"), ("ok", ""), ("missing", "")]
    assert published == ["pass", "cards"]


def test_a_lost_host_is_back_when_it_reports(agent: Agent, host: Host, published: list[str]) -> None:
    Host.objects.update(lost_since=NOW)
    agent.sync()
    assert Host.objects.get().lost_since is None
    assert published == ["pass", "cards"]


def test_a_removed_host_is_heard_until_nothing_of_ours_is_left_on_it(agent: Agent, host: Host) -> None:
    pk = launch(host)
    agent.sync(instances=[instance(pk)])
    Host.objects.update(state="removed")
    agents.stop([1])
    assert [one["run"] for one in agent.sync(instances=[instance(pk)])["instances"]] == [False]
    assert agent.sync(instances=[instance(pk, "gone")])["forget"] == [str(pk)]
    agent.sync(status=401)


def test_a_lost_host_stays_lost_until_what_should_not_run_there_is_gone(agent: Agent, host: Host) -> None:
    pk = launch(host)
    agent.sync(instances=[instance(pk)])
    Host.objects.update(lost_since=NOW)
    agents.abandon([host.pk], "host lost")
    assert agent.sync(instances=[instance(pk)])["instances"] == []
    assert Host.objects.get().lost_since == NOW
    assert agent.sync(instances=[instance(pk, "gone")])["forget"] == [str(pk)]
    assert Host.objects.get().lost_since is None


# Which report counts


def test_a_report_not_newer_than_the_last_is_refused(agent: Agent, host: Host) -> None:
    pk = launch(host)
    agent.sync(instances=[instance(pk)])
    agent.seq -= 1
    assert agent.sync(status=409, instances=[instance(pk, "gone")])["errors"][0]["code"] == "late"
    assert row(pk).phase == "running"


def test_a_restarted_agent_takes_over_and_begins_at_one(agent: Agent, host: Host) -> None:
    pk = launch(host)
    agent.sync(instances=[instance(pk)])
    boot = str(uuid.uuid4())
    agent.seq = 0
    agent.sync(boot=boot, instances=[instance(pk, "ending")])
    host.refresh_from_db()
    assert (host.agent_boot, host.agent_seq, row(pk).phase) == (boot, 1, "ending")


def test_of_two_reports_read_at_once_only_one_is_written(agent: Agent, host: Host) -> None:
    pk = launch(host)
    one, other = (Host.objects.get(pk=host.pk) for _ in range(2))
    sync.take(one, reports.read(agent.report(instances=[instance(pk, "running")])), NOW)
    with pytest.raises(sync.Late):
        sync.take(other, reports.read(agent.report(instances=[instance(pk, "gone", exit_code=9)])), NOW)
    assert row(pk).phase == "running"


# What a report says of instances

PHASES = ["pending", "starting", "running", "ending", "gone"]


@pytest.mark.parametrize("old", PHASES)
@pytest.mark.parametrize("new", PHASES[1:])
def test_phases_only_go_forward(agent: Agent, host: Host, old: str, new: str) -> None:
    pk = launch(host)
    Instance.objects.filter(pk=pk).update(phase=old)
    agent.sync(instances=[instance(pk, new)])
    assert row(pk).phase == max(old, new, key=PHASES.index)


def step(known: dict[str, Any], **report: Any) -> dict[str, Any]:
    """Return what the report changes of an instance of which so much is known."""
    document = words.report(instances=[instance(uuid.uuid4(), **report)])
    return sync.step(sync.Known(**known), reports.read(document).instances[0], NOW)


@pytest.mark.parametrize(
    ("known", "report", "changes"),
    [
        ({"phase": "running"}, {"phase": "starting", "exit_code": 1}, {}),
        ({"phase": "running", "running_at": NOW}, {"phase": "running", "log_bytes": 5}, {}),
        (
            {"phase": "starting"},
            {"phase": "running"},
            {"phase": "running", "running_at": NOW, "log_bytes": 0},
        ),
        (
            {"phase": "pending"},
            {"phase": "gone", "exit_code": 0, "by_itself": True, "log_bytes": 7},
            {
                "phase": "gone",
                "exit_code": 0,
                "ended_by_itself": True,
                "running_at": NOW,
                "gone_at": NOW,
                "log_bytes": 7,
            },
        ),
        (
            {"phase": "pending"},
            {"phase": "gone", "detail": "no such folder"},
            {"phase": "gone", "detail": "no such folder", "gone_at": NOW, "log_bytes": 0},
        ),
        (
            {"phase": "ending", "running_at": NOW, "exit_signal": 15},
            {"phase": "gone", "by_itself": False},
            {"phase": "gone", "ended_by_itself": False, "gone_at": NOW, "log_bytes": 0},
        ),
    ],
    ids=["older", "same", "runs", "ran between two reports", "never ran", "what was known stays known"],
)
def test_what_a_report_changes(
    known: dict[str, Any], report: dict[str, Any], changes: dict[str, Any]
) -> None:
    assert step(known, **report) == changes


def test_the_end_of_an_instance_is_recorded_and_may_be_forgotten(
    agent: Agent, host: Host, published: list[str]
) -> None:
    pk = launch(host)
    end = instance(pk, "gone", exit_signal=9, by_itself=False, detail="killed", log_bytes=42)
    answer = agent.sync(instances=[end])
    ended = row(pk)
    assert (ended.exit_signal, ended.ended_by_itself, ended.detail, ended.log_bytes) == (
        9,
        False,
        "killed",
        42,
    )
    assert ended.gone_at is not None
    assert (answer["instances"], answer["forget"]) == ([], [str(pk)])
    assert published[-1] == "pass"
    assert "cards" not in published  # whoever gives the cards back says so


def test_gone_is_final(agent: Agent, host: Host) -> None:
    pk = launch(host)
    agent.sync(instances=[instance(pk, "gone", exit_code=1)])
    agent.sync(instances=[instance(pk, "gone", exit_code=0)])
    agent.sync(instances=[instance(pk, "running")])
    assert (row(pk).phase, row(pk).exit_code) == ("gone", 1)


def test_an_instance_of_another_host_is_not_touched(agent: Agent, world: World) -> None:
    pk = launch(world.host("h2", 0))
    answer = agent.sync(instances=[instance(pk, "gone")])
    assert row(pk).phase == "pending"
    assert (answer["instances"], answer["forget"]) == ([], [str(pk)])


def test_what_is_unknown_is_neither_wanted_nor_forgotten_until_it_is_gone(agent: Agent) -> None:
    pk = str(uuid.uuid4())
    running = agent.sync(instances=[instance(pk, "running")])
    assert (running["instances"], running["forget"]) == ([], [])
    assert agent.sync(instances=[instance(pk, "gone")])["forget"] == [pk]


# What comes down


def test_a_new_instance_comes_with_its_secrets_in_its_environment(agent: Agent, host: Host) -> None:
    pk = launch(host, secrets={"KEY": "hunter2"})
    answer = agent.sync()
    assert answer["instances"] == [
        {
            "id": str(pk),
            "run": True,
            "go": False,
            "spec": {"label": "gang 1", "command": "sleep 9", "env": {"A": "1", "KEY": "hunter2"}},
        }
    ]
    assert answer["forget"] == []
    assert abs(answer["now"] - datetime.now(UTC).timestamp()) < 60


@pytest.mark.parametrize(("phase", "travels"), [("starting", True), ("running", False), ("ending", False)])
def test_once_an_instance_runs_its_secrets_do_not_travel_again(
    agent: Agent, host: Host, phase: str, travels: bool
) -> None:
    pk = launch(host, secrets={"KEY": "hunter2"})
    spec = agent.sync(instances=[instance(pk, phase)])["instances"][0]["spec"]
    assert ("KEY" in spec["env"]) == travels


def test_an_instance_whose_secrets_cannot_be_read_is_not_started_and_stops_no_other(
    agent: Agent, host: Host, settings: Settings
) -> None:
    launch(host, gang=1, secrets={"KEY": "hunter2"})
    settings.VAULT_KEYS = ["A" * 43 + "="]
    other = launch(host, gang=2)
    assert [one["id"] for one in agent.sync()["instances"]] == [str(other)]


@pytest.mark.parametrize("phase", ["", "starting"])
def test_an_order_to_end_comes_down_though_the_secrets_cannot_be_read(
    agent: Agent, host: Host, phase: str, settings: Settings
) -> None:
    pk = launch(host, secrets={"KEY": "hunter2"})
    seen = [instance(pk, phase)] if phase else []
    agent.sync(instances=seen)
    settings.VAULT_KEYS = ["A" * 43 + "="]
    agents.stop([1])
    assert [(one["id"], one["run"]) for one in agent.sync(instances=seen)["instances"]] == [(str(pk), False)]


def test_what_was_stopped_is_to_be_ended_and_the_version_says_so(agent: Agent, host: Host) -> None:
    pk = launch(host)
    before = agent.sync(instances=[instance(pk)])
    agents.stop([1])
    after = agent.sync(instances=[instance(pk)])
    assert [one["run"] for one in after["instances"]] == [False]
    assert before["version"] != after["version"]
    assert after["version"] == agent.sync(instances=[instance(pk)])["version"]


def test_what_the_host_had_and_lost_is_never_run_again(agent: Agent, host: Host) -> None:
    pk = launch(host)
    assert agent.sync()["instances"][0]["run"]
    agent.sync(instances=[instance(pk, "running")])
    assert [one["run"] for one in agent.sync(instances=[])["instances"]] == [False]


def test_only_this_host_s_instances_come_down(agent: Agent, world: World) -> None:
    launch(world.host("h2", 0))
    assert agent.sync()["instances"] == []


# What it costs


def test_an_idle_sync_writes_nothing_and_tells_nobody(
    agent: Agent, host: Host, published: list[str], django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    pk = launch(host)
    agent.sync(instances=[instance(pk)])
    published.clear()
    seen = Host.objects.get().last_seen_at
    with django_assert_num_queries(3):  # host, instances, cards
        agent.sync(instances=[instance(pk, log_bytes=99)])
    assert (published, Host.objects.get().last_seen_at) == ([], seen)


def test_that_an_idle_host_was_seen_is_written_now_and_then(
    agent: Agent, host: Host, published: list[str], django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    Host.objects.update(last_seen_at=NOW)
    with django_assert_num_queries(4):
        agent.sync()
    seen = Host.objects.get().last_seen_at
    assert seen is not None
    assert seen > NOW + timedelta(days=1)
    assert published == []


def test_that_a_host_was_seen_before_the_clock_was_put_back_is_not_believed(agent: Agent, host: Host) -> None:
    Host.objects.update(last_seen_at=timezone.now() + timedelta(hours=1))
    agent.sync()
    seen = Host.objects.get().last_seen_at
    assert seen is not None
    assert seen <= timezone.now()


def test_a_sync_is_a_fixed_number_of_queries_whatever_is_on_the_host(
    world: World, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    for cards in (2, 30):
        host = world.host(f"with {cards}", cards)
        agent = Agent(host)
        agent.sync()
        instances = [instance(launch(host, gang, cards), "running") for gang in range(cards)]
        agent.sync(instances=instances)
        with django_assert_num_queries(3):
            agent.sync(instances=instances)


def test_instances_are_written_in_the_order_of_their_ids_whatever_the_order_of_the_report(
    agent: Agent, host: Host
) -> None:
    ids = sorted((launch(host, gang) for gang in range(4)), reverse=True)
    with CaptureQueriesContext(connection) as queries:
        agent.sync(instances=[instance(pk) for pk in ids])
    written = [query["sql"] for query in queries if 'UPDATE "cluster_instance"' in query["sql"]]
    order = [next(pk for pk in ids if pk.hex in sql.replace("-", "")) for sql in written]
    assert order == sorted(ids)


def test_live_instances_are_found_without_reading_the_ended(host: Host) -> None:
    live = Instance.objects.filter(host=host).exclude(phase="gone")
    if connection.vendor == "sqlite":
        assert "instance_live" in live.explain()


def test_hints_go_out_only_after_the_rows_are_written(
    agent: Agent,
    host: Host,
    monkeypatch: pytest.MonkeyPatch,
    django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks,
) -> None:
    told: list[str] = []
    monkeypatch.setattr(hints, "_wake_pass", lambda: told.append("pass"))
    pk = launch(host)
    capture: Callable[..., AbstractContextManager[Any]] = django_capture_on_commit_callbacks
    with capture(execute=True):
        agent.sync(instances=[instance(pk)])
        assert told == []
    assert told == ["pass"]
