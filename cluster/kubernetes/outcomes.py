"""What came of an order, where there is something to take note of."""

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """The pod of the instance is there, whether or not the watch shows it yet."""

    host: int
    pod: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class NotThere:
    """A pod that the watch does not show is not there, either."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NotTaken:
    """The cluster does not take what runs these instances, and would not if it were asked again."""

    hosts: Mapping[uuid.UUID, int]  # by instance
    sentence: str


Outcome = Made | NotThere | NotTaken | None  # None: what came of it is seen where all else is
