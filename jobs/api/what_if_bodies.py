"""Read a question what would have been from a body, by names, with every fault of it."""

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from django.utils.translation import gettext as _

from cluster import host_moves
from cluster.models import GpuType, Region
from jobs import what_if_rules as rules
from jobs.api import bodies
from jobs.config import Fault, Invalid
from jobs.engine import snapshot
from jobs.policy_fields import DEFAULTS, LEAST, MOST, MOST_S
from jobs.scheduling import policy
from jobs.simulation.what_if import Change, HostChange, NewHosts, QuotaChange
from jobs.values import Check, bad_character, choice, known, listed, refuse, shape, unknown, whole, wrong_type
from quotas.models import Business

MOST_QUOTAS, MOST_ADDED, MOST_TAKEN_OUT = 100, 2, 1000
VERBS = ("cordon", "remove")
Policy = Mapping[str, str | float | None]


def question(body: object) -> tuple[int, Change]:
    """Return the days to replay and the change to try; raises Invalid."""
    types, regions = _named(GpuType, "name"), _named(Region, "name")
    place = {"gpu_type": types, "region": regions}
    quota = {"business": _named(Business, "flag"), **place, "cards": whole(0, rules.MOST_CARDS)}
    more = {**place, "hosts": whole(1, rules.MOST_HOSTS), "cards": whole(1, rules.MOST_ON_HOST)}
    checks: dict[str, Check] = {
        "days": whole(rules.FEWEST_DAYS, rules.MOST_DAYS),
        "quotas": listed(MOST_QUOTAS, _row(quota, ("business", "gpu_type", "cards"))),
        "policy": _policy,
        "added": listed(MOST_ADDED, _row(more, tuple(more))),
        **{verb: listed(MOST_TAKEN_OUT, known(255)) for verb in VERBS},
    }
    given = bodies.fields(body, checks)
    faults: list[Fault] = []
    change = Change(
        quotas=tuple(_quotas(given.get("quotas", []), faults)),
        policy=given.get("policy", {}),
        added=tuple(NewHosts(**row) for row in given.get("added", [])),
        hosts=tuple(_hosts(given, faults)),
    )
    if not faults and not change:
        said = _("Change something: a quota, a key of the policy, or hosts.")
        faults.append(Fault("", "required", said))
    if faults:
        raise Invalid(faults)
    return given.get("days", rules.DAYS), change


def reason(body: object) -> str:
    """Return why a change is made; raises Invalid."""
    found: str = bodies.fields(body, {"reason": _reason}, required=("reason",))["reason"]
    return found


def _reason(value: object) -> str:
    if not isinstance(value, str):
        wrong_type(value, _('a text in quotes, such as "demo"'))
    found, most = value.strip(), host_moves.REASON_AT_MOST
    if not found or len(found) > most or bad_character(found, lines=False):
        refuse("value", _("Say why, in at most %d printable characters: it is kept with the change.") % most)
    return found


def _named(model: Any, by: str) -> Check:
    """Return the check of a name of which there is a row: it becomes the row's id. The names are read once."""
    ids: dict[str, int] = {}

    def check(value: object) -> int:
        name = known(64)(value)
        if not ids:
            ids.update(model.objects.values_list(by, "pk"))
        if name not in ids:
            refuse("unknown", _("There is none of this name."))
        return ids[name]

    return check


def _row(fields: Mapping[str, Check], needed: Collection[str]) -> Check:
    """Return the check of an object with these fields, of which some are needed."""
    check_fields = shape(fields)

    def check(value: object) -> dict[str, Any]:
        found: dict[str, Any] = check_fields(value)
        missing = [Fault(name, "required", _("This is needed.")) for name in needed if name not in found]
        if missing:
            raise Invalid(missing)
        return found

    return check


def _policy(value: object) -> Policy:
    """Take an object of keys of the policy; null is the default. What is so already is no change."""
    if not isinstance(value, dict):
        wrong_type(value, _("an object in braces"))
    faults = [unknown(name, DEFAULTS) for name in value if name not in DEFAULTS]
    now, found = snapshot.policy(), {}
    for key in (key for key in DEFAULTS if key in value):
        try:
            wanted = None if value[key] is None else _value(key, value[key])
        except Invalid as error:
            faults.extend(Fault(key, fault.code, fault.message) for fault in error.faults)
            continue
        if getattr(now, key) != (DEFAULTS[key] if wanted is None else wanted):
            found[key] = wanted
    if faults:
        raise Invalid(faults)
    return found


def _value(key: str, value: object) -> str | float:
    """Return the value of one key, within what the form of the policy takes."""
    if key in policy.CHOICES:
        chosen: str = choice(*policy.CHOICES[key])(value)
        return chosen
    least, most = LEAST.get(key, 0), MOST.get(key, MOST_S)
    if key in policy.WHOLE:
        number: int = whole(least, int(most))(value)
        return number
    if not isinstance(value, int | float) or isinstance(value, bool):
        wrong_type(value, _("a number such as 60, without quotes"))
    if key in policy.POSITIVE and value == 0:
        refuse("range", _("Write a number of more than 0, and of at most %g.") % most)
    if not least <= value <= most:
        refuse("range", _("Write a number from %(least)g to %(most)g.") % {"least": least, "most": most})
    return policy.check(key, value)


def _quotas(rows: list[dict[str, Any]], faults: list[Fault]) -> Iterator[QuotaChange]:
    seen = set()
    for place, row in enumerate(rows):
        change = QuotaChange(**{"region": None, **row})
        key = (change.business, change.gpu_type, change.region)
        if key in seen:
            said = _("This quota stands in a line above already.")
            faults.append(Fault(f"quotas.{place}.business", "conflict", said))
        seen.add(key)
        yield change


def _hosts(given: Mapping[str, Any], faults: list[Fault]) -> Iterator[HostChange]:
    taken: set[int] = set()
    for verb in VERBS:
        hosts, refused = rules.hosts_to(verb, filter(None, given.get(verb, [])))
        faults.extend(Fault(verb, "value", said) for said in refused)
        if taken & set(hosts):
            faults.append(Fault(verb, "conflict", _("A host is named in both fields.")))
        taken |= set(hosts)
        yield from (HostChange(host=host, verb="cordon" if verb == "cordon" else "remove") for host in hosts)
