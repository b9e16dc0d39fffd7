"""Questions what would have been: answered one at a time, called off, taken up again, and made true."""

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from cluster import host_moves
from cluster.models import HostEvent
from jobs.engine import what_if_base, what_if_process, what_ifs
from jobs.models import Attempt, Policy, Task
from jobs.simulation.what_if import Change, HostChange, NewHosts, QuotaChange, compare
from jobs.what_ifs import WhatIf
from quotas.models import AuditEntry, Quota
from tests.world import World

pytestmark = pytest.mark.django_db
HOUR = timedelta(hours=1)


@pytest.fixture(autouse=True)
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Simulate in this process: what the other one does is tested apart."""

    def run(before: Any, after: Any, tell: Any) -> dict[str, Any]:
        def told(share: float) -> None:
            if not tell(share):
                raise what_if_process.Canceled

        return compare(before, after, told)

    monkeypatch.setattr(what_if_process, "run", run)


@pytest.fixture
def worked(world: World) -> World:
    """Return a world in which two tasks of 8 cards ran one after the other, for quota."""
    world.business("ads", P40=8)
    world.host("h1")
    world.host("h2")
    now = timezone.now()
    for number in (2, 1):
        task = world.task(cards=8, state="succeeded", ended_at=now - number * HOUR)
        Task.objects.filter(pk=task.pk).update(submitted_at=now - 4 * HOUR, queued_at=now - 4 * HOUR)
        Attempt.objects.create(
            task=task, number=1, task_class="high", gpu_type=world.gpu_type(), cards=8, outcome="succeeded",
            created_at=now - (number + 1) * HOUR, ended_at=now - number * HOUR,
        )  # fmt: skip
    return world


def more_quota(world: World, cards: int = 16) -> Change:
    row = QuotaChange(business=world.business().pk, gpu_type=world.gpu_type().pk, region=None, cards=cards)
    return Change(quotas=(row,))


def test_a_question_is_answered_by_the_work_of_the_last_days(worked: World) -> None:
    question = what_ifs.ask(worked.operator(), 1, more_quota(worked))
    assert what_ifs.run_next() == question
    question.refresh_from_db()
    assert (question.state, question.done) == ("done", 100)
    assert question.result["before"]["summary"]["p95_wait_s"] > 3000
    assert question.result["after"]["summary"]["p95_wait_s"] == 0
    assert question.result["tasks"] == 2
    assert what_ifs.run_next() is None


def test_where_nothing_ran_the_answer_says_so(world: World) -> None:
    question = what_ifs.ask(world.operator(), 1, more_quota(world))
    what_ifs.run_next()
    question.refresh_from_db()
    assert (question.state, question.fault) == ("failed", "no_work")


def test_a_process_that_fails_is_a_question_that_failed(
    worked: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise what_if_process.Failed("it is broken")

    monkeypatch.setattr(what_if_process, "run", fail)
    question = what_ifs.ask(worked.operator(), 1, more_quota(worked))
    what_ifs.run_next()
    question.refresh_from_db()
    assert (question.state, question.fault) == ("failed", "failed")


def test_one_that_breaks_the_worker_is_not_tried_for_ever(
    worked: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("no memory")

    monkeypatch.setattr(what_if_process, "run", broken)
    question = what_ifs.ask(worked.operator(), 1, more_quota(worked))
    with pytest.raises(RuntimeError):
        what_ifs.run_next()
    question.refresh_from_db()
    assert (question.state, question.fault) == ("failed", "failed")


def test_one_is_answered_at_a_time_and_the_oldest_first(worked: World) -> None:
    first, second = (what_ifs.ask(worked.operator(), 1, more_quota(worked)) for _ in range(2))
    WhatIf.objects.filter(pk=first.pk).update(state="running", beat_at=timezone.now())
    assert what_ifs.run_next() is None
    second.refresh_from_db()
    assert second.state == "waiting"


def test_one_whose_worker_died_is_answered_anew(worked: World) -> None:
    question = what_ifs.ask(worked.operator(), 1, more_quota(worked))
    long_ago = timezone.now() - timedelta(seconds=what_ifs.GIVEN_UP_S + 1)
    WhatIf.objects.filter(pk=question.pk).update(state="running", beat_at=long_ago)
    assert what_ifs.run_next() == question
    question.refresh_from_db()
    assert question.state == "done"


def test_one_whose_worker_died_twice_is_ended_and_the_next_one_answered(worked: World) -> None:
    first, second = (what_ifs.ask(worked.operator(), 1, more_quota(worked)) for _ in range(2))
    long_ago = timezone.now() - timedelta(seconds=what_ifs.GIVEN_UP_S + 1)
    WhatIf.objects.filter(pk=first.pk).update(state="running", beat_at=long_ago, tries=what_ifs.TRIES)
    assert what_ifs.run_next() == second
    first.refresh_from_db()
    assert (first.state, first.fault) == ("failed", "killed")
    assert first.ended_at is not None


def test_one_that_is_called_off_while_it_is_answered_stays_so(
    worked: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    question = what_ifs.ask(worked.operator(), 1, more_quota(worked))

    def run(_before: object, _after: object, tell: Any) -> None:
        assert tell(0.5)
        assert what_ifs.call_off(question, worked.operator())
        assert not tell(0.6)
        raise what_if_process.Canceled

    monkeypatch.setattr(what_if_process, "run", run)
    what_ifs.run_next()
    question.refresh_from_db()
    assert (question.state, question.done) == ("canceled", 50)
    assert not what_ifs.call_off(question, worked.operator())


def answered(world: World, change: Change) -> WhatIf:
    question = what_ifs.ask(world.operator(), 1, change)
    WhatIf.objects.filter(pk=question.pk).update(state="done", result={})
    question.refresh_from_db()
    return question


def test_a_change_is_made_whole_with_who_and_why(worked: World) -> None:
    Policy.objects.create(pk=1, values={"placement": "spread", "slice_s": 60})
    host = worked.host("h2")
    gpu_type, region = worked.gpu_type().pk, worked.region().pk
    rows = (
        *more_quota(worked).quotas,
        QuotaChange(business=worked.business("nlp").pk, gpu_type=gpu_type, region=region, cards=4),
    )
    change = Change(
        quotas=rows,
        policy={"aging_s": 60.0, "placement": None},
        added=(NewHosts(region=region, gpu_type=gpu_type, hosts=2, cards=8),),
        hosts=(HostChange(host=host.pk, verb="cordon"),),
    )
    question = answered(worked, change)
    made = what_ifs.apply(question, worked.operator(), "for the big run")
    assert (made.quotas, made.policy, made.hosts, made.left_out) == (2, 2, 1, 2)
    assert Quota.objects.get(business=worked.business()).cards == 16
    assert Quota.objects.get(business=worked.business("nlp")).cards == 4
    assert Policy.objects.get().values == {"aging_s": 60.0, "slice_s": 60}
    host.refresh_from_db()
    assert (host.state, host.state_reason) == ("cordoned", "for the big run")
    assert HostEvent.objects.get(host=host, code="cordon").actor == worked.operator()
    for row in (Quota.objects.get(business=worked.business()), Policy.objects.get()):
        last = row.history.first()
        assert last is not None
        assert (last.history_change_reason, last.history_user) == ("for the big run", worked.operator())
    question.refresh_from_db()
    assert (question.applied_by, question.applied_why) == (worked.operator(), "for the big run")
    deeds = AuditEntry.objects.filter(actor="root").order_by("pk").values_list("deed", flat=True)
    assert {"quota.changed", "policy.changed", "host.cordon"} <= set(deeds)


def test_a_change_is_made_once(worked: World) -> None:
    question = answered(worked, more_quota(worked))
    what_ifs.apply(question, worked.operator(), "because")
    with pytest.raises(what_ifs.NotToMake):
        what_ifs.apply(question, worked.operator(), "because")


def test_one_that_was_not_tried_to_the_end_is_not_made(worked: World) -> None:
    question = what_ifs.ask(worked.operator(), 1, more_quota(worked))
    with pytest.raises(what_ifs.NotToMake):
        what_ifs.apply(question, worked.operator(), "because")


def test_where_the_base_changed_nothing_is_made_and_all_that_differs_is_named(worked: World) -> None:
    host = worked.host("h2")
    change = Change(
        quotas=more_quota(worked).quotas,
        policy={"aging_s": 60.0, "slice_s": 60.0},
        hosts=(HostChange(host=host.pk, verb="cordon"),),
    )
    question = answered(worked, change)
    Policy.objects.create(pk=1, values={"aging_s": 100})
    Quota.objects.filter(business=worked.business()).update(cards=12)
    host_moves.act(host, "drain", actor_id=worked.operator().pk, reason="x")
    with pytest.raises(what_if_base.Changed) as changed:
        what_ifs.apply(question, worked.operator(), "because")
    kinds = [(kind, then, now) for kind, _, then, now in changed.value.what]
    assert kinds == [("quotas", 8, 12), ("policy", None, 100), ("hosts", "ready", "draining")]
    assert Quota.objects.get(business=worked.business()).cards == 12
    assert Policy.objects.get().values == {"aging_s": 100}
    question.refresh_from_db()
    assert question.applied_at is None


def test_where_a_business_went_meanwhile_nothing_is_made(worked: World) -> None:
    change = Change(
        quotas=(
            QuotaChange(
                business=worked.business("gone").pk, gpu_type=worked.gpu_type().pk, region=None, cards=8
            ),
        )
    )
    question = answered(worked, change)
    worked.business("gone").delete()
    with pytest.raises(what_if_base.Changed) as refused:
        what_ifs.apply(question, worked.operator(), "more work")
    assert [kind for kind, *_ in refused.value.what] == ["gone"]
    question.refresh_from_db()
    assert question.applied_at is None


def test_what_else_was_changed_meanwhile_does_not_matter(worked: World) -> None:
    question = answered(worked, Change(policy={"aging_s": 60.0}))
    Policy.objects.create(pk=1, values={"slice_s": 100})
    what_ifs.apply(question, worked.operator(), "because")
    assert Policy.objects.get().values == {"aging_s": 60.0, "slice_s": 100}


def test_a_host_that_may_not_be_moved_so_leaves_all_as_it_was(worked: World) -> None:
    host = worked.host("h2")
    host_moves.act(host, "cordon", actor_id=worked.operator().pk, reason="x")
    change = Change(quotas=more_quota(worked).quotas, hosts=(HostChange(host=host.pk, verb="cordon"),))
    question = answered(worked, change)
    with pytest.raises(host_moves.Refused):
        what_ifs.apply(question, worked.operator(), "because")
    assert Quota.objects.get(business=worked.business()).cards == 8


def test_old_questions_go(worked: World) -> None:
    old, new = (what_ifs.ask(worked.operator(), 1, more_quota(worked)) for _ in range(2))
    WhatIf.objects.filter(pk=old.pk).update(made_at=timezone.now() - what_ifs.KEPT_FOR - HOUR)
    what_ifs.remove_old(timezone.now())
    assert WhatIf.objects.get() == new
