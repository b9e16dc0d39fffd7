"""The page of one host: its cards and who has them, its state with who, when and why, its charts and its past."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.http import HttpResponse, JsonResponse
from django.shortcuts import get_object_or_404, render
from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.views.decorators.http import require_safe

from cluster import card_metrics, clock, host_events
from cluster.host_states import State, verbs
from cluster.models import Card, CardLease, Host, HostEvent
from jobs.filters import number
from jobs.host_words import VERBS
from jobs.models import Attempt, Task
from jobs.portal.doors import PortalRequest, oversee, page
from jobs.portal.words import CLASS_COLOURS, CLASSES
from jobs.states import State as TaskState
from quotas import access

EVENTS = 20  # on one page
CHARTS_OF, POINTS = timedelta(hours=6), 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """The task that has a card; None in place of what the reader may not know."""

    task: int | None
    flag: str
    business: str
    user: str
    class_label: str | Promise
    class_colour: str
    since: datetime
    idle_until: datetime | None  # its command ended, and its place is kept until then


@dataclass(frozen=True, slots=True, kw_only=True)
class CardRow:
    """One card."""

    index: int
    gpu_type: str
    state: str
    state_word: str | Promise
    reason: str
    memory_gib: int
    in_use: bool
    holder: Holder | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """An event of the host as a sentence."""

    id: int
    at: datetime
    said: str
    who: str
    why: str


@page
@require_safe
def host(request: PortalRequest, pk: int) -> HttpResponse:
    """Show a host as far as the user may know it; in a fixed number of queries."""
    found = visible(request, pk)
    overseer = access.sees_all(request.user)
    events, below = _events(request, found) if overseer else ([], "")
    context = {
        "host": found,
        "state": _("lost") if _is_lost(found) else found.get_state_display(),
        "colour": _colour(found),
        "why": host_events.reason(found.state_reason, found.state_args),
        "who": _who(found) if overseer else "",
        "warnings": host_events.warnings(host_events.Facts.of(found), clock.now()),
        "cards": _cards(request, found),
        "overseer": overseer,
        "events": events,
        "below": below,
        "buttons": _buttons(request, found),
    }
    return render(request, "host.html", context)


@page
@require_safe
def charts(request: PortalRequest, pk: int) -> JsonResponse:
    """Give what was measured on the host's cards in the last hours: whose tasks they were does not show."""
    oversee(request)
    found = visible(request, pk)
    rows = list(
        Card.objects.filter(host=found)
        .exclude(state=Card.State.MISSING)
        .order_by("index")
        .values_list("pk", "index", "gpu_type__name", "memory_mib")
    )
    now = clock.now()
    series = card_metrics.series([card for card, *_ in rows], now - CHARTS_OF, now, POINTS)
    cards = [_chart(series.cards[card], index, name, mib) for card, index, name, mib in rows]
    return JsonResponse({"at": series.at, "cards": cards})


def visible(request: PortalRequest, pk: int) -> Host:
    """Return the host; one that was removed is there for those alone who see all."""
    seen = Host.objects.select_related("region")
    if not access.sees_all(request.user):
        seen = seen.exclude(state=Host.State.REMOVED)
    return get_object_or_404(seen, pk=pk)


def _is_lost(found: Host) -> bool:
    return found.lost_since is not None and found.state != Host.State.REMOVED


def _colour(found: Host) -> str:
    if _is_lost(found):
        return "red"
    return {Host.State.READY: "green", Host.State.REMOVED: "secondary"}.get(Host.State(found.state), "orange")


def _who(found: Host) -> str:
    """Return who last moved the host into its state; blank where the platform did."""
    move = HostEvent.objects.filter(host=found, new_state=found.state).select_related("actor")
    last = move.order_by("-pk").first()
    return last.actor.get_username() if last and last.actor else ""


def _buttons(request: PortalRequest, found: Host) -> list[tuple[str, str | Promise]]:
    """Return what an operator may do with the host: (verb, word)."""
    if not access.is_operator(request.user):
        return []
    return [(verb, VERBS[verb]) for verb in verbs(State(found.state))]


def _cards(request: PortalRequest, found: Host) -> list[CardRow]:
    gangs = dict(CardLease.objects.filter(card__host=found, released_at=None).values_list("card_id", "gang"))
    holders = dict(_holders(request, set(gangs.values())))
    rows = found.cards.exclude(state=Card.State.MISSING).select_related("gpu_type").order_by("index")
    return [
        CardRow(
            index=card.index,
            gpu_type=card.gpu_type.name,
            state=card.state,
            state_word=card.get_state_display(),
            reason=card.state_reason,
            memory_gib=round(card.memory_mib / 1024),
            in_use=card.pk in gangs,
            holder=holders.get(gangs[card.pk]) if card.pk in gangs else None,
        )
        for card in rows
    ]


def _holders(request: PortalRequest, gangs: set[int]) -> Iterable[tuple[int, Holder]]:
    """Give the attempts that hold cards, those alone whose tasks the user may see."""
    rows = Attempt.objects.filter(pk__in=gangs, task__in=Task.objects.visible_to(request.user))
    columns = (
        *("pk", "task_id", "task_class", "created_at"),
        *("task__task_flag", "task__business__flag", "task__user__username", "task__state", "keep_until"),
    )
    for pk, task, task_class, since, flag, business, user, state, until in rows.values_list(*columns):
        yield (
            pk,
            Holder(
                task=task,
                flag=flag,
                business=business,
                user=user,
                class_label=CLASSES[task_class],
                class_colour=CLASS_COLOURS[task_class],
                since=since,
                idle_until=until if state == TaskState.KEEPING else None,
            ),
        )


def _events(request: PortalRequest, found: Host) -> tuple[list[Said], str]:
    """Return a page of what happened, newest first, and the key of the next page."""
    rows = HostEvent.objects.filter(host=found).order_by("-pk")
    below = number(request.GET.get("below", ""))
    if below:
        rows = rows.filter(pk__lt=below)
    columns = ("pk", "at", "code", "args", "reason", "actor__username")
    cut = list(rows.values_list(*columns)[: EVENTS + 1])
    said = [
        Said(id=pk, at=at, said=host_events.sentence(code, args), who=who or "", why=why)
        for pk, at, code, args, why, who in cut[:EVENTS]
    ]
    return said, str(said[-1].id) if len(cut) > EVENTS else ""


def _chart(line: card_metrics.Line, index: int, gpu_type: str, memory_mib: int) -> dict[str, Any]:
    return {
        "index": index,
        "gpu_type": gpu_type,
        "memory_mib": memory_mib,
        "use": line.use_mean,
        "memory": line.memory_mean_mib,
        "xids": sorted({xid for _, xid in line.xids}),
    }
