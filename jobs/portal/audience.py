"""Whom the changing part of a task's page tells apart: those who read it alike get the same bytes (parts.py)."""

from collections.abc import Hashable
from dataclasses import dataclass

from django.http.response import HttpResponseBase

from jobs.portal.readers import Reader

_OF_A_RESPONSE = "audience"


@dataclass(frozen=True, slots=True, kw_only=True)
class Audience:
    """What decides how somebody reads a part, besides his language."""

    business: int  # whose members see the task
    owner: int  # who may steer it besides those who lead the business
    named: frozenset[str]  # flags of businesses whose tasks it names: as links for those who see them

    def group(self, reader: Reader) -> Hashable:
        """Return what is equal for two readers just when they see the same and may do the same."""
        flags = dict(reader.kind.businesses)
        sees_all = reader.kind.exact
        seen = self.named if sees_all else self.named.intersection(flags.values())
        return sees_all or self.business in flags, self._is_steered_by(reader), seen

    def _is_steered_by(self, reader: Reader) -> bool:
        """Say what access.may_steer says of a user who is present."""
        if reader.operates or self.business in reader.leads:
            return True
        return self.owner == reader.user_id and self.business in dict(reader.kind.businesses)


def tell(response: HttpResponseBase, audience: Audience) -> None:
    """Note with a response who may get the same one."""
    setattr(response, _OF_A_RESPONSE, audience)


def told(response: HttpResponseBase) -> Audience | None:
    """Return who may get the same response; None: whoever asks with the same key."""
    return getattr(response, _OF_A_RESPONSE, None)
