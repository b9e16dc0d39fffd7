"""What documents are checked against, looked up once for all documents of a request."""

from collections import defaultdict
from collections.abc import Collection, Iterable
from functools import cached_property
from typing import Any

from django.contrib.auth.models import User

from cluster import rows
from cluster.fresh import Fresh
from cluster.models import GpuType, Region
from jobs.capacity import Fleet, Quotas
from jobs.values import not_kept
from quotas import access
from quotas.models import Business, DefaultGpuType

LONGEST_FLAG = 64
MOST_NAMED = 20  # known names listed in a fault


_types = Fresh(GpuType.objects.by_name, 2.0)


class TypesChanged(Exception):
    """Among the types that a document was read to ask for is one that is no more: it is to be read anew."""


def keep_types(asked: Iterable[int]) -> None:
    """See to it that GPU types stay until the caller's transaction ends: no key does. Raises TypesChanged."""
    keys = set(asked)
    if rows.keep(GpuType, keys) != keys:
        _types.forget()
        raise TypesChanged


class Lookups:
    """The names that a user's documents may use; each kind is one query, made when it is first asked for."""

    def __init__(self, user: User, flags: Collection[str]) -> None:
        """Look up for the documents of `user` that name businesses by these flags."""
        self._user = user
        self._flags = flags
        self.fleet = Fleet()
        self._types, self._are_types_now = _types.get(), False
        self.sources: dict[tuple[Any, ...], Any] = {}  # what documents named of code and data, by how

    @cached_property
    def businesses(self) -> dict[str, Business]:
        """Return those that the user may submit for, of the ones that were named."""
        if len(self._flags) == 1:  # as good as always
            named = access.business_named(self._user, *self._flags)
            return {named.flag: named} if named else {}
        return {one.flag: one for one in access.businesses_of(self._user).filter(flag__in=self._flags)}

    @cached_property
    def own_flags(self) -> list[str]:
        """Return the first names of businesses that he may submit for."""
        return list(access.businesses_of(self._user).values_list("flag", flat=True)[: MOST_NAMED + 1])

    @cached_property
    def regions(self) -> dict[str, Region]:
        """Return all regions by name."""
        return {region.name: region for region in Region.objects.all()}

    def gpu_types(self, names: Iterable[str]) -> dict[str, GpuType]:
        """Return all GPU types by each of their names, case-folded: as they were a moment ago, or with all of these."""
        if not self._types.keys() >= set(names):
            self.look_at_types_anew()
        return self._types

    def look_at_types_anew(self) -> bool:
        """Look at the types as they are now, once; say whether their names meant others a moment ago."""
        if self._are_types_now:
            return False
        before = {name: gpu_type.pk for name, gpu_type in self._types.items()}
        _types.forget()
        self._types, self._are_types_now = _types.get(), True
        return before != {name: gpu_type.pk for name, gpu_type in self._types.items()}

    def default_types(self, business: Business) -> list[GpuType]:
        """Return the types of a business whose document names none."""
        return self._default_types.get(business.pk, [])

    @cached_property
    def _default_types(self) -> dict[int, list[GpuType]]:
        defaults = DefaultGpuType.objects.filter(business__in=[one.pk for one in self.businesses.values()])
        found: dict[int, list[GpuType]] = defaultdict(list)
        for row in defaults.select_related("gpu_type"):
            found[row.business_id].append(row.gpu_type)
        return found

    @cached_property
    def quotas(self) -> Quotas:
        """Return the quotas of the businesses."""
        return Quotas([one.pk for one in self.businesses.values()])


def flags_of(documents: Collection[object]) -> set[str]:
    """Return the names of businesses in documents that may be anything."""
    given = [one.get("business_flag") for one in documents if isinstance(one, dict)]
    flags = {flag.strip() for flag in given if isinstance(flag, str)}
    return {flag for flag in flags if len(flag) <= LONGEST_FLAG and not not_kept(flag)}
