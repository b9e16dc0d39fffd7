"""Checks of single values of a config document: each returns the normal form, or raises its faults."""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from difflib import get_close_matches
from typing import Any, NoReturn

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from cluster.characters import bad_character as bad_character
from cluster.characters import not_kept as not_kept
from cluster.fields import Fault as Fault  # for all who check documents

LONGEST_SCRIPT = 32_768  # characters; the kernel takes 131,072 bytes as one argument
# What other platforms call fields, where no likeness of letters leads to ours.
SYNONYMS = {
    **dict.fromkeys(("gpu", "gpus", "num_gpus", "gpu_num", "cards"), "host_gpu_num"),
    **dict.fromkeys(("hosts", "nodes", "num_nodes"), "host_num"),
    **dict.fromkeys(("cmd", "command"), "start_cmd"),
}
FIRST_YEAR, LAST_YEAR = 2000, 2999  # at the ends of the calendar a time cannot be shown in every zone
_DURATION = re.compile(r"(?:(\d{1,9})d)?(?:(\d{1,9})h)?(?:(\d{1,9})m)?(?:(\d{1,9})s?)?", re.ASCII)

Check = Callable[[object], Any]


class Invalid(Exception):
    """A document, or a part of it, was refused; carries every fault of it."""

    def __init__(self, faults: list[Fault]) -> None:
        super().__init__("; ".join(f"{fault.field or 'document'}: {fault.message}" for fault in faults))
        self.faults = faults


def refuse(code: str, message: str) -> NoReturn:
    """Refuse the value at hand."""
    raise Invalid([Fault("", code, message)])


def checked(values: Iterable[tuple[str, object, Check]], faults: list[Fault]) -> dict[str, Any]:
    """Return the normal forms by name of (name, value, check); what is refused goes to `faults`."""
    found = {}
    for name, value, check in values:
        try:
            found[name] = check(value)
        except Invalid as error:
            faults.extend(
                Fault(f"{name}.{fault.field}" if fault.field else name, fault.code, fault.message)
                for fault in error.faults
            )
    return found


def shown(name: object) -> str:
    """Return a name that came from outside so that any page, log or terminal can take it."""
    text = name if isinstance(name, str) else repr(name)
    return (text if text.isprintable() else ascii(text))[:64]


def kind(value: object) -> str:
    """Return what JSON calls the type of `value`."""
    if isinstance(value, bool):
        return "true" if value else "false"
    names: dict[type, str] = {str: _("text"), int: _("a number"), float: _("a number")}
    names |= {list: _("a list"), dict: _("an object"), type(None): "null"}
    return names.get(type(value), type(value).__name__)


def wrong_type(value: object, wanted: str) -> NoReturn:
    """Refuse a value that is not `wanted`, a phrase with an example; the value itself may be a secret."""
    refuse("type", _("This is %(kind)s; write %(wanted)s.") % {"kind": kind(value), "wanted": wanted})


@dataclass(frozen=True, slots=True)
class Secret:
    """A value that is never shown; None where the document only says that there is one."""

    value: str | None


def shape(fields: Mapping[str, Check]) -> Check:
    """Return the check of an object with `fields`; all may be absent, others are unknown."""

    def check(value: object) -> dict[str, Any]:
        if not isinstance(value, dict):
            wrong_type(value, _("an object in braces"))
        faults = [unknown(name, fields) for name in value if name not in fields]
        found = checked(
            ((n, v, fields[n]) for n, v in value.items() if n in fields and v is not None), faults
        )
        if faults:
            raise Invalid(faults)
        return found

    return check


def unknown(name: object, fields: Mapping[str, object]) -> Fault:
    """Return the fault of a field that does not exist, with the nearest name that does."""
    folded = {known.lower(): known for known in fields}
    written = str(name)[:64].lower()
    meant = [SYNONYMS[written]] if SYNONYMS.get(written) in folded else []
    near = meant or get_close_matches(written, folded, n=1, cutoff=0.6) or _with_word(written, folded)
    message = _("There is no such field; remove it.")
    if near:
        message = _('There is no such field; did you mean "%s"?') % folded[near[0]]
    return Fault(shown(name), "unknown", message)


def _with_word(written: str, known: Iterable[str]) -> list[str]:
    """Return the one known name of which `written` is a whole word, as image is of image_full_name."""
    found = [name for name in known if written in name.split("_")]
    return found if len(found) == 1 else []


def flag(value: object) -> bool:
    """Take true or false."""
    if isinstance(value, bool):
        return value
    wrong_type(value, _("true or false, without quotes"))


def whole(least: int, most: int) -> Check:
    """Return the check of a whole number from `least` to `most`."""

    def check(value: object) -> int:
        if not isinstance(value, int) or isinstance(value, bool):
            wrong_type(value, _("a whole number such as %d, without quotes") % max(least, 1))
        if not least <= value <= most:
            message = _("Write a whole number from %(least)d to %(most)d.")
            refuse("range", message % {"least": least, "most": most})
        return value

    return check


def text(longest: int, *, lines: bool = False) -> Check:
    """Return the check of a text of at most `longest` characters, of one line unless `lines`.

    Lines end with LF in the normal form: a shell takes the CR of a CRLF for a part of the last word.
    """

    def check(value: object) -> str:
        if not isinstance(value, str):
            wrong_type(value, _('a text in quotes, such as "demo"'))
        _without(bad_character(value, lines=lines))
        return _short(value.replace("\r\n", "\n") if lines else value.strip(), longest)

    return check


def known(longest: int) -> Check:
    """Return the check of a text that names what is there: under any name that it was ever given."""

    def check(value: object) -> str:
        if not isinstance(value, str):
            wrong_type(value, _('a text in quotes, such as "demo"'))
        _without(not_kept(value))
        return _short(value.strip(), longest)

    return check


def unless_kept(held: str, check: Check) -> Check:
    """Return the check of a text of a row that is changed: what the row holds already may stay."""
    return lambda value: held if value == held else check(value)


def _without(bad: str) -> None:
    if bad:
        refuse("character", _("The character %s is not allowed here; remove it.") % bad)


def _short(value: str, longest: int) -> str:
    if len(value) > longest:
        message = ngettext("At most %d character is taken.", "At most %d characters are taken.", longest)
        refuse("length", message % longest)
    return value


_PART = "[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*"
_REGISTRY = r"(?:localhost|[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)+|[A-Za-z0-9.-]+(?=:))(?::\d+)?/"
_VERSION = r"(?::\w[\w.-]{0,127})?(?:@sha256:[0-9a-f]{64})?"
_IMAGE = re.compile(f"(?:{_REGISTRY})?{_PART}(?:/{_PART})*{_VERSION}", re.ASCII)


def image(value: object) -> str:
    """Take the name of a container image, as Docker's reference grammar has it; blank: none."""
    found = str(text(512)(value))
    if found and not _IMAGE.fullmatch(found):
        refuse("image", _("This is no image's name; write it such as registry.example.com/team/name:tag."))
    return found


def choice(*names: str) -> Check:
    """Return the check of one of `names`; case and spaces are forgiven."""
    listed = ", ".join(f'"{name}"' for name in names)

    def check(value: object) -> str:
        if isinstance(value, str) and value.strip().lower() in names:
            return value.strip().lower()
        refuse("choice", _("Write one of %s.") % listed)

    return check


def elasticity(value: object) -> bool | str:
    """Take true, false or "auto"."""
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.strip().lower() == "auto":
        return "auto"
    wrong_type(value, _('true, false or "auto"; only "auto" stands in quotes'))


def duration(most_s: int) -> Check:
    """Return the check of a time span in seconds, or as text such as 2h30m; its normal form is seconds."""

    def check(value: object) -> int:
        seconds = _seconds(value)
        if seconds is None:
            wrong_type(value, _('a number of seconds such as 9000, or a text such as "2h30m"'))
        if not 1 <= seconds <= most_s:
            refuse("range", _("Write 1 second at least and %d days at most.") % (most_s // 86400))
        return seconds

    return check


def _seconds(value: object) -> int | None:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    compact = "".join(value.lower().split()) if isinstance(value, str) else ""
    match = _DURATION.fullmatch(compact)
    if not match or not compact:
        return None
    return sum(int(part or 0) * unit for part, unit in zip(match.groups(), (86400, 3600, 60, 1), strict=True))


def moment(value: object) -> str:
    """Take a time with its zone (a bare one means another moment to each reader); normal: UTC, with Z."""
    example = _('a time with its zone, such as "2030-01-31T08:00:00+08:00" or "2030-01-31T00:00:00Z"')
    if not isinstance(value, str):
        wrong_type(value, example)
    try:
        parsed = datetime.fromisoformat(value.strip())
        moved = parsed.astimezone(UTC)
    except (ValueError, OverflowError):
        refuse("format", _("This is not a time; write %s.") % example)
    if parsed.tzinfo is None:
        refuse("no_zone", _("This time has no zone; write %s.") % example)
    if not FIRST_YEAR <= moved.year <= LAST_YEAR:
        years = {"first": FIRST_YEAR, "last": LAST_YEAR}
        refuse("range", _("Write a time in the years %(first)d to %(last)d.") % years)
    return moved.isoformat(timespec="seconds").replace("+00:00", "Z")


def listed(most: int, each: Check) -> Check:
    """Return the check of a list of at most `most` entries that `each` takes."""

    def check(value: object) -> list[Any]:
        if not isinstance(value, list):
            wrong_type(value, _('a list, such as ["one", "two"]'))
        if len(value) > most:
            refuse("length", _("At most %d entries are taken.") % most)
        faults: list[Fault] = []
        found = checked(((str(place), entry, each) for place, entry in enumerate(value)), faults)
        if faults:
            raise Invalid(faults)
        return list(found.values())

    return check


def names(value: object) -> str:
    """Take names behind commas; spaces, full-width commas, empty places and repetitions are forgiven."""
    plain: str = known(512)(value)
    found: dict[str, str] = {}
    for part in re.split("[,，、]", plain):
        if part.strip():
            found.setdefault(part.strip().casefold(), part.strip())
    return ",".join(found.values())
