"""Builders that make snapshots read like sentences; ids follow the order in which names are given."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any

from jobs.scheduling import policy as policies
from jobs.scheduling.decide import decide
from jobs.scheduling.reasons import Reason
from jobs.scheduling.types import (
    Claim,
    HostCards,
    Plan,
    Policy,
    Quota,
    Reservation,
    Running,
    Snapshot,
    Usage,
    Waiting,
)


class Names:
    """Gives each name of a kind its id."""

    def __init__(self) -> None:
        self._ids: dict[str, dict[str, int]] = {}

    def id(self, kind: str, name: str) -> int:
        """Return the id of the name, a new one where it was never given."""
        known = self._ids.setdefault(kind, {})
        return known.setdefault(name, len(known) + 1)

    def name(self, kind: str, number: int) -> str:
        """Return the name that has this id."""
        return next(name for name, known in self._ids.get(kind, {}).items() if known == number)

    def all(self, kind: str) -> dict[int, str]:
        """Return all names of a kind by id."""
        return {number: name for name, number in self._ids.get(kind, {}).items()}


class Row:
    """Something that a snapshot is made of."""


class host(Row):
    """`host("h1").cards("P40", 8)`, ready and in region SZ unless said."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.state: Any = "ready"
        self.region = "SZ"
        self.gpu_type, self.total = "P40", 8
        self.broken: tuple[int, ...] = ()
        self.kinds = frozenset({"process"})
        self.remark = ""

    def because(self, remark: str) -> host:
        """Let operators say why it is taken out."""
        self.remark = remark
        return self

    def offers(self, *kinds: str) -> host:
        """Let it run these kinds of instance and no other."""
        self.kinds = frozenset(kinds)
        return self

    def cards(self, gpu_type: str, total: int) -> host:
        """Give it so many cards of a type."""
        self.gpu_type, self.total = gpu_type, total
        return self

    def at(self, region: str) -> host:
        """Put it into a region."""
        self.region = region
        return self

    def is_(self, state: str) -> host:
        """Set its state."""
        self.state = state
        return self

    def without(self, *numbers: int) -> host:
        """Break cards."""
        self.broken = numbers
        return self


class task(Row):
    """`task("a").high().gang(2, 8).of("A")`: waiting; `.on(h1=8)` makes it a running one."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.values: dict[str, Any] = {"submitted": 0.0}
        self.wanted: Any = "elastic"
        self.host_num, self.host_gpu_num = 1, 1
        self.types = "P40"
        self.business, self.user = "A", ""
        self.region: str | None = None
        self.hosts: dict[str, int] = {}
        self.running_class: Any = None

    def high(self) -> task:
        """Make it a high task."""
        self.wanted = "high"
        return self

    def elastic(self) -> task:
        """Make it an elastic task."""
        self.wanted = "elastic"
        return self

    def auto(self) -> task:
        """Make it high where quota lasts, else elastic."""
        self.wanted = "auto"
        return self

    def gang(self, host_num: int, host_gpu_num: int) -> task:
        """Ask so many hosts with so many cards each."""
        self.host_num, self.host_gpu_num = host_num, host_gpu_num
        return self

    def asks(self, cards: int) -> task:
        """Ask so many cards of one host."""
        return self.gang(1, cards)

    def on_type(self, types: str) -> task:
        """Name the types to try, "M40,P40"."""
        self.types = types
        return self

    def of(self, business: str, user: str = "") -> task:
        """Give it a business and a user (default: the business's own)."""
        self.business, self.user = business, user
        return self

    def within(self, region: str) -> task:
        """Name its region."""
        self.region = region
        return self

    def at(self, submitted: float) -> task:
        """Set its first submission."""
        self.values["submitted"] = submitted
        return self

    def with_(self, **values: Any) -> task:
        """Set any other field of the record."""
        self.values.update(values)
        return self

    def on(self, hosts: Mapping[str, int] | None = None, **more: int) -> task:
        """Let it run on these hosts with so many cards each."""
        self.hosts = {**(hosts or {}), **more}
        return self

    def since(self, started: float) -> task:
        """Say since when it runs."""
        self.values["started"] = started
        return self


@dataclass
class claim(Row):
    """`claim("a", h1=8)`: cards held for a task."""

    task: str
    hosts: dict[str, int]
    values: dict[str, Any] = field(default_factory=dict)

    def __init__(self, task: str, /, gpu_type: str = "P40", made_at: float = 0.0, **hosts: int) -> None:
        self.task, self.gpu_type, self.hosts = task, gpu_type, hosts
        self.values = {"made_at": made_at, "last_term_at": made_at}


@dataclass
class quota(Row):
    """`quota("A", "P40", 16)`."""

    business: str
    gpu_type: str
    cards: int
    region: str | None = None
    elastic: int | None = None
    user_elastic: int | None = None


@dataclass
class reservation(Row):
    """`reservation("A", "P40", 8, start, end)`."""

    business: str
    gpu_type: str
    cards: int
    start: float
    end: float


@dataclass
class used(Row):
    """`used("A", "ann", card_s)`: elastic card-seconds of the past."""

    business: str
    user: str
    card_s: float


class Verdict:
    """A plan, read by names."""

    def __init__(self, plan: Plan, names: Names, snapshot: Snapshot) -> None:
        self.plan = plan
        self.snapshot = snapshot
        self._names = names
        task_name = names.all("task")
        host_name = names.all("host")
        self.starts = {
            task_name[s.task]: {host_name[h]: numbers for h, numbers in s.numbers.items()}
            for s in plan.starts
        }
        self.classes = {task_name[s.task]: s.task_class for s in plan.starts}
        self.types = {task_name[s.task]: names.name("type", s.gpu_type) for s in plan.starts}
        self.evicted = {task_name[e.task]: e.rule for e in plan.evictions}
        self.evicted_for = {
            task_name[e.task]: task_name[e.for_task] if e.for_task else None for e in plan.evictions
        }
        self.promoted = {task_name[p.task] for p in plan.promotions}
        self.claims = {task_name[c.task]: {host_name[h]: n for h, n in c.hosts.items()} for c in plan.claims}
        self.waits = {task_name[t]: reason.code for t, reason in plan.waits.items()}

    def reason(self, name: str) -> Reason:
        """Return why the task waits."""
        return self.plan.waits[self._names.id("task", name)]


def snapshot_of(*rows: Row, now: float = 0.0, shuffle: int | None = None) -> tuple[Snapshot, Names]:
    """Return the snapshot that the rows describe; `shuffle` reorders its rows, which must not matter."""
    names = Names()
    for row in rows:
        if isinstance(row, host | task):
            names.id("host" if isinstance(row, host) else "task", row.name)
    quotas = [row for row in rows if isinstance(row, quota)]
    tables: dict[str, list[Any]] = {
        "hosts": [_host(row, rows, names) for row in rows if isinstance(row, host)],
        "waiting": [_waiting(row, names, now) for row in rows if isinstance(row, task) and not row.hosts],
        "running": [_running(row, names) for row in rows if isinstance(row, task) and row.hosts],
        "quotas": [_quota(row, names) for row in quotas],
        "claims": [_claim(row, names) for row in rows if isinstance(row, claim)],
        "reservations": [_reservation(n, r, names) for n, r in enumerate(rows) if isinstance(r, reservation)],
        "usage": [
            Usage(business=names.id("business", r.business), user=names.id("user", r.user), card_s=r.card_s)
            for r in rows
            if isinstance(r, used)
        ],
    }
    if shuffle is not None:
        for table in tables.values():
            Random(shuffle).shuffle(table)
    snapshot = Snapshot(
        now=now,
        high_unlimited=not quotas,
        type_names=names.all("type"),
        host_names=names.all("host"),
        host_remarks={names.id("host", row.name): row.remark for row in rows if isinstance(row, host)},
        business_names=names.all("business"),
        **dict[str, Any]({name: tuple(table) for name, table in tables.items()}),
    )
    return snapshot, names


def decide_on(*rows: Row, now: float = 0.0, shuffle: int | None = None, **policy: Any) -> Verdict:
    """Decide on the rows under a policy and return the plan by names."""
    snapshot, names = snapshot_of(*rows, now=now, shuffle=shuffle)
    return Verdict(decide(snapshot, policies.read(policy)), names, snapshot)


def policy(**values: Any) -> Policy:
    """Return the default policy with some keys changed."""
    return policies.read(values)


def _host(row: host, rows: tuple[Row, ...], names: Names) -> HostCards:
    taken = sum(t.hosts.get(row.name, 0) for t in rows if isinstance(t, task))
    numbers = [n for n in range(row.total) if n not in row.broken]
    return HostCards(
        host=names.id("host", row.name),
        region=names.id("region", row.region),
        gpu_type=names.id("type", row.gpu_type),
        total=len(numbers),
        free_numbers=tuple(numbers[taken:]),
        state=row.state,
        offers=row.kinds,
    )


def _types(row: task, names: Names) -> tuple[int, ...]:
    return tuple(names.id("type", name) for name in row.types.split(","))


def _owner(row: task, names: Names) -> dict[str, Any]:
    return {
        "id": names.id("task", row.name),
        "business": names.id("business", row.business),
        "user": names.id("user", row.user or row.business),
        "region": names.id("region", row.region) if row.region else None,
    }


def _waiting(row: task, names: Names, now: float) -> Waiting:
    values: dict[str, Any] = {"queued": row.values["submitted"], **row.values}
    if "avoid" in values:
        values["avoid"] = frozenset(names.id("host", name) for name in values["avoid"])
    return Waiting(
        **_owner(row, names),
        wanted=row.wanted,
        host_num=row.host_num,
        host_gpu_num=row.host_gpu_num,
        gpu_types=_types(row, names),
        **values,
    )


def _running(row: task, names: Names) -> Running:
    values: dict[str, Any] = {"started": row.values["submitted"], **row.values}
    return Running(
        **_owner(row, names),
        task_class=values.pop("task_class", "elastic" if row.wanted == "auto" else row.wanted),
        wanted=row.wanted,
        gpu_type=_types(row, names)[0],
        hosts={names.id("host", name): cards for name, cards in row.hosts.items()},
        cards=values.pop("cards", sum(row.hosts.values())),
        **values,
    )


def _quota(row: quota, names: Names) -> Quota:
    return Quota(
        business=names.id("business", row.business),
        gpu_type=names.id("type", row.gpu_type),
        region=names.id("region", row.region) if row.region else None,
        cards=row.cards,
        elastic_cards=row.elastic,
        user_elastic_cards=row.user_elastic,
    )


def _claim(row: claim, names: Names) -> Claim:
    return Claim(
        task=names.id("task", row.task),
        gpu_type=names.id("type", row.gpu_type),
        hosts={names.id("host", name): cards for name, cards in row.hosts.items()},
        **row.values,
    )


def _reservation(number: int, row: reservation, names: Names) -> Reservation:
    return Reservation(
        id=number,
        business=names.id("business", row.business),
        gpu_type=names.id("type", row.gpu_type),
        cards=row.cards,
        start=row.start,
        end=row.end,
    )
