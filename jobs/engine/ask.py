"""What the scheduler would say: a dry run for a task that is not there yet, and a task's place in line."""

import time
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from django.contrib.auth.models import User
from django.utils import timezone
from django.utils.translation import gettext as _

from jobs import config
from jobs.engine import snapshot
from jobs.models import Task
from jobs.scheduling import types
from jobs.scheduling.decide import decide
from jobs.scheduling.reasons import SENTENCES, TIMES
from jobs.states import State

ASKED = 2**62  # the id of the task that is only asked about: after every real one


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
    return _verdict(plan, asked, loaded, user)


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
        priority=wanted.priority,
        submitted=now,
        queued=now,
        ready_at=ready_at,
        gate="not_before" if ready_at > now else "",
        time_limit=wanted.time_limit_s,
    )


def _verdict(plan: types.Plan, asked: types.Waiting, loaded: snapshot.Loaded, user: User) -> dict[str, Any]:
    if any(start.task == ASKED for start in plan.starts):
        return _answer("starts")
    victims = [evict.task for evict in plan.evictions if evict.for_task == ASKED]
    if victims:
        return _answer("starts_after_evicting", evicts=_victims(victims, user))
    why = plan.waits[ASKED]
    return _answer(
        "queues",
        reason=sentence(why.code, why.args),
        position=_position(asked, loaded.snapshot.waiting),
    )


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
) -> dict[str, Any]:
    return {
        "verdict": verdict,
        "reason": reason,
        "evicts": evicts or [],
        "position": position,
        "estimated_start": None,  # unknown: nothing is known of how long the others run
    }


def _fault_reason(invalid: config.Invalid) -> dict[str, str]:
    return {"code": invalid.faults[0].code, "message": " ".join(fault.message for fault in invalid.faults)}


def place_in_line(task: Task) -> tuple[int, int] | None:
    """Return the place among the waiting tasks of its class that could take the same types, and their number.

    None where the task does not wait.
    """
    if task.state != State.QUEUED:
        return None
    rows = Task.objects.filter(state=State.QUEUED, wanted_class=task.wanted_class).order_by(
        "submitted_at", "pk"
    )
    line = [
        pk for pk, gpu_types in rows.values_list("pk", "gpu_types") if set(gpu_types) & set(task.gpu_types)
    ]
    return (line.index(task.pk) + 1, len(line)) if task.pk in line else None


def _position(asked: types.Waiting, waiting: tuple[types.Waiting, ...]) -> int:
    """Return the place of a new task behind those of its class that could take the same types."""
    return 1 + sum(
        task.wanted == asked.wanted and not task.gate and bool(set(task.gpu_types) & set(asked.gpu_types))
        for task in waiting
    )


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


def _moment(epoch: float) -> str:
    return f"{timezone.localtime(datetime.fromtimestamp(epoch, UTC)):%Y-%m-%d %H:%M:%S %Z}"
