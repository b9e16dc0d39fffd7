"""What the scheduler reads (Snapshot, Policy) and what it says (Plan): plain records, ids and numbers.

None of them is changed once it is made. Those that come by the ten thousand are not declared frozen, for that
makes a record of twenty fields three times as slow to make.

Times are seconds since the epoch (or since the simulation's start), cards are counted unless a name
says `numbers`. Every id is an int; ties everywhere end in an id.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from jobs.scheduling.reasons import Reason

NEVER = float("inf")  # in place of a time that does not come
Rule = Literal[
    "victim",  # a high task needs its cards
    "guarantee",  # the same, although it was protected: there was no other way
    "slice",  # its time slice is over and others wait
    "keeping",  # a kept place that a high task needs
    "drain",  # its host is draining
]
TaskClass = Literal["high", "elastic", "auto"]
HostState = Literal["ready", "cordoned", "draining", "lost", "quarantined", "removed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """The named keys of the policy; the defaults are the product's (see `policy.read` for their checks)."""

    high_order: str = "priority"
    elastic_order: str = "fair_share"
    head_of_line: str = "reserve"
    reserve_after_s: float = 1800
    aging_s: float = 21600
    fair_half_life_s: float = 604800
    slice_s: float = 3600
    placement: str = "best_fit"
    victim_order: str = "longest_run"
    min_run_s: float = 600
    max_evictions_per_hour: int = 4
    evict_delay_s: float = 0
    exit_grace_s: float = 30
    plan_lapse_s: float = 120
    start_deadline_s: float = 900
    pull_up_backoff_s: float = 10
    lost_after_s: float = 90
    restart_lost_s: float = 900
    quarantine_after: int = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class HostCards:
    """The cards of one GPU type on one host (a host with two types has two of these)."""

    host: int
    region: int
    gpu_type: int
    total: int  # cards that are not broken, missing or used from outside, whether leased or not
    free_numbers: tuple[int, ...]  # of those, the numbers of the ones without a lease, ascending
    state: HostState = "ready"
    offers: frozenset[str] = frozenset({"process"})  # kinds of instance the host can run


@dataclass(slots=True, kw_only=True, eq=False)
class Waiting:
    """A task that holds no cards."""

    id: int
    business: int
    user: int
    wanted: TaskClass
    host_num: int
    host_gpu_num: int
    gpu_types: tuple[int, ...]  # acceptable types, in the order to try …
    any_type: bool = False  # … or, where it named none, the one with the most free cards first
    region: int | None = None
    priority: int = 1  # 0 low, 1 medium, 2 high
    submitted: float  # first submission
    queued: float  # when it last began to wait
    ready_at: float = 0.0  # it does not start before this …
    gate: Literal["", "not_before", "backoff", "dependency", "hold"] = ""  # … and why it may not start yet
    time_limit: float | None = None
    duration: float | None = None  # where known (simulator) or estimated; orders shortest_first
    avoid: frozenset[int] = frozenset()  # hosts where it failed at once
    needs: str = "process"  # kind of instance
    pull_up: bool = False
    checkpoint_s: float | None = None
    evictions: tuple[float, ...] = ()  # times of its evictions in the last hour


@dataclass(slots=True, kw_only=True, eq=False)
class Running:
    """A task that holds cards: an open attempt, from its start to the confirmed end of its last process."""

    id: int  # of the task
    business: int
    user: int
    task_class: Literal["high", "elastic"]
    wanted: TaskClass
    gpu_type: int
    hosts: Mapping[int, int]  # host → cards that come free there when it is gone (broken ones do not)
    cards: int  # all its cards
    submitted: float
    started: float  # when its cards were given to it
    region: int | None = None
    priority: int = 1
    time_limit: float | None = None
    checkpoint_s: float | None = None  # interval of its checkpoints; None: never writes one, 0: loses nothing
    pull_up: bool = False
    leaving_since: float | None = None  # told to stop then, whatever for; its cards come free soon
    keeping: bool = False  # over, only its place is kept
    evicted_for: int | None = None  # the task that its cards go to
    evictions: tuple[float, ...] = ()  # times of its evictions in the last hour

    @property
    def leaving(self) -> bool:
        """Say whether it was told to stop."""
        return self.leaving_since is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Quota:
    """How many cards of a type a business may hold; region None: in all regions together."""

    business: int
    gpu_type: int
    region: int | None = None
    cards: int
    elastic_cards: int | None = None  # None: no cap
    user_elastic_cards: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """Cards held for a task while its victims leave: from the plan on, its whole need on each host."""

    task: int
    gpu_type: int
    task_class: Literal["high", "elastic"] = "high"
    hosts: Mapping[int, int]  # host → cards held
    made_at: float
    last_term_at: float | None = None  # when the last victim was told to leave


@dataclass(frozen=True, slots=True, kw_only=True)
class Reservation:
    """Cards of a type kept for a business in one window (recurring ones are given window by window)."""

    id: int
    business: int
    gpu_type: int
    region: int | None = None
    cards: int
    start: float
    end: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Elastic card-seconds of a user's ended attempts, decayed to now (the pass adds what runs)."""

    business: int
    user: int
    card_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """Everything one pass knows; the order of the rows never matters."""

    now: float
    hosts: tuple[HostCards, ...] = ()
    waiting: tuple[Waiting, ...] = ()
    running: tuple[Running, ...] = ()
    quotas: tuple[Quota, ...] = ()
    claims: tuple[Claim, ...] = ()
    reservations: tuple[Reservation, ...] = ()
    usage: tuple[Usage, ...] = ()
    high_unlimited: bool = False  # no quotas were given at all (simulator)
    type_names: Mapping[int, str] = field(default_factory=dict)  # for the sentences of reasons
    host_names: Mapping[int, str] = field(default_factory=dict)
    host_remarks: Mapping[int, str] = field(default_factory=dict)  # what operators say of hosts they took out
    business_names: Mapping[int, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """Give these cards to the task now."""

    task: int
    task_class: Literal["high", "elastic"]
    gpu_type: int
    numbers: Mapping[int, tuple[int, ...]]  # host → card numbers; the first host is rank 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Evict:
    """Tell this running task to leave."""

    task: int
    for_task: int | None  # None: nobody in particular (draining host)
    rule: Rule


@dataclass(frozen=True, slots=True, kw_only=True)
class Promote:
    """Turn this running elastic attempt of an `auto` task high, in place."""

    task: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What one pass says: a start or a reason to wait for every waiting task, and what follows for others."""

    starts: tuple[Start, ...] = ()
    evictions: tuple[Evict, ...] = ()
    promotions: tuple[Promote, ...] = ()
    claims: tuple[Claim, ...] = ()  # every claim that stands after this pass, new and old
    waits: Mapping[int, Reason] = field(default_factory=dict)  # task → why; one shape shares the object
    wake_at: float | None = None  # when time alone may change the plan
