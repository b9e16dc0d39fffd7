"""What a change changes, in words: before and after, thing by thing."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy as _t
from django.utils.translation import ngettext

from cluster.models import GpuType, Host, Region
from jobs import policy_words
from jobs.engine.what_if_base import quota_key
from jobs.host_words import VERBS
from jobs.policy_fields import DEFAULTS
from jobs.simulation.what_if import Change
from quotas.models import Business

FAULTS: dict[str, Promise] = {
    "no_work": _t("Nothing ran in these days that could be replayed. Ask for more days."),
    "failed": _t("The replay broke off. Operators: the log of the worker says why."),
    "killed": _t(
        "Twice its worker was ended in the middle of it, by lack of memory perhaps. Try fewer days."
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One thing that is changed."""

    what: str
    then: str
    new: str


class Names:
    """The names of what changes speak of; a fixed number of queries for any number of changes."""

    def __init__(self, changes: Iterable[Change]) -> None:
        """Read them."""
        changes = list(changes)
        quotas = [row for change in changes for row in change.quotas]
        added = [row for change in changes for row in change.added]
        types = {row.gpu_type for row in quotas} | {row.gpu_type for row in added}
        regions = {row.region for row in quotas if row.region} | {row.region for row in added}
        hosts = {row.host for change in changes for row in change.hosts}
        self.businesses = dict(
            Business.objects.filter(pk__in={row.business for row in quotas}).values_list("pk", "flag")
        )
        self.types = dict(GpuType.objects.filter(pk__in=types).values_list("pk", "name"))
        self.regions = dict(Region.objects.filter(pk__in=regions).values_list("pk", "name"))
        self.hosts = dict(Host.objects.filter(pk__in=hosts).values_list("pk", "name"))

    def quota(self, business: int, gpu_type: int, region: int | None) -> str:
        """Return the name of a quota."""
        parts = [self.businesses.get(business, "?"), self.types.get(gpu_type, "?")]
        if region is not None:
            parts.append(self.regions.get(region, "?"))
        return _("quota of %(parts)s") % {"parts": " · ".join(parts)}


def steps(change: Change, base: Mapping[str, Mapping[str, Any]], names: Names) -> Iterator[Step]:
    """Give what a change changes, against what was there when it was asked."""
    for row in change.quotas:
        then = base["quotas"].get(quota_key(row))
        what = names.quota(row.business, row.gpu_type, row.region)
        yield Step(what=what, then=_cards(then), new=str(row.cards))
    for key, value in change.policy.items():
        then = base["policy"].get(key)
        yield Step(what=str(policy_words.LABELS[key]), then=_value(key, then), new=_value(key, value))
    for added in change.added:
        said = ngettext("%(hosts)d more host", "%(hosts)d more hosts", added.hosts) % {"hosts": added.hosts}
        what = f"{names.regions.get(added.region, '?')} · {names.types.get(added.gpu_type, '?')}"
        cards = ngettext("%(cards)d card on each", "%(cards)d cards on each", added.cards)
        yield Step(what=what, then="", new=f"{said}, {cards % {'cards': added.cards}}")
    for host in change.hosts:
        state = base["hosts"].get(str(host.host), "")
        yield Step(what=names.hosts.get(host.host, "?"), then=_state(state), new=str(VERBS[host.verb]))


def _cards(cards: int | None) -> str:
    """Return the cards of a quota; a dash where there is no such quota."""
    return "–" if cards is None else str(cards)


def _value(key: str, value: Any) -> str:
    """Return a value of the policy; None is the default."""
    shown = DEFAULTS[key] if value is None else value
    if isinstance(shown, float):
        shown = f"{shown:g}"
    word = policy_words.CHOICES.get(shown) if isinstance(shown, str) else None
    said = f"{shown}: {word}" if word else str(shown)
    return _("%(value)s (the default)") % {"value": said} if value is None else said


def _state(state: str) -> str:
    return str(Host.State(state).label) if state in Host.State.values else _("not there any more")


def what_changed(what: Iterable[tuple[str, str, Any, Any]], change: Change, names: Names) -> list[str]:
    """Return in sentences what is not as it was when the question was asked."""
    quotas = {quota_key(row): names.quota(row.business, row.gpu_type, row.region) for row in change.quotas}
    found = []
    for kind, key, then, now in what:
        if kind == "gone":
            words = {"what": quotas.get(key, key)}
            found.append(_("%(what)s: the business, GPU type or region is not there any more.") % words)
            continue
        if kind == "quotas":
            name, was, is_now = quotas.get(key, key), _cards(then), _cards(now)
        elif kind == "policy":
            name, was, is_now = str(policy_words.LABELS[key]), _value(key, then), _value(key, now)
        else:
            name, was, is_now = names.hosts.get(int(key), key), _state(then or ""), _state(now or "")
        words = {"what": name, "then": was, "now": is_now}
        found.append(_("%(what)s: was %(then)s, is %(now)s now.") % words)
    return found
