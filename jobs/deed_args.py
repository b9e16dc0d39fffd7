"""What the audit knows of a deed besides, in words: for pages in the reader's language, for files by its names."""

import json
from collections.abc import Mapping
from typing import Any

from django.contrib.admin.models import LogEntry
from django.utils.functional import Promise
from django.utils.translation import gettext, override
from django.utils.translation import gettext_lazy as _

from cluster.kept_admin import ASKED

SAID = "said"  # the admin's own words, of which fields were changed
WORDS: dict[str, Promise] = {
    "business": _("business"),
    "filters": _("filters"),
    "reason": _("reason"),
    "renewed": _("encrypted anew"),
    "role": _("role"),
    "scope": _("scope"),
    "sessions": _("sessions"),
    "size": _("bytes"),
    "unreadable": _("unreadable"),
    "until": _("until"),
    "user": _("user"),
    "why": _("why"),
}
MARKS: dict[str, Promise] = {
    "by_provider": _("by the identity provider"),
    "by_table": _("with a table that was read in"),
}  # of what is so or is not: they say it without a value


def in_words(args: Mapping[str, Any]) -> str:
    """Return it for people; what is blank is left out."""
    known = {name: value for name, value in args.items() if value not in (None, "", False)}
    in_order = sorted(known, key=lambda name: (name != SAID, name))  # databases keep none
    return " · ".join(_part(name, known[name]) for name in in_order)


def for_files(args: Mapping[str, Any]) -> str:
    """Return it for programs: names as they are kept, whoever takes the file."""
    with override("en"):
        return ", ".join(
            f"{name}: {sentence(value) if name == SAID else value}" for name, value in args.items()
        )


def _part(name: str, value: Any) -> str:
    if name == SAID:
        return sentence(value)
    if name in MARKS:
        return str(MARKS[name])
    return gettext("%(what)s: %(value)s") % {"what": WORDS.get(name, name), "value": _text(value)}


def _text(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name}={one}" for name, one in sorted(value.items()))
    return str(value)


def sentence(said: Any) -> str:
    """Return what the admin said of a change, which is a text or a list of parts, such as `{"changed": …}`."""
    if not isinstance(said, list):
        return str(said)
    parts = [_named(part) for part in said]
    told = [part for part in parts if part.get("changed") is None or part["changed"]["fields"]]
    return LogEntry(change_message=json.dumps(told)).get_change_message()


def _named(part: dict[str, Any]) -> dict[str, Any]:
    """Put the reader's words for fields into a part, without those that a form asks besides."""
    if not (changed := part.get("changed")):
        return part
    fields = [_label(name) for name in changed["fields"] if name not in ASKED]
    return {**part, "changed": {**changed, "fields": fields}}


def _label(name: str) -> str:
    """Return a field's label in the reader's language; forms begin with a capital what catalogues do not."""
    tries = (gettext(name), gettext(name[:1].lower() + name[1:]))
    return next((found for found in tries if found.casefold() != name.casefold()), name)
