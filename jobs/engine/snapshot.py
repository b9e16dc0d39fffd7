"""Load what a pass knows, in a fixed number of queries, as plain rows."""

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any, Literal

from django.db.models import BooleanField, ExpressionWrapper, F, FilteredRelation, Q, TextField
from django.db.models.functions import Cast

from cluster import inventory
from cluster.models import Card, Host
from jobs.engine import past_use
from jobs.engine.epoch import Epoch
from jobs.models import Attempt, Claim, Policy, Task
from jobs.scheduling import types
from jobs.scheduling.policy import read as read_policy
from jobs.states import ACTIVE, State
from quotas import windows
from quotas.models import Business, Quota, Reservation

HOUR_S = 3600
WINDOWS_AHEAD = timedelta(days=15)  # of a weekly reservation, so that there is always a next one
Gate = Literal["", "not_before", "backoff", "dependency", "hold"]
GATES: dict[str, Gate] = {State.HELD: "hold", State.BLOCKED: "dependency"}
StoredReason = tuple[str, dict[str, Any]]  # code, arguments


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """A snapshot, with what the engine needs besides to apply the plan."""

    snapshot: types.Snapshot
    stored_reasons: dict[int, StoredReason]  # waiting task → the reason it shows
    attempts: dict[int, int]  # running task → its open attempt
    states: dict[int, str]  # running task → its state


def policy() -> types.Policy:
    """Return the policy in force."""
    values = Policy.objects.filter(pk=1).values_list("values", flat=True).first()
    return read_policy(values or {})


def load(now: float, fair_half_life_s: float) -> Loaded:
    """Return the snapshot at `now` (seconds since the epoch); past use decays with the half-life."""
    # Leases before tasks: of an attempt that closes in between the cards count as taken for this pass.
    hosts, held_by = _hosts()
    waiting, reasons = _waiting(now)
    running, attempts, states = _running(held_by, now)
    named = Host.objects.exclude(state=Host.State.REMOVED).values_list("id", "name", "state_reason")
    snapshot = types.Snapshot(
        now=now,
        hosts=tuple(hosts),
        waiting=tuple(waiting),
        running=tuple(running),
        quotas=tuple(_quotas()),
        claims=tuple(_claims()),
        reservations=tuple(reservations(now, WINDOWS_AHEAD)),
        usage=tuple(past_use.read(now, fair_half_life_s)),
        type_names=inventory.type_names(),
        host_names={host: name for host, name, _remark in named},
        host_remarks={host: remark for host, _name, remark in named if remark},
        business_names=dict(Business.objects.values_list("id", "flag")),
    )
    return Loaded(snapshot=snapshot, stored_reasons=reasons, attempts=attempts, states=states)


def load_hosts(now: float) -> types.Snapshot:
    """Return only what there is and who holds it: enough to look at hosts, and cheaper than all of it."""
    hosts, held_by = _hosts()
    running, _attempts, _states = _running(held_by, now)
    return types.Snapshot(
        now=now, hosts=tuple(hosts), running=tuple(running), claims=tuple(_claims()), high_unlimited=True
    )


Key = tuple[int, int]  # host, type
HeldBy = dict[int, dict[int, int]]  # attempt → host → good cards that it holds there


def _hosts() -> tuple[list[types.HostCards], HeldBy]:
    """Return what each host has of each type, and what the attempts hold of it."""
    total: dict[Key, int] = {}
    free: dict[Key, list[int]] = defaultdict(list)
    held_by: HeldBy = defaultdict(dict)
    ok = Card.State.OK.value
    for host, gpu_type, number, state, gang in _cards():
        key = (host, gpu_type)
        good = state == ok
        total[key] = total.get(key, 0) + good
        if gang is not None:
            held = held_by[gang]
            held[host] = held.get(host, 0) + good
        elif good:
            free[key].append(number)
    return list(_host_cards(total, free)), held_by


def _cards() -> Iterable[tuple[int, int, int, str, int | None]]:
    """Give each card's host, type, number and state, and the gang that it is leased to, if it is."""
    lease = FilteredRelation("leases", condition=Q(leases__released_at__isnull=True))
    rows = Card.objects.exclude(host__state=Host.State.REMOVED).annotate(lease=lease).order_by()
    return rows.values_list("host_id", "gpu_type_id", "index", "state", "lease__gang")


def _host_cards(total: Mapping[Key, int], free: Mapping[Key, list[int]]) -> Iterable[types.HostCards]:
    lost = ExpressionWrapper(Q(lost_since__isnull=False), BooleanField())
    rows = Host.objects.exclude(state=Host.State.REMOVED).order_by()
    facts = {pk: rest for pk, *rest in rows.values_list("id", "region_id", "state", lost, _text("offers"))}
    offered = cache(lambda text: frozenset(json.loads(text)))
    for key, number in total.items():
        host, gpu_type = key
        if host not in facts:
            continue  # removed since the cards were read
        region, state, is_lost, offers = facts[host]
        yield types.HostCards(
            host=host,
            region=region,
            gpu_type=gpu_type,
            total=number,
            free_numbers=tuple(sorted(free.get(key, ()))),
            state="lost" if is_lost else state,
            offers=offered(offers),
        )


def _waiting(now: float) -> tuple[list[types.Waiting], dict[int, StoredReason]]:
    rows = Task.objects.waiting().order_by().values_list(
        "id",
        "business_id",
        "user_id",
        "wanted_class",
        "host_num",
        "host_gpu_num",
        _text("gpu_types"),
        "region_id",
        "needs",
        "priority",
        Epoch(F("submitted_at")),
        Epoch(F("queued_at")),
        Epoch(F("ready_at")),
        "time_limit_s",
        _text("avoid_hosts"),
        "state",
        "pull_up",
        "checkpoint_interval_s",
        "reason_code",
        _text("reason_args"),
    )  # fmt: skip
    # Tasks of one shape say the same: each text is read once.
    ids, parse = cache(lambda text: tuple(json.loads(text))), cache(json.loads)
    tasks, reasons = [], {}
    for *facts, code, args in rows:
        task = _waiting_task(facts, now, ids)
        tasks.append(task)
        reasons[task.id] = (code, parse(args))
    return tasks, reasons


def _text(name: str) -> Cast:
    """Read a JSON column as the text that it is: most rows have one of a few."""
    return Cast(name, TextField())


def _waiting_task(facts: Sequence[Any], now: float, ids: Callable[[str], tuple[int, ...]]) -> types.Waiting:
    (
        pk, business, user, wanted, host_num, host_gpu_num, gpu_types, region, needs, priority,
        submitted, queued, ready_at, time_limit, avoid, state, pull_up, checkpoint_s,
    ) = facts  # fmt: skip
    ready_at = ready_at or 0.0
    late: Gate = "backoff" if queued > submitted + 0.5 else "not_before"
    return types.Waiting(
        id=pk,
        business=business,
        user=user,
        wanted=wanted,
        host_num=host_num,
        host_gpu_num=host_gpu_num,
        gpu_types=ids(gpu_types),
        region=region,
        needs=needs,
        priority=priority,
        submitted=submitted,
        queued=queued,
        ready_at=ready_at,
        gate=GATES.get(state) or (late if ready_at > now else ""),
        time_limit=time_limit,
        avoid=frozenset(ids(avoid)),
        pull_up=pull_up,
        checkpoint_s=checkpoint_s,
    )


def _running(held_by: HeldBy, now: float) -> tuple[list[types.Running], dict[int, int], dict[int, str]]:
    evictions = _evictions(now)
    rows = Attempt.objects.filter(ended_at=None, task__state__in=ACTIVE).order_by().values_list(
        "task_id",
        "task__business_id",
        "task__user_id",
        "task_class",
        "task__wanted_class",
        "gpu_type_id",
        "cards",
        Epoch(F("task__submitted_at")),
        Epoch(F("created_at")),
        "task__region_id",
        "task__priority",
        "task__time_limit_s",
        "task__checkpoint_interval_s",
        "task__pull_up",
        "evicted_for_id",
        Epoch(F("ending_at")),
        "task__state",
        "id",
    )  # fmt: skip
    tasks, attempts, states = [], {}, {}
    for *facts, state, attempt in rows:
        task = _running_task(facts, state, held_by.get(attempt, {}), evictions)
        tasks.append(task)
        attempts[task.id] = attempt
        states[task.id] = state
    return tasks, attempts, states


def _running_task(
    facts: Sequence[Any], state: str, hosts: Mapping[int, int], evictions: Mapping[int, list[float]]
) -> types.Running:
    (
        pk, business, user, task_class, wanted, gpu_type, cards, submitted, started,
        region, priority, time_limit, checkpoint_s, pull_up, evicted_for, leaving_since,
    ) = facts  # fmt: skip
    return types.Running(
        id=pk,
        business=business,
        user=user,
        task_class=task_class,
        wanted=wanted,
        gpu_type=gpu_type,
        hosts=hosts,
        cards=cards,
        submitted=submitted,
        started=started,
        region=region,
        priority=priority,
        time_limit=time_limit,
        checkpoint_s=checkpoint_s,
        pull_up=pull_up,
        leaving_since=leaving_since,
        keeping=state == State.KEEPING,
        evicted_for=evicted_for,
        evictions=tuple(evictions.get(pk, ())),
    )


def _evictions(now: float) -> dict[int, list[float]]:
    """Return the times of the last hour's evictions of every task that has not ended."""
    found: dict[int, list[float]] = defaultdict(list)
    since = datetime.fromtimestamp(now - HOUR_S, tz=UTC)
    rows = Attempt.objects.filter(outcome=Attempt.Outcome.EVICTED, ended_at__gt=since, task__state__in=ACTIVE)
    for task, ended in rows.order_by("id").values_list("task_id", Epoch(F("ended_at"))):
        found[task].append(ended)
    return found


def _quotas() -> Iterable[types.Quota]:
    rows = Quota.objects.order_by("id").values_list(
        "business_id", "gpu_type_id", "region_id", "cards", "elastic_cards", "user_elastic_cards"
    )
    for business, gpu_type, region, cards, elastic_cards, user_elastic_cards in rows:
        yield types.Quota(
            business=business,
            gpu_type=gpu_type,
            region=region,
            cards=cards,
            elastic_cards=elastic_cards,
            user_elastic_cards=user_elastic_cards,
        )


def reservations(since: float, length: timedelta) -> Iterable[types.Reservation]:
    """Write recurring reservations out, window by window: those that hold at any time of so long a span."""
    begin = datetime.fromtimestamp(since, tz=UTC)
    for row in Reservation.objects.order_by("id"):
        for start, end in windows.windows(row.rule, begin, begin + length):
            yield types.Reservation(
                id=row.pk,
                business=row.business_id,
                gpu_type=row.gpu_type_id,
                region=row.region_id,
                cards=row.cards,
                start=start.timestamp(),
                end=end.timestamp(),
            )


def _claims() -> Iterable[types.Claim]:
    rows = Claim.objects.values_list(
        "task_id", "gpu_type_id", "task_class", "hosts", Epoch(F("made_at")), Epoch(F("last_term_at"))
    )
    for task, gpu_type, task_class, hosts, made_at, last_term_at in rows:
        yield types.Claim(
            task=task,
            gpu_type=gpu_type,
            task_class=task_class,
            hosts={int(host): cards for host, cards in hosts.items()},
            made_at=made_at,
            last_term_at=last_term_at,
        )
