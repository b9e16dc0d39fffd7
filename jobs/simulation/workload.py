"""Read what a simulation works on, hosts, quotas and jobs, from rows of tables or from a scenario."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from jobs.scheduling import policy as policies
from jobs.scheduling.types import HostCards, Policy, Quota, Reservation
from jobs.simulation.job import Job, Setup

CLASSES = ("high", "elastic", "auto")
PRIORITIES = {"low": 0, "medium": 1, "high": 2}
HOST_STATES = ("ready", "cordoned", "draining", "lost", "removed")
CARD_STATES = ("ok", "broken", "external")
OUTCOMES = ("failed", "succeeded")
MOST = 1e12  # of any number: as seconds some 30,000 years, and sums of them are exact to the millisecond
MOST_CARDS = 1_000_000  # of one host
# What a job of a table may also say, in a column of its own or for every job at once.
MORE_OF_A_JOB = (
    "priority",
    "region",
    "pull_up",
    "retry_limit",
    "time_limit_s",
    "exit_s",
    "restart_s",
    "checkpoint_s",
)
SUBMIT_KEYS = ("id", "business", "user", "class", "host_num", "host_gpu_num", "gpu_type", "duration_s")
HOST_KEYS = ("host", "region", "gpu_type", "gpu_num")
QUOTA_KEYS = ("business", "gpu_type", "region", "cards", "elastic_cards", "user_elastic_cards")
EVENT_KEYS = {
    "submit": (*SUBMIT_KEYS, *MORE_OF_A_JOB),
    "stop": ("task",),
    "host": ("host", "state"),
    "quota": QUOTA_KEYS,
    "card": ("host", "index", "state"),
    "reservation": ("business", "gpu_type", "region", "cards", "from_s", "to_s"),
    "report": ("task", "attempt", "host", "outcome"),
}
SCENARIO_KEYS = ("hosts", "quotas", "policy", "until", "events", "about", "expect")


def number(value: Any, what: str) -> float:
    """Return a finite number, 0 or more, whole where it is one; ValueError names what it should have been."""
    try:
        found = float(value)
    except (TypeError, ValueError):
        raise ValueError(f"{what} is a number, not {value!r}") from None
    except OverflowError:  # a whole number of hundreds of digits
        found = float("inf")
    if not 0 <= found < float("inf"):
        raise ValueError(f"{what} is a number, 0 or more, not {value!r}")
    if found > MOST:
        raise ValueError(f"{what} is a number, {MOST:g} at most, not {value!r}")
    return int(found) if found == int(found) else found


def whole(value: Any, what: str, least: int = 0) -> int:
    """Return a whole number, `least` or more."""
    found = number(value, what)
    if found != int(found) or found < least:
        raise ValueError(f"{what} is a whole number, {least} or more, not {value!r}")
    return int(found)


def truth(value: Any, what: str) -> bool:
    """Return a yes or no, a word of it or the thing itself; ValueError says which words there are."""
    word = str(value).strip().lower()
    if word not in ("true", "false"):
        raise ValueError(f"{what} is true or false, not {value!r}")
    return word == "true"


def one_of(value: Any, choices: Iterable[str], what: str) -> str:
    """Return one of the choices."""
    known = tuple(choices)  # a list or a mapping in its place is none of them, but cannot be looked up
    if value not in known:
        raise ValueError(f"{what} is one of {', '.join(known)}, not {value!r}")
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

    def __init__(self) -> None:
        self.regions, self.types, self.businesses, self.users = Names(), Names(), Names(), Names()
        self.hosts, self.jobs = Names(), Names()
        self.rows: list[HostCards] = []
        self.rows_by_host: dict[int, list[HostCards]] = defaultdict(list)
        self.any_type: tuple[int, ...] = ()
        self.quotas: list[Quota] = []
        self.events: list[tuple[float, str, Any]] = []
        self.reservations = 0
        self.place = ""  # of the row that is being read

    def rows_of(self, what: str, rows: Any, keys: tuple[str, ...] = ()) -> Iterator[Mapping[str, Any]]:
        """Give the rows, and note the place of each for whoever finds a fault in it.

        They have no other values than `keys`; none: a table may have columns of its own.
        """
        if isinstance(rows, (str, Mapping)) or not isinstance(rows, Iterable):
            raise ValueError(f"{what} is a list of rows, not {rows!r}")
        for place, row in enumerate(rows, 1):
            self.place = f"{what}, row {place}: "
            if not isinstance(row, Mapping):
                raise ValueError(
                    f"a row names its values, as in {{host: h1, gpu_num: 8}}; this one is {row!r}"
                )
            for key in row if keys else ():
                one_of(key, keys, f"a value of {what}")
            yield row
        self.place = ""

    @contextmanager
    def telling(self) -> Iterator[None]:
        """Let a ValueError say in which row the fault is."""
        try:
            yield
        except KeyError as error:
            raise ValueError(f"{self.place}{error.args[0]} is missing") from error
        except ValueError as error:
            raise ValueError(f"{self.place}{error}") from error

    def add_hosts(self, rows: Any, keys: tuple[str, ...] = ()) -> None:
        """Read the hosts; they go before jobs, whose types may be any that there are."""
        self.rows += [self._host(row) for row in self.rows_of("hosts", rows, keys)]
        self.any_type = tuple(t for _, t in sorted((self.types.names[t], t) for t in self.types.names))

    def add_quotas(self, rows: Any, keys: tuple[str, ...] = ()) -> None:
        """Read the quotas."""
        seen: set[tuple[int, int, int | None]] = set()
        for row in self.rows_of("quotas", rows, keys):
            quota = self.quota(row)
            key = (quota.business, quota.gpu_type, quota.region)
            if key in seen:
                raise ValueError(f"business {row['business']!r} has two quotas of this type and region")
            seen.add(key)
            self.quotas.append(quota)

    def setup(self, policy: Policy, until: float | None = None) -> Setup:
        """Return what was read, the events by time and then in the order in which they stood."""
        given = [*self.quotas, *(what for _, kind, what in self.events if kind == "quota")]
        return Setup(
            hosts=tuple(self.rows),
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
        if cards > MOST_CARDS:
            raise ValueError(f"gpu_num is {MOST_CARDS} at most, not {row['gpu_num']!r}")
        region, gpu_type = self.regions.id(row.get("region")), self.types.id(row.get("gpu_type"))
        for other in self.rows_by_host[host]:
            if other.gpu_type == gpu_type:
                raise ValueError(f"host {row['host']!r} is there twice; a row for each of its GPU types")
            if other.region != region:
                raise ValueError(f"host {row['host']!r} stands in two regions; a host stands in one")
        first = sum(other.total for other in self.rows_by_host[host])
        found = HostCards(
            host=host,
            region=region,
            gpu_type=gpu_type,
            total=cards,
            free_numbers=tuple(range(first, first + cards)),
        )
        self.rows_by_host[host].append(found)
        return found

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
        name = str(row["id"]).strip()  # as Names takes them
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
            any_type=not types and len(self.any_type) > 1,  # of one type there is nothing to choose
            region=self.regions.id(row["region"]) if row.get("region") else None,
            priority=PRIORITIES[one_of(row.get("priority") or "medium", PRIORITIES, "priority")],
            submitted=at,
            duration=number(row["duration_s"], "duration_s"),
            time_limit=None if limit in (None, "") else number(limit, "time_limit_s"),
            pull_up=truth(row.get("pull_up") or False, "pull_up"),
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
            raise ValueError(f"an event has a time and one thing that happens, not {sorted(map(str, kinds))}")
        [(kind, what)] = kinds.items()
        one_of(kind, EVENT_KEYS, "what happens")
        if not isinstance(what, Mapping):
            raise ValueError(f"{kind} names its values ({', '.join(EVENT_KEYS[kind])}), not {what!r}")
        for key in what:
            one_of(key, EVENT_KEYS[kind], f"a value of {kind}")
        return at, kind, self._what(kind, what, at)

    def _what(self, kind: str, what: Mapping[str, Any], at: float) -> Any:
        match kind:
            case "submit":
                return self.job(what, at, what.get("class", "elastic"))
            case "stop":
                return self.jobs.known(what["task"], "task")
            case "host":
                return self.hosts.known(what["host"], "host"), one_of(what["state"], HOST_STATES, "state")
            case "quota":
                return self.quota(what)
            case "card":
                return self._card(what)
            case "reservation":
                return self._reservation(what)
        return self._report(what)

    def _card(self, what: Mapping[str, Any]) -> tuple[int, int, str]:
        state = one_of(what["state"], CARD_STATES, "state")
        host, index = self.hosts.known(what["host"], "host"), whole(what["index"], "index")
        cards = sum(row.total for row in self.rows_by_host[host])
        if index >= cards:
            raise ValueError(f"host {what['host']!r} has {cards} cards, from 0 on: there is no card {index}")
        return host, index, state

    def _reservation(self, what: Mapping[str, Any]) -> Reservation:
        self.reservations += 1
        start = number(what["from_s"], "from_s") if "from_s" in what else float("-inf")
        end = number(what["to_s"], "to_s") if "to_s" in what else float("inf")
        if end <= start:
            raise ValueError(
                f"to_s comes after from_s: {what['to_s']!r} does not come after {what['from_s']!r}"
            )
        return Reservation(
            id=self.reservations,
            business=self.businesses.id(what["business"]),
            gpu_type=self.types.id(what.get("gpu_type")),
            region=self.regions.id(what["region"]) if what.get("region") else None,
            cards=whole(what["cards"], "cards"),
            start=start,
            end=end,
        )

    def _report(self, what: Mapping[str, Any]) -> dict[str, Any]:
        return {
            "task": self.jobs.known(what["task"], "task"),
            "attempt": whole(what.get("attempt", 1), "attempt", 1),
            "host": self.hosts.known(what["host"], "host"),
            "outcome": one_of(what["outcome"], OUTCOMES, "outcome"),
        }


def read_scenario(document: Mapping[str, Any]) -> Setup:
    """Return the setup of a scenario document; ValueError says what is wrong with it, and where."""
    for key in document:
        one_of(key, SCENARIO_KEYS, "a scenario's key")
    reader = Reader()
    with reader.telling():
        reader.add_hosts(document.get("hosts") or (), HOST_KEYS)
        reader.add_quotas(document.get("quotas") or (), QUOTA_KEYS)
        reader.events += [reader.event(row) for row in reader.rows_of("events", document.get("events") or ())]
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
    every_job: Mapping[str, str] | None = None,
) -> Setup:
    """Return the setup of recorded tables; ValueError says what is wrong with them, and where.

    A blank class is `default_class`, a limit is so many times a duration. `every_job` holds for the jobs
    whose own columns do not say it (MORE_OF_A_JOB).
    """
    for key in every_job or ():
        one_of(key, MORE_OF_A_JOB, "what every job has")
    reader = Reader()
    with reader.telling():
        reader.add_hosts(hosts)
        reader.add_quotas(quotas)
        for row in reader.rows_of("jobs", jobs):
            at = number(row["submit_s"], "submit_s")
            named = row.get("priority_class") or default_class
            columns = _columns(row, every_job or {}, limit_factor)
            job = reader.job(columns, at, (class_map or {}).get(named, named))
            reader.events.append((at, "submit", job))
    return reader.setup(policy)


def _columns(
    row: Mapping[str, str], every_job: Mapping[str, str], limit_factor: float | None
) -> dict[str, Any]:
    """Return the row of a table as a scenario would submit it."""
    columns: dict[str, Any] = {
        **every_job,
        **{key: row[key] for key in MORE_OF_A_JOB if row.get(key)},
        **{key: row.get(key) for key in ("user", "host_num", "host_gpu_num", "gpu_type", "duration_s")},
        "id": row["job_id"],
        "business": row.get("group"),
    }
    if limit_factor is not None:
        columns["time_limit_s"] = limit_factor * number(row["duration_s"], "duration_s")
    return columns
