"""A member of an attempt as its row has it: who it is, where it belongs, how far it is; pure."""

import uuid
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Seat:
    """What the row of a member says."""

    id: uuid.UUID
    gang: int
    rank: int
    host: int
    node: str
    phase: str
    wanted: bool
    commit: str = ""
