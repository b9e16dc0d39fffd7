"""Read bodies that are objects of a few fields: every fault of them is told together."""

from collections.abc import Collection, Mapping
from typing import Any

from django.utils.translation import gettext as _

from jobs.config import Fault, Invalid
from jobs.values import Check, checked

TOKEN = "Token"  # may stand in any body, and is read where the caller is found


def fields(body: object, checks: Mapping[str, Check], required: Collection[str] = ()) -> dict[str, Any]:
    """Return the fields of a body in their normal form; raises Invalid with every fault."""
    given = known(body, checks)
    faults = [
        Fault(name, "required", _("This is needed.")) for name in required if given.get(name) in (None, "")
    ]
    there = [(name, given[name], checks[name]) for name in checks if given.get(name) is not None]
    found = checked(there, faults)
    if faults:
        raise Invalid(faults)
    return found


def known(body: object, names: Collection[str]) -> Mapping[str, Any]:
    """Return a body that is an object of these fields and no other; raises Invalid."""
    listed = ", ".join(names)
    if not isinstance(body, dict):
        raise Invalid([Fault("", "type", _("Write an object with %s.") % listed)])
    strange = sorted({str(name)[:64] for name in body if name not in names and name != TOKEN})
    if strange:
        message = _("There is no such field; known: %s.") % listed
        raise Invalid([Fault(name, "unknown", message) for name in strange])
    return body
