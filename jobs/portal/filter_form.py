"""The form of the list's filters: what may be chosen, and what the address chose."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from django.utils.dateparse import parse_date
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from cluster.models import GpuType, Region
from jobs import filters
from jobs.filter_words import GROUP_WORDS
from jobs.portal import words
from jobs.portal.doors import PortalRequest
from jobs.portal.filter_labels import LABELS, REASONS
from jobs.states import State
from quotas import access

Choices = Iterable[tuple[str, Any]]
SORTS = {
    filters.NEWEST: _("newest first"),
    filters.OLDEST: _("oldest first"),
    filters.LONGEST_WAIT: _("waiting longest, of those that wait"),
    filters.LAST_ENDED: _("ended last, of those that are over"),
}
ENDED = {
    "today": _("today"),
    "24h": _("in the last 24 hours"),
    "7d": _("in the last 7 days"),
    "30d": _("in the last 30 days"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """One filter as a template draws it: a choice, or a text of a kind."""

    name: str
    label: str | Promise
    value: str
    choices: list[tuple[str, str | Promise]] = field(default_factory=list)
    kind: str = "text"
    hint: str | Promise = ""


class FilterForm:
    """All filters, with what the address says of each; jobs/filter_words.py reads them."""

    def __init__(self, request: PortalRequest) -> None:
        self._query = request.GET
        flags = access.businesses_seen_by(request.user).values_list("flag", flat=True)
        types = GpuType.objects.values_list("name", flat=True)
        regions = Region.objects.order_by("name").values_list("name", flat=True)
        self.q = self._text("q", kind="search")
        self.state = self._choice("state", _("any state"), [*GROUP_WORDS.items(), *_states()])
        self.sort = self._choice("sort", None, SORTS.items())
        self.more = [
            self._choice("class", _("any class"), words.CLASSES.items()),
            self._choice("business", _("all businesses"), _same(flags)),
            self._text("user", hint=_("a name, or me")),
            self._choice("gpu_type", _("any type"), _same(types)),
            self._choice("region", _("any region"), _same(regions)),
            self._choice("reason", _("any reason"), REASONS.items()),
            self._text("tag"),
            self._date("submitted_from"),
            self._date("submitted_to"),
            self._choice("ended_from", _("at any time"), ENDED.items()),
        ]

    @property
    def more_is_set(self) -> bool:
        """Say whether a filter is set that is not always shown."""
        return any(one.value for one in self.more)

    def _given(self, name: str) -> str:
        """Return what the address says; several words of one filter stand behind commas."""
        return ",".join(text for given in self._query.getlist(name) if (text := given.strip()))

    def _choice(self, name: str, none: Any, choices: Choices) -> Field:
        found = [("", none)] if none is not None else []
        found += choices
        value = self._given(name)
        if value and value not in dict(found):
            found.append((value, value.replace(",", ", ")))  # several of them, or what is not known here
        return Field(name=name, label=LABELS[name], value=value, choices=found)

    def _text(self, name: str, *, kind: str = "text", hint: Any = "") -> Field:
        return Field(name=name, label=LABELS[name], value=self._given(name), kind=kind, hint=hint)

    def _date(self, name: str) -> Field:
        given = self._given(name)
        # Words such as 7d have no place in a browser's calendar.
        return self._text(name, kind="date" if not given or _is_day(given) else "text")


def _is_day(text: str) -> bool:
    try:
        return parse_date(text) is not None
    except ValueError:
        return False


def _states() -> Choices:
    return [(state.value, words.STATES[state]) for state in State]


def _same(names: Iterable[str]) -> Choices:
    return [(name, name) for name in names]
