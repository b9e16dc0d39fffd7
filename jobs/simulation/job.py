"""What a simulation works on: jobs with their attempts, and the setup they run in."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from jobs.scheduling.reasons import Reason
from jobs.scheduling.types import HostCards, Policy, Quota, TaskClass


@dataclass(slots=True, kw_only=True)
class Attempt:
    """One run of a job."""

    started: float
    task_class: Literal["high", "elastic"]  # as it started …
    promoted: float | None = None  # … and when it was turned high in place
    cards: Mapping[int, tuple[int, ...]]  # host → numbers
    ended: float | None = None
    outcome: str | None = None
    told_at: float | None = None  # when it was told to leave, and …
    told_to_end_as: str = ""  # … what as
    overdue: str = ""  # it ended as this while a host of it was lost: nobody knows yet


@dataclass(slots=True, kw_only=True)
class Job:
    """A task of the simulation: what was submitted, and what became of it."""

    id: int
    name: str
    business: int
    user: int
    wanted: TaskClass
    host_num: int
    host_gpu_num: int
    gpu_types: tuple[int, ...]
    any_type: bool = False
    region: int | None = None
    priority: int = 1
    submitted: float
    duration: float
    time_limit: float | None = None
    pull_up: bool = False
    retry_limit: int = 0
    exit_s: float = 0.0
    restart_s: float = 0.0
    checkpoint_s: float = 0.0

    state: str = "queued"
    task_class: TaskClass | None = None  # of its last attempt
    attempts: list[Attempt] = field(default_factory=list)
    evicted_at: list[float] = field(default_factory=list)
    failures: int = 0
    done: float = 0.0  # seconds of work that are kept
    queued: float = 0.0
    waited: float = 0.0
    ended: float | None = None
    lost_card_s: float = 0.0
    avoid: frozenset[int] = frozenset()
    reason: Reason | None = None

    @property
    def cards(self) -> int:
        """Return all its cards."""
        return self.host_num * self.host_gpu_num


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """What a simulation starts from; events are (time, kind, what), in the order in which they happen."""

    hosts: tuple[HostCards, ...]
    quotas: tuple[Quota, ...]
    policy: Policy
    events: list[tuple[float, str, Any]]
    until: float | None = None
    capped: bool = False  # elastic caps stand in the quotas, or will
    type_names: Mapping[int, str] = field(default_factory=dict)
    host_names: Mapping[int, str] = field(default_factory=dict)
    business_names: Mapping[int, str] = field(default_factory=dict)
