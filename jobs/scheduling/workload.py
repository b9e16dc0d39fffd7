"""What a simulation works on: hosts, quotas and jobs, read from rows of tables or from a scenario."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from jobs.scheduling import policy as policies
from jobs.scheduling.reasons import Reason
from jobs.scheduling.types import HostCards, Policy, Quota, Reservation, TaskClass

CLASSES = ("high", "elastic", "auto")
PRIORITIES = {"low": 0, "medium": 1, "high": 2}
HOST_STATES = ("ready", "cordoned", "draining", "lost", "removed")
CARD_STATES = ("ok", "broken", "external")
OUTCOMES = ("failed", "succeeded")


@dataclass(slots=True, kw_only=True)
class Attempt:
    """One run of a job."""

    started: float
    cards: dict[int, tuple[int, ...]]  # host → numbers
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


def number(value: Any, what: str) -> float:
    """Return a number, whole where it is one; ValueError names what it should have been."""
    try:
        found = float(value)
    except (TypeError, ValueError):
        raise ValueError(f"{what} is a number, not {value!r}") from None
    return int(found) if found == int(found) else found


def whole(value: Any, what: str, least: int = 0) -> int:
    """Return a whole number, `least` or more."""
    found = number(value, what)
    if found != int(found) or found < least:
        raise ValueError(f"{what} is a whole number, {least} or more, not {value!r}")
    return int(found)


def one_of(value: Any, choices: Iterable[str], what: str) -> str:
    """Return one of the choices."""
    if value not in choices:
        raise ValueError(f"{what} is one of {', '.join(choices)}, not {value!r}")
    return str(value)


class Names:
    """Gives the names of one kind their ids, in the order in which they come."""

    def __init__(self) -> None:
        self.ids: dict[str, int] = {}
        self.names: dict[int, str] = {}

    def id(self, name: Any) -> int:
        """Return the id of a name; case does not matter."""
        text = str(name or "").strip()
        found = self.ids.setdefault(text.casefold(), len(self.ids) + 1)
        self.names.setdefault(found, text)
        return found

    def known(self, name: Any, what: str) -> int:
        """Return the id of a name that was there before."""
        found = self.ids.get(str(name or "").strip().casefold())
        if found is None:
            raise ValueError(f"there is no {what} {name!r}")
        return found


class Reader:
    """Reads rows of hosts, quotas, jobs and events, each a mapping of column to value, into a setup."""

    def __init__(self, hosts: Iterable[Mapping[str, Any]]) -> None:
        self.regions, self.types, self.businesses, self.users = Names(), Names(), Names(), Names()
        self.hosts, self.jobs = Names(), Names()
        self.offset: dict[int, int] = {}
        self.rows = tuple(self._host(row) for row in hosts)
        self.any_type = tuple(t for _, t in sorted((self.types.names[t], t) for t in self.types.names))
        self.quotas: list[Quota] = []
        self.events: list[tuple[float, str, Any]] = []
        self.reservations = 0

    def setup(self, policy: Policy, until: float | None = None) -> Setup:
        """Return what was read, the events by time and then in the order in which they stood."""
        given = [*self.quotas, *(what for _, kind, what in self.events if kind == "quota")]
        return Setup(
            hosts=self.rows,
            quotas=tuple(self.quotas),
            policy=policy,
            events=sorted(self.events, key=lambda event: event[0]),
            until=until,
            capped=any(q.elastic_cards is not None or q.user_elastic_cards is not None for q in given),
            type_names=self.types.names,
            host_names=self.hosts.names,
            business_names=self.businesses.names,
        )

    def _host(self, row: Mapping[str, Any]) -> HostCards:
        host = self.hosts.id(row["host"])
        cards = whole(row["gpu_num"], "gpu_num")
        first = self.offset.get(host, 0)
        self.offset[host] = first + cards
        return HostCards(
            host=host,
            region=self.regions.id(row.get("region")),
            gpu_type=self.types.id(row.get("gpu_type")),
            total=cards,
            free_numbers=tuple(range(first, first + cards)),
        )

    def quota(self, row: Mapping[str, Any]) -> Quota:
        """Return a quota row; without a region it is for all regions."""
        caps = {key: row.get(key) for key in ("elastic_cards", "user_elastic_cards")}
        return Quota(
            business=self.businesses.id(row["business"]),
            gpu_type=self.types.id(row.get("gpu_type")),
            region=self.regions.id(row["region"]) if row.get("region") else None,
            cards=whole(row["cards"], "cards"),
            **{key: None if cap in (None, "") else whole(cap, key) for key, cap in caps.items()},
        )

    def wanted_types(self, text: Any) -> tuple[int, ...]:
        """Return the types a job names, in its order; a full-width comma or a trailing one does no harm."""
        names = str(text or "").replace("，", ",").split(",")
        return tuple(dict.fromkeys(self.types.id(name) for name in names if name.strip()))

    def job(self, row: Mapping[str, Any], at: float, task_class: str) -> Job:
        """Return a job of a scenario's or a table's columns, submitted at `at`."""
        types = self.wanted_types(row.get("gpu_type"))
        business = str(row.get("business") or "")
        limit = row.get("time_limit_s")
        name = str(row["id"])
        if name.casefold() in self.jobs.ids:
            raise ValueError(f"two tasks are called {name!r}")
        exit_s, restart_s, checkpoint_s = (
            number(row.get(key) or 0, key) for key in ("exit_s", "restart_s", "checkpoint_s")
        )
        return Job(
            id=self.jobs.id(name),
            name=name,
            business=self.businesses.id(business),
            user=self.users.id(f"{business}/{row.get('user') or ''}"),
            wanted=one_of(task_class, CLASSES, "class"),  # type: ignore[arg-type]  # checked by one_of
            host_num=whole(row.get("host_num", 1), "host_num", 1),
            host_gpu_num=whole(row.get("host_gpu_num", 1), "host_gpu_num", 1),
            gpu_types=types or self.any_type,
            any_type=not types,
            region=self.regions.id(row["region"]) if row.get("region") else None,
            priority=PRIORITIES[one_of(row.get("priority") or "medium", PRIORITIES, "priority")],
            submitted=at,
            duration=number(row["duration_s"], "duration_s"),
            time_limit=None if limit in (None, "") else number(limit, "time_limit_s"),
            pull_up=bool(row.get("pull_up", False)),
            retry_limit=whole(row.get("retry_limit") or 0, "retry_limit"),
            exit_s=exit_s,
            restart_s=restart_s,
            checkpoint_s=checkpoint_s,
        )

    # Events of a scenario

    def event(self, row: Mapping[str, Any]) -> tuple[float, str, Any]:
        """Return one event of a scenario: {at, KIND: {…}}."""
        at = number(row.get("at"), "at")
        kinds = {key: what for key, what in row.items() if key != "at"}
        if len(kinds) != 1:
            raise ValueError(f"an event has a time and one thing that happens, not {sorted(kinds)}")
        [(kind, what)] = kinds.items()
        readers: dict[str, Callable[[], Any]] = {
            "submit": lambda: self.job(what, at, what.get("class", "elastic")),
            "stop": lambda: self.jobs.known(what["task"], "task"),
            "host": lambda: (
                self.hosts.known(what["host"], "host"),
                one_of(what["state"], HOST_STATES, "state"),
            ),
            "quota": lambda: self.quota(what),
            "card": lambda: (
                self.hosts.known(what["host"], "host"),
                whole(what["index"], "index"),
                one_of(what["state"], CARD_STATES, "state"),
            ),
            "reservation": lambda: self._reservation(what),
            "report": lambda: self._report(what),
        }
        one_of(kind, readers, "what happens")
        return at, kind, readers[kind]()

    def _reservation(self, what: Mapping[str, Any]) -> Reservation:
        self.reservations += 1
        return Reservation(
            id=self.reservations,
            business=self.businesses.id(what["business"]),
            gpu_type=self.types.id(what.get("gpu_type")),
            region=self.regions.id(what["region"]) if what.get("region") else None,
            cards=whole(what["cards"], "cards"),
            start=number(what.get("from_s", float("-inf")), "from_s"),
            end=number(what.get("to_s", float("inf")), "to_s"),
        )

    def _report(self, what: Mapping[str, Any]) -> dict[str, Any]:
        return {
            "task": self.jobs.known(what["task"], "task"),
            "attempt": whole(what.get("attempt", 1), "attempt", 1),
            "host": self.hosts.known(what["host"], "host"),
            "outcome": one_of(what["outcome"], OUTCOMES, "outcome"),
        }


def read_scenario(document: Mapping[str, Any]) -> Setup:
    """Return the setup of a scenario document; ValueError or KeyError says what is wrong with it."""
    unknown = set(document) - {"hosts", "quotas", "policy", "until", "events", "about", "expect"}
    if unknown:
        raise ValueError(f"a scenario has no {', '.join(sorted(unknown))}")
    reader = Reader(document.get("hosts") or ())
    reader.quotas = [reader.quota(row) for row in document.get("quotas") or ()]
    events = document.get("events") or ()
    for row in events:
        reader.events.append(reader.event(row))
    until = document.get("until")
    return reader.setup(
        policies.read(document.get("policy") or {}), None if until is None else number(until, "until")
    )


def read_tables(
    hosts: Iterable[Mapping[str, str]],
    jobs: Iterable[Mapping[str, str]],
    quotas: Iterable[Mapping[str, str]],
    policy: Policy,
    *,
    default_class: str = "elastic",
    class_map: Mapping[str, str] | None = None,
    limit_factor: float | None = None,
) -> Setup:
    """Return the setup of recorded tables; a blank class is `default_class`, a limit is times a duration."""
    reader = Reader(hosts)
    reader.quotas = [reader.quota(row) for row in quotas]
    for row in jobs:
        at = number(row["submit_s"], "submit_s")
        named = row.get("priority_class") or default_class
        columns = {
            **{key: row.get(key) for key in ("user", "host_num", "host_gpu_num", "gpu_type", "duration_s")},
            "id": row["job_id"],
            "business": row.get("group"),
        }
        if limit_factor is not None:
            columns["time_limit_s"] = str(limit_factor * number(row["duration_s"], "duration_s"))
        reader.events.append((at, "submit", reader.job(columns, at, (class_map or {}).get(named, named))))
    return reader.setup(policy)
