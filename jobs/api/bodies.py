"""Read bodies that are objects of a few fields: every fault of them is told together."""

from collections.abc import Collection, Mapping
from typing import Any

from django.utils.translation import gettext as _

from jobs.config import Fault, Invalid
from jobs.values import Check, checked

TOKEN = "Token"  # may stand in any body, and is read where the caller is found


def fields(body: object, checks: Mapping[str, Check], required: Collection[str] = ()) -> dict[str, Any]:
    """Return the fields of a body in their normal form; raises Invalid with every fault."""
    found, faults = gathered(body, checks, required)
    if faults:
        raise Invalid(faults)
    return found


def gathered(
    body: object, checks: Mapping[str, Check], required: Collection[str] = ()
) -> tuple[dict[str, Any], list[Fault]]:
    """Return the fields of a body that are good in their normal form, and every fault of the others.

    Raises Invalid where it is no object of fields at all.
    """
    given = _object(body, checks)
    faults = _strange(given, checks)
    faults += [
        Fault(name, "required", _("This is needed.")) for name in required if given.get(name) in (None, "")
    ]
    there = [(name, given[name], checks[name]) for name in checks if given.get(name) is not None]
    return checked(there, faults), faults


def known(body: object, names: Collection[str]) -> Mapping[str, Any]:
    """Return a body that is an object of these fields and no other; raises Invalid."""
    given = _object(body, names)
    if faults := _strange(given, names):
        raise Invalid(faults)
    return given


def _object(body: object, names: Collection[str]) -> Mapping[str, Any]:
    if not isinstance(body, dict):
        raise Invalid([Fault("", "type", _("Write an object with %s.") % ", ".join(names))])
    return body


def _strange(given: Mapping[str, Any], names: Collection[str]) -> list[Fault]:
    strange = sorted({str(name)[:64] for name in given if name not in names and name != TOKEN})
    message = _("There is no such field; known: %s.") % ", ".join(names)
    return [Fault(name, "unknown", message) for name in strange]
