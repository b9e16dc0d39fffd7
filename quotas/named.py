"""Rows of other tables by the names that people know them by, looked up once for all of a table."""

from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from typing import Any

from django.contrib.auth.models import User
from django.utils.translation import gettext as _
from import_export.widgets import Widget

from cluster.models import GpuType, Region
from quotas.models import Business

NAMES = 500  # in one statement
Find = Callable[[list[str]], Mapping[str, Any]]  # what is there of so many names


class Named(Widget):
    """A row of another table by the name that people know it by; blank for none."""

    def __init__(self, kind: str, find: Find, name: str) -> None:
        """Look rows up by `find`; `name` is the attribute that holds the name."""
        super().__init__()
        self._kind, self._find, self._name = kind, find, name
        self._found: dict[str, Any] = {}

    def look_up(self, texts: Iterable[Any]) -> None:
        """Find what cells name, all of it together."""
        names = {text(cell) for cell in texts} - self._found.keys() - {""}
        asked = (name for name in sorted(names) if "\x00" not in name)  # which no database takes
        for some in batches(asked, NAMES):
            found = self._find(some)
            self._found |= {name: found.get(name) for name in some}

    def named(self, name: str) -> Any:
        """Return the row of this name, or None where there is none."""
        if name not in self._found:
            self.look_up([name])
        return self._found.get(name)

    def clean(self, value: Any, row: Mapping[str, Any] | None = None, **kwargs: Any) -> Any:
        """Return the row of this name. Raises ValueError."""
        name = text(value)
        found = self.named(name)
        if name and found is None:
            raise ValueError(
                _("there is no %(kind)s called %(name)s") % {"kind": _(self._kind), "name": name}
            )
        return found

    def render(self, value: Any, obj: Any = None, **kwargs: Any) -> str:
        """Return its name."""
        return getattr(value, self._name) if value else ""


def text(cell: Any) -> str:
    """Return what a cell says, without blanks around it."""
    return str(cell if cell is not None else "").strip()


def batches(values: Iterable[Any], size: int) -> Iterable[list[Any]]:
    """Cut values into lists of at most `size`."""
    left = iter(values)
    return iter(lambda: list(islice(left, size)), [])


def businesses(flags: list[str]) -> Mapping[str, Business]:
    """Return businesses by flag."""
    return {business.flag: business for business in Business.objects.filter(flag__in=flags)}


def gpu_types(names: list[str]) -> Mapping[str, GpuType]:
    """Return GPU types by any of their names, however they are spelled."""
    known = GpuType.objects.all().by_name()
    return {name: known[name.casefold()] for name in names if name.casefold() in known}


def regions(names: list[str]) -> Mapping[str, Region]:
    """Return regions by name."""
    return {region.name: region for region in Region.objects.filter(name__in=names)}


def users(names: list[str]) -> Mapping[str, User]:
    """Return users by name."""
    return {user.username: user for user in User.objects.filter(username__in=names)}
