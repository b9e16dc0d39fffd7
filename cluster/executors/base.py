"""What an executor is: it is told what should run, and tells what does."""

import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class NewInstance:
    """One member of a gang, to be run on one host with these cards."""

    host_id: int
    gang: int  # the caller's number of what starts and ends together
    rank: int
    label: str  # for people
    spec: Mapping[str, Any]  # what to run, without secrets; see cluster/agent/protocol.py
    secrets: Mapping[str, str]  # environment of the process that nobody may read
    card_ids: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """What is known of one member of a gang; `gone` is final: no process of it is left."""

    id: uuid.UUID
    gang: int
    rank: int
    host_id: int
    host_name: str
    phase: str  # of models.Instance.Phase
    exit_code: int | None
    exit_signal: int | None
    by_itself: bool | None  # false: it was being stopped when it ended
    detail: str  # why it did not start, in one sentence
    cause: str  # what the host says it was: a word of protocol.CAUSES, or blank
    running_at: datetime | None
    gone_at: datetime | None
    broken_cards: str = ""  # which of its cards failed, and how; looked up where it ended badly by itself


class Executor(Protocol):
    """Five verbs; all but `observe` write rows in the caller's transaction, and a loop makes them true."""

    def launch(self, instances: Sequence[NewInstance]) -> list[uuid.UUID]:
        """Want these to run and lease their cards; django.db.IntegrityError: a card is leased already."""

    def stop(self, gangs: Iterable[int]) -> int:
        """Want these gangs gone; asking again changes nothing. Return how many members were newly asked."""

    def release(self, gangs: Iterable[int]) -> int:
        """Give back the cards of those members that are gone, and return how many cards that were."""

    def observe(self, gangs: Iterable[int]) -> list[Observed]:
        """Return what is known of every member, by gang and rank. What is not known is never told as gone."""

    def abandon(self, hosts: Iterable[int], detail: str) -> int:
        """Record as gone what runs on these hosts, which nobody may ever report on; return how many members."""
