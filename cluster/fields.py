"""Read values out of a JSON object one by one, noting every fault with the path of its field."""

import math
import uuid
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from django.utils.translation import gettext as _


@dataclass(frozen=True, slots=True)
class Fault:
    """What is wrong with one field, in the form of the API's errors, and what would do."""

    field: str  # a dotted path; blank: the whole document
    code: str
    message: str


class Malformed(Exception):
    """A document is not what it should be; `faults` has all of it."""

    def __init__(self, faults: list[Fault]) -> None:
        """Keep the faults."""
        super().__init__("; ".join(f"{fault.field}: {fault.message}" for fault in faults))
        self.faults = faults


class Fields:
    """The fields of one object; a faulty one reads as an empty value and is noted in `faults`."""

    def __init__(self, document: object, path: str = "", faults: list[Fault] | None = None) -> None:
        """Read `document`, which stands at `path` (blank: the whole), noting faults in the list given."""
        self.faults: list[Fault] = [] if faults is None else faults
        self._path = path
        self._values: dict[str, Any] = {}
        if isinstance(document, dict):
            self._values = document
        else:
            self.faults.append(Fault(field=path, code="type", message=_("An object is needed.")))

    def check(self) -> None:
        """Raise Malformed if any fault was noted."""
        if self.faults:
            raise Malformed(self.faults)

    def fault(self, name: str, code: str, message: str) -> None:
        """Note a fault of the field `name`."""
        self.faults.append(Fault(field=self._at(name), code=code, message=message))

    def name(self, name: str, most: int, *, blank: bool = False) -> str:
        """Return a printable text of at most `most` characters, trimmed."""
        value = self._values.get(name)
        if not isinstance(value, str):
            self.fault(name, "type", _("A text is needed."))
            return ""
        value = value.strip()
        if not value and not blank:
            self.fault(name, "required", _("This may not be blank."))
        elif len(value) > most or not value.isprintable():
            self.fault(name, "value", _("At most %(most)d printable characters are taken.") % {"most": most})
        else:
            return value
        return ""

    def name_or_blank(self, name: str, most: int) -> str:
        """Return such a text, or "" where the field is null or absent."""
        return "" if self._values.get(name) is None else self.name(name, most, blank=True)

    def words(self, name: str, most: int) -> str:
        """Return a text for people, cut and cleaned rather than refused: it must not stop a report."""
        value = self._values.get(name, "")
        if not isinstance(value, str):
            self.fault(name, "type", _("A text is needed."))
            return ""
        return value.replace("\x00", "").encode(errors="replace").decode()[:most]

    def number(self, name: str, least: int, most: int) -> int:
        """Return a whole number between `least` and `most`."""
        value = self._values.get(name)
        # A bool is an int to Python, and none to anybody else.
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            self.fault(
                name,
                "value",
                _("A whole number from %(least)d to %(most)d is needed.") % {"least": least, "most": most},
            )
            return least
        return value

    def number_or_none(self, name: str, least: int, most: int) -> int | None:
        """Return a whole number between `least` and `most`, or None where the field is null or absent."""
        return None if self._values.get(name) is None else self.number(name, least, most)

    def seconds(self, name: str) -> float:
        """Return a finite number."""
        value = self._values.get(name)
        if isinstance(value, bool) or not isinstance(value, int | float) or not _is_finite(value):
            self.fault(name, "value", _("A number is needed."))
            return 0.0
        return float(value)

    def flag_or_none(self, name: str) -> bool | None:
        """Return true, false, or None where the field is null or absent."""
        value = self._values.get(name)
        if value is None or isinstance(value, bool):
            return value
        self.fault(name, "type", _("True, false or null is needed."))
        return None

    def choice(self, name: str, choices: Collection[str]) -> str:
        """Return one of `choices`."""
        value = self._values.get(name)
        if isinstance(value, str) and value in choices:
            return value
        self.fault(name, "value", _("One of these is needed: %(choices)s.") % {"choices": ", ".join(choices)})
        return ""

    def uuid(self, name: str) -> uuid.UUID:
        """Return a UUID."""
        value = self._values.get(name)
        try:
            return uuid.UUID(value if isinstance(value, str) else "")
        except ValueError:
            self.fault(name, "value", _("A UUID is needed."))
            return uuid.UUID(int=0)

    def items(self, name: str, most: int) -> list[Any]:
        """Return a list of at most `most` items."""
        value = self._values.get(name)
        if not isinstance(value, list) or len(value) > most:
            self.fault(name, "type", _("A list of at most %(most)d items is needed.") % {"most": most})
            return []
        return value

    def objects(self, name: str, most: int) -> "list[Fields]":
        """Return a list of at most `most` objects."""
        items = self.items(name, most)
        return [Fields(item, f"{self._at(name)}[{number}]", self.faults) for number, item in enumerate(items)]

    def objects_or_none(self, name: str, most: int) -> "list[Fields]":
        """Return such a list, an empty one where the field is null or absent."""
        return [] if self._values.get(name) is None else self.objects(name, most)

    def object_or_none(self, name: str) -> "Fields | None":
        """Return an object, or None where the field is null or absent."""
        value = self._values.get(name)
        return None if value is None else Fields(value, self._at(name), self.faults)

    def _at(self, name: str) -> str:
        return f"{self._path}.{name}" if self._path else name


def _is_finite(value: float) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:  # a whole number beyond every float
        return False
