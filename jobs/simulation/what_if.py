"""A change of quotas, policy or hosts, and the same work simulated without it and with it."""

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from jobs.scheduling import policy as policies
from jobs.scheduling.types import HostCards, Plan, Quota
from jobs.simulation.figures import summary
from jobs.simulation.job import Job, Setup
from jobs.simulation.simulate import Simulator
from jobs.simulation.timeline import Timeline, timeline

SPANS = 120  # of the course of a simulation
NEW_HOSTS = 1 << 40  # ids of hosts that are not there: above all that are
SUMMARY = ("tasks", "finished", "p50_wait_s", "p95_wait_s", "evictions", "lost_card_s", "card_utilisation")
Tell = Callable[[float], None]  # the share that is done, from 0 to 1; it raises to break off


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaChange:
    """So many cards for high tasks in place of what the quota says."""

    business: int
    gpu_type: int
    region: int | None
    cards: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NewHosts:
    """Hosts that are to be bought."""

    region: int
    gpu_type: int
    hosts: int
    cards: int  # on each


@dataclass(frozen=True, slots=True, kw_only=True)
class HostChange:
    """A host that is taken out, for good or for a while."""

    host: int
    verb: Literal["cordon", "remove"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """All that is to be different."""

    quotas: tuple[QuotaChange, ...] = ()
    policy: Mapping[str, str | float | None] = field(default_factory=dict)  # None: the default
    added: tuple[NewHosts, ...] = ()
    hosts: tuple[HostChange, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.quotas or self.policy or self.added or self.hosts)


def to_json(change: Change) -> dict[str, Any]:
    """Return the change as it is kept."""
    return dataclasses.asdict(change)


def from_json(kept: Mapping[str, Any]) -> Change:
    """Return a change that was kept."""
    return Change(
        quotas=tuple(QuotaChange(**row) for row in kept["quotas"]),
        policy=kept["policy"],
        added=tuple(NewHosts(**row) for row in kept["added"]),
        hosts=tuple(HostChange(**row) for row in kept["hosts"]),
    )


def changed(setup: Setup, change: Change) -> Setup:
    """Return the setup as it would be with the change."""
    defaults = {key: getattr(policies.read({}), key) for key in change.policy}
    values = {key: defaults[key] if value is None else value for key, value in change.policy.items()}
    return dataclasses.replace(
        setup,
        policy=policies.read({**dataclasses.asdict(setup.policy), **values}),
        quotas=tuple(_quotas(setup.quotas, change.quotas)),
        hosts=(*_hosts(setup.hosts, change.hosts), *_added(change.added)),
        host_names={
            **setup.host_names,
            **{row.host: f"+{row.host - NEW_HOSTS + 1}" for row in _added(change.added)},
        },
    )


def _quotas(quotas: Iterable[Quota], changes: Iterable[QuotaChange]) -> Iterator[Quota]:
    wanted = {(row.business, row.gpu_type, row.region): row.cards for row in changes}
    for row in quotas:
        cards = wanted.pop((row.business, row.gpu_type, row.region), row.cards)
        yield dataclasses.replace(row, cards=cards)
    for (business, gpu_type, region), cards in wanted.items():
        yield Quota(business=business, gpu_type=gpu_type, region=region, cards=cards)


def _hosts(hosts: Iterable[HostCards], changes: Iterable[HostChange]) -> Iterator[HostCards]:
    verbs = {row.host: row.verb for row in changes}
    for row in hosts:
        verb = verbs.get(row.host)
        if verb is None:
            yield row
        elif verb == "cordon":
            yield dataclasses.replace(row, state="cordoned")


def _added(added: Iterable[NewHosts]) -> Iterator[HostCards]:
    host = NEW_HOSTS
    for row in added:
        for _ in range(row.hosts):
            yield HostCards(
                host=host,
                region=row.region,
                gpu_type=row.gpu_type,
                total=row.cards,
                free_numbers=tuple(range(row.cards)),
                offers=frozenset({"process", "container", "ceph"}),
            )
            host += 1


def compare(before: Setup, after: Setup, tell: Tell = lambda _share: None) -> dict[str, Any]:
    """Simulate both and return {"before": figures, "after": figures}; each setup has jobs of its own."""
    first = _simulated(before, lambda share: tell(share / 2))
    second = _simulated(after, lambda share: tell(0.5 + share / 2))
    # Both are looked at up to the same time, so that their courses can be laid beside each other.
    first.now = second.now = max(first.now, second.now)
    return {"before": figures(first), "after": figures(second)}


def _simulated(setup: Setup, tell: Tell) -> Simulator:
    total = sum(kind == "submit" for _, kind, _ in setup.events) or 1
    done = 0

    def watch(simulator: Simulator, _: Plan) -> None:
        nonlocal done
        done = max(done, simulator.over)  # who starts in this pass is counted as over for a moment less
        tell(done / total)

    simulator = Simulator(setup, watch=watch)
    simulator.run()
    return simulator


def figures(simulator: Simulator) -> dict[str, Any]:
    """Return what is compared: the whole, each business and class, and the course."""
    jobs = [simulator.jobs[job_id] for job_id in sorted(simulator.jobs)]
    return {
        "summary": _short(simulator, jobs),
        "rows": list(_rows(simulator, jobs)),
        "course": _course(timeline(simulator, SPANS)),
    }


def _rows(simulator: Simulator, jobs: Iterable[Job]) -> Iterator[dict[str, Any]]:
    parts: dict[tuple[str, str], list[Job]] = {}
    names = simulator.setup.business_names
    for job in jobs:
        parts.setdefault((names[job.business], job.wanted), []).append(job)
    for business, task_class in sorted(parts):
        yield {"business": business, "class": task_class, **_short(simulator, parts[business, task_class])}


def _short(simulator: Simulator, jobs: list[Job]) -> dict[str, Any]:
    found = summary(simulator, jobs)
    used = sum(
        job.cards * ((simulator.now if run.ended is None else run.ended) - run.started)
        for job in jobs
        for run in job.attempts
    )
    return {**{name: found[name] for name in SUMMARY}, "card_s": used}


def _course(course: Timeline) -> dict[str, Any]:
    return {
        "span": course.span,
        "capacity": course.capacity,
        "high": [round(value, 2) for value in course.high],
        "elastic": [round(value, 2) for value in course.elastic],
        "waiting": [round(value, 2) for value in course.waiting],
    }
