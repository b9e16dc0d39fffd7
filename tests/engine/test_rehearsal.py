"""The next pass rehearsed: what it says is what a pass over the same rows with the task would say, and stays so."""

import threading
import time
from dataclasses import replace
from typing import Any

import pytest
from django.db import connection, transaction
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jobs.engine import changes, passes, rehearsal, snapshot
from jobs.engine.rehearsal import ASKED, Rehearsal
from jobs.models import Change, PassLease
from jobs.scheduling import types
from jobs.scheduling.decide import decide, run, work_on
from jobs.scheduling.types import Policy as Rules
from jobs.simulation.forecast import in_line
from quotas.models import Quota
from tests.engine.quiet import settle
from tests.scheduling.build import host, quota, snapshot_of, task
from tests.world import World


def asked(now: float, **fields: Any) -> types.Waiting:
    values: dict[str, Any] = {
        "business": 1, "user": 1, "wanted": "elastic", "host_num": 1, "host_gpu_num": 1, "gpu_types": (1,),
        "submitted": now, "queued": now, **fields,
    }  # fmt: skip
    values.setdefault("gate", "not_before" if values.get("ready_at", 0.0) > now else "")
    return types.Waiting(id=ASKED, **values)


def over(known: types.Snapshot, policy: Rules, monkeypatch: pytest.MonkeyPatch) -> Rehearsal:
    """Return a rehearsal over a snapshot that no database holds."""
    loaded = snapshot.Loaded(snapshot=known, stored_reasons={}, attempts={}, states={})
    monkeypatch.setattr(snapshot, "policy", lambda: policy)
    monkeypatch.setattr(snapshot, "load", lambda *_: loaded)
    return Rehearsal((0, 0))


def agrees(stage: Rehearsal, task: types.Waiting) -> None:
    """Compare with a pass over the snapshot with the task."""
    outcome, whole = stage.outcome(task), stage.with_task(task)
    plan = decide(whole, stage.policy)
    assert outcome.start == next((start for start in plan.starts if start.task == ASKED), None)
    assert outcome.evictions == tuple(evict for evict in plan.evictions if evict.for_task == ASKED)
    assert outcome.claim == next((claim for claim in plan.claims if claim.task == ASKED), None)
    if outcome.start is None:
        assert outcome.reason == plan.waits[ASKED]
        after = work_on(whole, stage.policy)
        run(after)
        lines = [line for line in in_line(after).values() if ASKED in line]
        assert outcome.line == tuple(
            each for each in (lines[0] if lines else ()) if each not in after.started
        )


wanted = st.fixed_dictionaries(
    {
        "business": st.sampled_from((1, 2, 3)),
        "user": st.sampled_from((1, 2)),
        "wanted": st.sampled_from(("high", "elastic", "auto")),
        "host_num": st.sampled_from((1, 1, 2)),
        "host_gpu_num": st.sampled_from((1, 2, 4, 8)),
        "gpu_types": st.sampled_from(((1,), (2,), (2, 1))),
    },
    optional={
        "region": st.sampled_from((1, 2)),
        "time_limit": st.sampled_from((60.0, 9000.0)),
        "priority": st.sampled_from((0, 2)),
        "ready_at": st.just(5000.0),
    },
)
policies = st.fixed_dictionaries(
    {
        "head_of_line": st.sampled_from(("reserve", "skip", "strict")),
        "elastic_order": st.sampled_from(("fair_share", "fifo", "shortest_first", "round_robin")),
        "high_order": st.sampled_from(("priority", "fifo")),
        "reserve_after_s": st.sampled_from((0, 1800)),
        "aging_s": st.sampled_from((0, 300)),
    }
)
lives = st.lists(st.tuples(wanted, st.floats(0, 900)), max_size=12)


def crowd(rows: list[tuple[dict[str, Any], float]], *, full: bool) -> types.Snapshot:
    """Return a cluster, full or half, and the tasks that wait for it."""
    cluster = [
        host("h1"), host("h2"), host("h3").at("GZ"), host("h4").cards("M40", 8),
        quota("A", "P40", 12), quota("B", "P40", 4), quota("C", "M40", 2),
    ]  # fmt: skip
    runs = [task("e1").elastic().of("C").on(h1=8), task("e2").elastic().of("B").on(h2=4)] if full else []
    known, _names = snapshot_of(*cluster, *runs, now=1000.0)
    waiting = tuple(
        types.Waiting(
            id=100 + number,
            submitted=since,
            queued=since,
            gate="not_before" if fields.get("ready_at") else "",
            **fields,
        )
        for number, (fields, since) in enumerate(rows)
    )
    return replace(known, waiting=waiting)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=lives, policy=policies, questions=st.lists(wanted, min_size=1, max_size=4), full=st.booleans())
def test_each_of_several_questions_is_answered_as_a_pass_would(
    rows: list[tuple[dict[str, Any], float]],
    policy: dict[str, Any],
    questions: list[dict[str, Any]],
    full: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stage = over(crowd(rows, full=full), Rules(**policy), monkeypatch)
    for number, fields in enumerate(questions):
        agrees(stage, asked(1000.0 + 100 * number, **fields))


def test_a_question_that_evicts_leaves_nothing_behind_for_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = over(crowd([], full=True), Rules(min_run_s=0), monkeypatch)
    ads = next(row.business for row in stage.snapshot.quotas if row.cards == 12)
    for number in range(3):
        now = 1000.0 + 10 * number
        large = asked(now, business=ads, wanted="high", host_gpu_num=6, host_num=2, region=1)
        agrees(stage, large)
        assert stage.outcome(large).evictions
        agrees(stage, asked(now + 1, business=ads, wanted="high", host_gpu_num=8))


def test_a_question_asked_again_at_once_is_not_rehearsed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = over(crowd([], full=True), Rules(), monkeypatch)
    first = stage.outcome(asked(1000.0))
    assert stage.outcome(asked(1004.0)) is first
    assert stage.outcome(asked(1006.0)) is not first
    assert stage.outcome(asked(1004.0, host_gpu_num=2)) is not first


def test_a_rehearsal_that_failed_spoils_none_that_follows(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = over(crowd([], full=True), Rules(), monkeypatch)
    with pytest.raises(KeyError):
        stage.outcome(asked(1000.0, wanted="no class"))
    agrees(stage, asked(1001.0, wanted="high", host_gpu_num=8))


@pytest.fixture
def quiet(world: World) -> World:
    """Return a world where nothing is left to do."""
    world.business("ads", P40=16)
    world.host("h1")
    settle()
    return world


@pytest.mark.django_db
def test_nothing_is_loaded_again_while_nothing_changes(quiet: World) -> None:
    first = rehearsal.current()
    passes.run()
    assert rehearsal.current() is first


@pytest.mark.django_db
def test_a_change_is_loaded_before_and_after_a_pass_saw_it(quiet: World) -> None:
    before = rehearsal.current()
    quiet.host("h2")
    unseen = rehearsal.current()
    assert len(unseen.snapshot.hosts) == 2
    assert unseen is not before
    Quota.objects.update(cards=3)
    assert rehearsal.current().snapshot.quotas[0].cards == 3
    settle()
    Quota.objects.update(cards=4)
    settle()
    assert rehearsal.current().snapshot.quotas[0].cards == 4


@pytest.mark.django_db
def test_where_no_pass_runs_a_change_is_loaded_all_the_same(quiet: World) -> None:
    for cards in (5, 6, 7):
        Quota.objects.update(cards=cards)
        assert rehearsal.current().snapshot.quotas[0].cards == cards


@pytest.mark.django_db
def test_before_the_first_pass_nothing_is_trusted(world: World) -> None:
    PassLease.objects.all().delete()
    assert changes.version() is None
    assert rehearsal.current() is not rehearsal.current()


@pytest.mark.django_db
def test_nothing_is_trusted_for_long(quiet: World, monkeypatch: pytest.MonkeyPatch) -> None:
    first = rehearsal.current()
    later = time.time() + rehearsal.KEEP_S
    monkeypatch.setattr("cluster.clock.seconds", lambda: later)
    assert rehearsal.current() is not first


@pytest.mark.django_db(transaction=True)
def test_a_change_that_was_not_committed_when_all_was_loaded_is_loaded_once_it_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if connection.vendor == "sqlite":
        return  # one writer at a time, and its one mark is never trusted
    world = World()
    world.business("ads", P40=16)
    settle()
    written, go_on = threading.Event(), threading.Event()

    def change() -> None:
        with transaction.atomic():
            Quota.objects.update(cards=9)
            written.set()
            go_on.wait(60)
        connection.close()

    writer = threading.Thread(target=change)
    writer.start()
    try:
        assert written.wait(60)
        Quota.objects.count()
        early = rehearsal.current()
        assert early.snapshot.quotas[0].cards == 16
    finally:
        go_on.set()
        writer.join()
    assert Change.objects.count() == 1
    passes.run()
    assert rehearsal.current().snapshot.quotas[0].cards == 9


@pytest.mark.django_db
def test_a_table_emptied_at_a_stroke_leaves_a_mark(quiet: World) -> None:
    connection.check_constraints()  # those that wait for the commit would forbid it
    empty = 'TRUNCATE "quotas_quota"' if connection.vendor == "postgresql" else 'DELETE FROM "quotas_quota"'
    with connection.cursor() as cursor:
        cursor.execute(empty)
    assert Change.objects.exists()
    assert not rehearsal.current().snapshot.quotas
