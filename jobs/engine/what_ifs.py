"""Questions what would have been: asked, replayed one at a time in the background, called off, forgotten."""

import logging
from datetime import datetime, timedelta
from typing import Any

from django.contrib.auth.models import User
from django.db import IntegrityError, transaction
from django.db.models import F, QuerySet

from cluster import clock
from jobs.engine import replay, snapshot, what_if_base, what_if_process
from jobs.engine.what_if_base import Applied, base_of
from jobs.simulation.what_if import Change, changed, from_json, to_json
from jobs.what_ifs import WhatIf
from quotas import audit

log = logging.getLogger(__name__)
KEPT_FOR = timedelta(days=90)
GIVEN_UP_S = 60  # one whose worker said nothing for so long is replayed anew
TRIES = 2  # of one that workers end over, as by the memory that it takes: others wait behind it
State = WhatIf.State


def ask(user: User, days: int, change: Change) -> WhatIf:
    """Keep a question; it is answered by the next round of the background."""
    with transaction.atomic():
        question = WhatIf.objects.create(user=user, days=days, change=to_json(change), base=base_of(change))
        audit.note("whatif.asked", by=user, on=question)
    return question


def run_next() -> WhatIf | None:
    """Answer the oldest question that waits; None where none does, or another one is being answered."""
    if not WhatIf.objects.filter(state__in=(State.WAITING, State.RUNNING)).exists():
        return None  # as most of the time: no write is tried
    now = clock.now()
    _give_up(now)
    question = WhatIf.objects.filter(state=State.WAITING).order_by("pk").first()
    if question is None or not _begin(question, now):
        return None
    mine = _Mine(question.pk, now)
    try:
        _answer(question, mine)
    except what_if_process.Canceled:
        log.info("what-if %s was called off", question.pk)
    except Exception:
        mine.end(State.FAILED, fault="failed")  # else it would be tried for ever, and others behind it never
        raise
    question.refresh_from_db()
    return question


def _give_up(now: datetime) -> None:
    """Let what nobody works on any more wait again, or end, where that has happened to it before."""
    silent = WhatIf.objects.filter(state=State.RUNNING, beat_at__lt=now - timedelta(seconds=GIVEN_UP_S))
    silent.filter(tries__gte=TRIES).update(state=State.FAILED, fault="killed", ended_at=now)
    silent.update(state=State.WAITING, done=0)


def _begin(question: WhatIf, now: datetime) -> bool:
    try:
        with transaction.atomic():
            waits = WhatIf.objects.filter(pk=question.pk, state=State.WAITING)
            return bool(waits.update(state=State.RUNNING, beat_at=now, done=0, tries=F("tries") + 1))
    except IntegrityError:  # the database lets only one run
        return False


class _Mine:
    """The row of a question, as long as it is this worker's to answer."""

    def __init__(self, pk: int, beat_at: datetime) -> None:
        self._pk, self._beat_at = pk, beat_at

    def rows(self) -> QuerySet[WhatIf]:
        return WhatIf.objects.filter(pk=self._pk, state=State.RUNNING, beat_at=self._beat_at)

    def tell(self, share: float) -> bool:
        """Write down how much is done; False where it was called off or given up."""
        now = clock.now()
        if not self.rows().update(done=min(99, int(100 * share)), beat_at=now):
            return False
        self._beat_at = now
        return True

    def end(self, state: State, **fields: Any) -> None:
        """Write down what came of it, unless it was called off meanwhile."""
        self.rows().update(state=state, ended_at=clock.now(), **fields)


def _answer(question: WhatIf, mine: _Mine) -> None:
    work = replay.load(clock.seconds(), question.days)
    if not work.tasks:
        mine.end(State.FAILED, fault="no_work")
        return
    if not mine.tell(0):
        return
    policy = snapshot.policy()
    after = changed(work.under(policy), from_json(question.change))
    try:
        found = what_if_process.run(work.under(policy), after, mine.tell)
    except what_if_process.Failed as error:
        log.error("what-if %s has no answer: %s", question.pk, error)
        mine.end(State.FAILED, fault="failed")
        return
    about = {"since": work.since.timestamp(), "tasks": work.tasks, "still_running": work.still_running}
    mine.end(State.DONE, done=100, result={**found, **about, "never_ran": work.never_ran})


def call_off(question: WhatIf, user: User) -> bool:
    """Call a question off whose answer is still to come; False where there is none such."""
    still = WhatIf.objects.filter(pk=question.pk, state__in=(State.WAITING, State.RUNNING))
    with transaction.atomic():
        called_off = bool(still.update(state=State.CANCELED, ended_at=clock.now()))
        if called_off:
            audit.note("whatif.called_off", by=user, on=question)
    return called_off


class NotToMake(Exception):
    """The change was not tried to the end, or is made already."""


def apply(question: WhatIf, user: User, reason: str) -> Applied:
    """Make the change that was tried, once; raises NotToMake, what_if_base.Changed or host_moves.Refused."""
    with transaction.atomic():
        open_one = WhatIf.objects.filter(pk=question.pk, state=State.DONE, applied_at=None)
        if not open_one.update(applied_at=clock.now(), applied_by=user, applied_why=reason):
            raise NotToMake
        audit.note("whatif.applied", by=user, on=question, reason=reason)
        return what_if_base.apply(from_json(question.change), question.base, user, reason)


def remove_old(now: datetime) -> int:
    """Remove questions that were asked longer ago than they are kept, and return how many."""
    return WhatIf.objects.filter(made_at__lt=now - KEPT_FOR).delete()[0]
