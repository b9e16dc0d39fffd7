"""One verb on many tasks of the list: first what would become of them, then what became of them."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace

from django.contrib import messages
from django.http import Http404, HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.functional import Promise
from django.utils.translation import gettext as _t
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext_lazy
from django.views.decorators.http import require_POST

from cluster import rows
from jobs import filter_words, kept_views, many
from jobs.filters import Filters, number
from jobs.many import MOST, NOT_YOURS, REFUSED, RETRY, TOO_MANY, WRONG_STATE, Seen
from jobs.matching import AT_ONCE, matching
from jobs.models import Task
from jobs.portal import filter_labels, once, words
from jobs.portal.doors import PortalRequest, page
from jobs.portal.rows import Status, status
from jobs.states import State

NO_CHOICE = _("No task is chosen: tick some first, or choose all that match.")
NO_MATCH = _("No task matches any more, so nothing was done.")
WORDS: dict[str, Promise] = {
    "stop": _("Stop"),
    "hold": _("Hold"),
    "release": _("Release"),
    "free": _("Free the place"),
    RETRY: _("Run again"),
}
ICONS = {"stop": "stop", "hold": "pause", "release": "play", "free": "free", RETRY: "again"}
BUTTONS = [(verb, word, ICONS[verb]) for verb, word in WORDS.items()]
SKIPPED: Mapping[str, Promise] = {
    NOT_YOURS: _("only the owner, a lead of the business or an operator may do this"),
    WRONG_STATE: _("this cannot be done in that state"),
    REFUSED: _("the document is refused today"),
    TOO_MANY: _("too many to be done one by one: do it again for them"),
}
TASKS = ngettext_lazy("%d task", "%d tasks")


@dataclass(frozen=True, slots=True, kw_only=True)
class Count:
    """So many tasks in a state, and why they are left as they are."""

    number: int
    status: Status
    why: str | Promise = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """The tasks that were chosen, and whether there are more that were not counted."""

    seen: list[Seen]
    more: bool = False  # that the verb would touch
    reached: int | None = None  # below this number there was no time to look for them
    rest_uncounted: bool = False  # that it would not touch


@page
@require_POST
def bulk(request: PortalRequest) -> HttpResponse:
    """Ask first: how many tasks of which state, and what is skipped; then do it to those that were shown."""
    verb = request.POST.get("verb", "")
    if verb not in WORDS:
        raise Http404
    query = kept_views.plain(QueryDict(request.POST.get("query", "")))
    back = f"{reverse('tasks')}?{query}"
    if "confirmed" in request.POST:
        return _do(request, verb, _ids(request.POST.get("ids", "").split(",")), back)
    filters, faults = filter_words.read(QueryDict(query), request.user)
    everything = "all" in request.POST
    if everything and faults:  # else the verb would be meant for more than was looked for
        for fault in faults:
            messages.error(request, filter_labels.said(fault))
        return redirect(back)
    chosen = _all(filters, verb) if everything else _selected(request)
    if not chosen.seen and chosen.reached is None:
        messages.warning(request, NO_MATCH if everything else NO_CHOICE)
        return redirect(back)
    return render(request, "bulk.html", _question(request, verb, chosen) | {"query": query, "back": back})


def _question(request: PortalRequest, verb: str, chosen: Chosen) -> dict[str, object]:
    taken, skipped = many.sort_out(verb, chosen.seen, request.user)
    limit = many.most(verb)
    kept = taken[:limit]
    return {
        "key": once.new(),
        "verb": verb,
        "word": WORDS[verb],
        "total": len(kept),
        "doing": _by_state(Counter(task.state for task in kept)),
        "skipped": _left(skipped),
        "reached": chosen.reached,
        "rest_uncounted": chosen.rest_uncounted,
        "limit": limit if chosen.more or len(taken) > limit else None,
        "ids": ",".join(str(task.pk) for task in kept),
    }


def _selected(request: PortalRequest) -> Chosen:
    ids = _ids(request.POST.getlist("task"))
    found = Task.objects.visible_to(request.user).filter(pk__in=rows.among(ids)).order_by("-pk")
    return Chosen(seen=many.look(found.values_list(*many.COLUMNS)))


def _all(filters: Filters, verb: str) -> Chosen:
    """Return all that match the filters: those in a state that the verb touches, and a first look at the others."""
    wanted = filters.states or frozenset(State)
    legal = many.LEGAL[verb]
    found = matching(replace(filters, states=wanted & legal), many.most(verb))
    others = matching(replace(filters, states=wanted - legal), AT_ONCE, looks=1)
    return Chosen(
        seen=_look_at([*found.ids, *others.ids]),
        more=found.more,
        reached=found.reached,
        rest_uncounted=others.more or others.reached is not None,
    )


def _look_at(ids: list[int]) -> list[Seen]:
    found = Task.objects.filter(pk__in=rows.among(ids)).order_by("-pk")
    return many.look(found.values_list(*many.COLUMNS))


def _ids(texts: list[str]) -> list[int]:
    return [pk for text in texts[:MOST] if (pk := number(text.strip())) is not None]


def _do(request: PortalRequest, verb: str, ids: list[int], back: str) -> HttpResponse:
    key = once.key(request, "bulk")
    outcome = many.act(verb, ids[: many.most(verb)], request.user, key)
    if outcome.done:
        states = ", ".join(f"{count.status.label} {count.number}" for count in _by_state(outcome.done))
        said = {"word": WORDS[verb], "tasks": TASKS % outcome.done.total(), "states": states}
        messages.success(request, _t("%(word)s: %(tasks)s (%(states)s).") % said)
    for left in _left(outcome.skipped):
        said = {"tasks": TASKS % left.number, "state": left.status.label, "why": left.why}
        messages.warning(request, _t("Left as they are: %(tasks)s (%(state)s), %(why)s.") % said)
    for refusal in outcome.refusals[:5]:
        messages.error(request, refusal)
    return redirect(back)


def _by_state(counted: Counter[str]) -> list[Count]:
    return [Count(number=counted[state], status=status(state)) for state in words.STATES if counted[state]]


def _left(skipped: Counter[tuple[str, str]]) -> list[Count]:
    return [
        Count(number=number, status=status(state), why=SKIPPED[why])
        for (why, state), number in sorted(skipped.items())
    ]
