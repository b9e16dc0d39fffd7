"""What a dry run says of a task that is not there yet: plain records for the pages and the API."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

from jobs.values import Fault

Word = Literal["starts", "starts_after_evicting", "queues", "never"]
Class = Literal["high", "elastic"]
Kind = Literal["gpu_type", "region", "class", "fewer_hosts", "fewer_cards"]
# What would be asked instead: a field of the document and its value; None: the field is left out.
Change = Mapping[str, str | int | bool | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """A sentence of one of the closed lists, in the caller's language."""

    code: str
    message: str
    args: Mapping[str, object] = field(default_factory=dict)  # the numbers in it
    advice: str = ""  # what its owner could change or whom he could ask; blank: nothing but wait


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """The cards that a task gets, or is to get, on one host."""

    host: str
    cards: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Where:
    """Where a task starts, or which cards are held for it while its victims leave."""

    gpu_type: str
    region: str  # several behind commas, where a gang spans them
    task_class: Class  # an auto task may start as either
    hosts: tuple[Share, ...]  # the first one is rank 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Victim:
    """A running task that would have to leave."""

    task: int
    business: str
    user: str | None  # None: the caller may not see whose it is
    cards: int
    lost_card_hours: float  # of its work since the last checkpoint; all of it where it writes none
    comes_back: bool
    rule: str  # a word of scheduling.types.Rule


@dataclass(frozen=True, slots=True, kw_only=True)
class Alternative:
    """Another way to ask that would start, found by a dry run of its own."""

    kind: Kind
    change: Change
    message: str  # such as "on 2 hosts instead of 4", in the caller's language
    verdict: Literal["starts", "starts_after_evicting"]
    where: Where
    victims: int
    lost_card_hours: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What the next pass would do with a document."""

    verdict: Word
    where: Where | None = None  # of starts and starts_after_evicting
    evicts: tuple[Victim, ...] = ()
    reason: Said | None = None  # of queues and never: what is in the way
    position: int | None = None  # of queues: 1 is the first of its line; None: it stands in none yet
    of: int | None = None  # how many its line would have, with it
    estimated_start: datetime | None = None
    estimate_basis: Said | None = None
    faults: tuple[Fault, ...] = ()  # of never: the fields that would have to change, and how
    alternatives: tuple[Alternative, ...] = ()  # the best first; none of a task that starts without evicting

    @property
    def lost_card_hours(self) -> float:
        """Return the work that the evictions would cost in all."""
        return sum(victim.lost_card_hours for victim in self.evicts)
