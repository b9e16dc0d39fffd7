"""What the scheduler would say: a dry run for a task that is not there yet, and the words for what it said."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from django.contrib.auth.models import User
from django.utils import timezone
from django.utils.translation import gettext as _

from jobs import config
from jobs.engine import forecasts, snapshot
from jobs.models import Task
from jobs.scheduling import types
from jobs.scheduling.decide import decide
from jobs.scheduling.reasons import SENTENCES, TIMES
from jobs.simulation.forecast import BASES, Basis, forecast, lines_of

ASKED = 2**62  # the id of the task that is only asked about: after every real one
SMALL = 2000  # of up to so many waiting and running tasks a request looks ahead itself …
LOOK_S = 0.2  # … for so long


def preview(user: User, document: Mapping[str, Any]) -> dict[str, Any]:
    """Say what a pass would do now with this document; raises config.Invalid for its faults.

    A document that no host could ever hold is no error here but the verdict `never`.
    """
    try:
        wanted = config.read(document, user=user)
    except config.Invalid as invalid:
        if any(fault.code not in config.NEVER_CODES for fault in invalid.faults):
            raise
        return _answer("never", reason=_fault_reason(invalid))
    policy = snapshot.policy()
    loaded = snapshot.load(time.time(), policy.fair_half_life_s)
    asked = _asked(wanted, loaded.snapshot.now)
    plan = decide(replace(loaded.snapshot, waiting=(*loaded.snapshot.waiting, asked)), policy)
    return _verdict(plan, asked, loaded, policy, user)


def _asked(wanted: config.Config, now: float) -> types.Waiting:
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


def _verdict(
    plan: types.Plan, asked: types.Waiting, loaded: snapshot.Loaded, policy: types.Policy, user: User
) -> dict[str, Any]:
    if any(start.task == ASKED for start in plan.starts):
        return _answer("starts")
    victims = [evict.task for evict in plan.evictions if evict.for_task == ASKED]
    if victims:
        return _answer("starts_after_evicting", evicts=_victims(victims, user))
    why = plan.waits[ASKED]
    position, start, basis = _ahead(asked, loaded.snapshot, policy)
    return _answer(
        "queues",
        reason=sentence(why.code, why.args),
        position=position,
        estimated_start=start,
        estimate_basis=basis_said(basis),
    )


def _ahead(
    asked: types.Waiting, known: types.Snapshot, policy: types.Policy
) -> tuple[int | None, datetime | None, Basis | None]:
    """Return the place of the task in its line, when it would start, and what that stands on.

    Among few tasks that is looked up here and now; else it is what the last look ahead says of tasks that
    ask the same.
    """
    with_it = replace(known, waiting=(*known.waiting, asked))
    if len(known.waiting) + len(known.running) > SMALL:
        peers = forecasts.like_peers(asked, known.waiting)
        return _position(lines_of(with_it, policy)), *(peers or (None, None))
    until = time.monotonic() + LOOK_S
    found = forecast(
        with_it, policy, forecasts.lengths(), only=ASKED, enough=lambda: time.monotonic() >= until
    )
    start, basis = found.estimates[ASKED].start, found.estimates[ASKED].basis
    return _position(found.lines), None if start is None else datetime.fromtimestamp(start, UTC), basis


def _position(lines: Mapping[Any, Sequence[int]]) -> int | None:
    """Return the place of the task that is asked about; None where it could not start yet."""
    return next((line.index(ASKED) + 1 for line in lines.values() if ASKED in line), None)


def _victims(ids: list[int], user: User) -> list[dict[str, Any]]:
    """Return the tasks that would leave: everybody may know their number and business, not whose they are."""
    rows = Task.objects.filter(pk__in=ids).order_by("pk")
    seen = set(Task.objects.visible_to(user).filter(pk__in=ids).values_list("pk", flat=True))
    return [
        {"task": pk, "business": flag, "user": name if pk in seen else None, "comes_back": pull_up}
        for pk, flag, name, pull_up in rows.values_list("pk", "business__flag", "user__username", "pull_up")
    ]


def _answer(
    verdict: str,
    *,
    reason: dict[str, str] | None = None,
    evicts: list[dict[str, Any]] | None = None,
    position: int | None = None,
    estimated_start: datetime | None = None,
    estimate_basis: dict[str, str] | None = None,
) -> dict[str, Any]:
    return {
        "verdict": verdict,
        "reason": reason,
        "evicts": evicts or [],
        "position": position,
        "estimated_start": estimated_start,
        "estimate_basis": estimate_basis,
    }


def _fault_reason(invalid: config.Invalid) -> dict[str, str]:
    return {"code": invalid.faults[0].code, "message": " ".join(fault.message for fault in invalid.faults)}


def reason(task: Task) -> dict[str, str] | None:
    """Return the reason that a waiting task shows; None where it has none (yet)."""
    return sentence(task.reason_code, task.reason_args) if task.reason_code else None


def sentence(code: str, args: Mapping[str, Any]) -> dict[str, str]:
    """Return a reason of the closed list in the caller's language, its times in the zone of the pages."""
    shown = {name: _moment(value) if name in TIMES else value for name, value in args.items()}
    try:
        message = _(SENTENCES[code]).format(**shown)
    except KeyError:
        message = code  # stored by a version with other reasons; the next pass writes it anew
    return {"code": code, "message": message}


def basis_said(basis: Basis | None) -> dict[str, str] | None:
    """Return what an estimate stands on, or why there is none, in the caller's language."""
    if basis is None:
        return None
    try:
        message = _(BASES[basis.code]).format(**basis.args)
    except KeyError:
        message = basis.code  # kept by a version with other bases; the next look ahead replaces it
    return {"code": basis.code, "message": message}


def _moment(epoch: float) -> str:
    return f"{timezone.localtime(datetime.fromtimestamp(epoch, UTC)):%Y-%m-%d %H:%M:%S %Z}"
