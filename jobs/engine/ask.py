"""What the scheduler would say of a document that was not submitted, and the words for what it said."""

import time
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from django.contrib.auth.models import User
from django.utils import timezone
from django.utils.translation import gettext as _

from cluster import clock
from cluster.models import Host, Region
from jobs import capacity, config
from jobs.engine import forecasts, rehearsal
from jobs.engine.rehearsal import ASKED, Outcome, Rehearsal
from jobs.engine.verdict import Said, Share, Verdict, Victim, Where
from jobs.lookups import Lookups, flags_of
from jobs.models import Task, TaskClass
from jobs.scheduling import types
from jobs.scheduling.reasons import SENTENCES, TIMES, Reason
from jobs.simulation.forecast import BASES, Basis, forecast

SMALL = 2000  # of up to so many waiting and running tasks a request looks ahead itself …
LOOK_S = 0.2  # … for so long


def preview(user: User, document: Mapping[str, Any], *, alternatives: bool = False) -> Verdict:
    """Say what a pass would do now with this document; raises config.Invalid for its faults.

    A document that no host could ever hold is no error here but the verdict `never`. `alternatives`: try as
    well, by a few more dry runs, what else the document could ask that would start.
    """
    wanted = _read(user, document)
    known = rehearsal.current()
    asked = waiting_of(wanted, clock.seconds())
    found = _never(wanted) or _verdict(known, asked, user)
    if not alternatives or found.verdict == "starts":
        return found
    from jobs.engine import alternatives as others  # it asks here for its words

    return replace(found, alternatives=others.find(known, asked, found, user, document))


def _read(user: User, document: Mapping[str, Any]) -> config.Config:
    """Return what the document asks for, be it more than there is; raises config.Invalid with all other faults."""
    known = Lookups(user, flags_of([document]))
    known.look_at_types_anew()  # nothing is written, which would tell that a type is gone
    try:
        return config.read(document, user=user, could_ever=False, lookups=known)
    except config.Invalid:
        config.read(document, user=user)  # says all that is wrong together
        raise


def _never(wanted: config.Config) -> Verdict | None:
    """Return the verdict on what neither the hosts nor the quota could ever give."""
    ask = capacity.Ask(
        host_num=wanted.host_num,
        host_gpu_num=wanted.host_gpu_num,
        region=wanted.region,
        needs=wanted.needs,
        high=wanted.wanted_class == TaskClass.HIGH,
    )
    faults = tuple(capacity.faults(ask, wanted.gpu_types, wanted.business))
    if not faults:
        return None
    message = " ".join(fault.message for fault in faults)
    return Verdict(verdict="never", faults=faults, reason=Said(code=faults[0].code, message=message))


def waiting_of(wanted: config.Config, now: float) -> types.Waiting:
    """Return the task as it would wait, submitted now."""
    ready_at = wanted.not_before.timestamp() if wanted.not_before else 0.0
    return types.Waiting(
        id=ASKED,
        business=wanted.business.pk,
        user=wanted.user.pk,
        wanted=wanted.wanted_class,  # type: ignore[arg-type]  # the words of TaskClass
        host_num=wanted.host_num,
        host_gpu_num=wanted.host_gpu_num,
        gpu_types=tuple(gpu_type.pk for gpu_type in wanted.gpu_types),
        region=wanted.region.pk if wanted.region else None,
        needs=wanted.needs,
        priority=wanted.priority,
        submitted=now,
        queued=now,
        ready_at=ready_at,
        gate="not_before" if ready_at > now else "",
        time_limit=wanted.time_limit_s,
    )


def _verdict(known: Rehearsal, asked: types.Waiting, user: User) -> Verdict:
    outcome = known.outcome(asked)
    where = where_of(known, outcome)
    if outcome.start is not None:
        return Verdict(verdict="starts", where=where)
    if outcome.evictions:
        return Verdict(verdict="starts_after_evicting", where=where, evicts=victims(known, outcome, user))
    start, basis = _ahead(known, asked, outcome)
    return Verdict(
        verdict="queues",
        where=where,
        reason=said(outcome.reason.code, outcome.reason.args) if outcome.reason else None,
        position=outcome.line.index(ASKED) + 1 if outcome.line else None,
        of=len(outcome.line) or None,
        estimated_start=start,
        estimate_basis=estimate_basis(basis),
    )


def where_of(known: Rehearsal, outcome: Outcome) -> Where | None:
    """Return where the task starts now, or which cards are held for it; None where it gets none."""
    if outcome.start is not None:
        gpu_type, task_class = outcome.start.gpu_type, outcome.start.task_class
        cards = {host: len(numbers) for host, numbers in outcome.start.numbers.items()}
    elif outcome.claim is not None:
        gpu_type, task_class = outcome.claim.gpu_type, outcome.claim.task_class
        cards = dict(outcome.claim.hosts)
    else:
        return None
    names = dict(Host.objects.filter(pk__in=cards).values_list("pk", "name"))
    regions = Region.objects.filter(pk__in={known.hosts[gpu_type, host].region for host in cards})
    return Where(
        gpu_type=known.snapshot.type_names[gpu_type],
        region=", ".join(regions.order_by("name").values_list("name", flat=True)),
        task_class=task_class,
        hosts=tuple(Share(host=names.get(host, "?"), cards=number) for host, number in cards.items()),
    )


def _ahead(known: Rehearsal, asked: types.Waiting, outcome: Outcome) -> tuple[datetime | None, Basis | None]:
    """Return when the task would start, and what that stands on.

    Among few tasks that is looked up here and now; else it is what the last look ahead says of tasks that
    ask the same.
    """
    if len(known.waiting) + len(known.running) > SMALL:
        in_line = (known.waiting[task] for task in outcome.line if task != ASKED)
        return forecasts.like_peers(asked, in_line) or (None, None)
    until = time.monotonic() + LOOK_S
    found = forecast(
        known.with_task(asked),
        known.policy,
        known.lengths(),
        only=ASKED,
        enough=lambda: time.monotonic() >= until,
    )
    start, basis = found.estimates[ASKED].start, found.estimates[ASKED].basis
    return None if start is None else datetime.fromtimestamp(start, UTC), basis


def victims(known: Rehearsal, outcome: Outcome, user: User) -> tuple[Victim, ...]:
    """Return the tasks that would leave: everybody may know their number and business, not whose they are."""
    ids = [evict.task for evict in outcome.evictions]
    names = dict(Task.objects.visible_to(user).filter(pk__in=ids).values_list("pk", "user__username"))
    return tuple(
        Victim(
            task=evict.task,
            business=known.snapshot.business_names[runner.business],
            user=names.get(evict.task),
            cards=runner.cards,
            lost_card_hours=lost_card_hours(runner, known.snapshot.now),
            comes_back=runner.pull_up,
            rule=evict.rule,
        )
        for evict in sorted(outcome.evictions, key=lambda evict: evict.task)
        for runner in [known.running[evict.task]]
    )


def lost_card_hours(runner: types.Running, now: float) -> float:
    """Return the work that the task would do again: all since its start, or since its last checkpoint."""
    if runner.keeping or runner.checkpoint_s == 0:
        return 0.0
    ran_s = max(0.0, now - runner.started)
    return runner.cards * (ran_s % runner.checkpoint_s if runner.checkpoint_s else ran_s) / 3600


def reason(task: Task) -> dict[str, str] | None:
    """Return the reason that a waiting task shows; None where it has none (yet)."""
    return sentence(task.reason_code, task.reason_args) if task.reason_code else None


def sentence(code: str, args: Mapping[str, Any]) -> dict[str, str]:
    """Return the code and the sentence of a reason, as the API shows them."""
    return {"code": code, "message": said(code, args).message}


def said(code: str, args: Mapping[str, Any]) -> Said:
    """Return a reason of the closed list in the caller's language, its times in the zone of the pages."""
    if code not in SENTENCES:
        return Said(code=code, message=code)  # of a version with other reasons; the next pass writes it anew
    shown = {name: _moment(value) if name in TIMES else value for name, value in args.items()}
    advice = Reason(code).advice[1]
    message = _format(_(SENTENCES[code]), shown, code)
    if remark := args.get("remark"):
        message = _("%(reason)s; operators say: %(remark)s") % {"reason": message, "remark": remark}
    return Said(code=code, message=message, args=dict(args), advice=_(advice) if advice else "")


def basis_said(basis: Basis | None) -> dict[str, str] | None:
    """Return what an estimate stands on, or why there is none, as the API shows it."""
    found = estimate_basis(basis)
    return None if found is None else {"code": found.code, "message": found.message}


def estimate_basis(basis: Basis | None) -> Said | None:
    """Return what an estimate stands on, or why there is none, in the caller's language."""
    if basis is None:
        return None
    # One kept by a version with other bases is replaced by the next look ahead.
    message = _format(_(BASES.get(basis.code, basis.code)), basis.args, basis.code)
    return Said(code=basis.code, message=message, args=dict(basis.args))


def _format(sentence: str, args: Mapping[str, Any], code: str) -> str:
    try:
        return sentence.format(**args)
    except KeyError:
        return code


def _moment(epoch: float) -> str:
    return f"{timezone.localtime(datetime.fromtimestamp(epoch, UTC)):%Y-%m-%d %H:%M:%S %Z}"
