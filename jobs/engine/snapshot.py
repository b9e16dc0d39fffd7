"""Load what a pass knows, in a fixed number of queries, as plain rows."""

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from math import log
from typing import Any

from django.db.models import BooleanField, ExpressionWrapper, F, FloatField, Q, Sum, TextField
from django.db.models.functions import Cast, Exp

from cluster.models import Card, CardLease, GpuType, Host, Region
from jobs.engine.epoch import Epoch
from jobs.models import Attempt, Claim, Policy, Task, TaskClass
from jobs.scheduling import types
from jobs.scheduling.policy import read as read_policy
from jobs.states import ACTIVE, State
from quotas import windows
from quotas.models import Business, Quota, Reservation, UsageRow

HOUR_S = 3600
WINDOWS_AHEAD = timedelta(days=15)  # of a weekly reservation, so that there is always a next one
HALF_LIVES = 10  # use older than so many half-lives is not looked at
GATES = {State.HELD: "hold", State.BLOCKED: "dependency"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """A snapshot, with what the engine needs besides to apply the plan."""

    snapshot: types.Snapshot
    stored_reasons: dict[int, tuple[str, dict[str, Any]]]  # waiting task → the reason it shows
    attempts: dict[int, int]  # running task → its open attempt
    states: dict[int, str]  # running task → its state


def policy() -> types.Policy:
    """Return the policy in force."""
    values = Policy.objects.filter(pk=1).values_list("values", flat=True).first()
    return read_policy(values or {})


def load(now: float, fair_half_life_s: float) -> Loaded:
    """Return the snapshot at `now` (seconds since the epoch); past use decays with the half-life."""
    # Leases before tasks: of an attempt that closes in between the cards count as taken for this pass.
    cards = _cards()
    leased, held_by = _leases(cards)
    waiting, reasons = _waiting(now)
    running, attempts, states = _running(held_by, now)
    snapshot = types.Snapshot(
        now=now,
        hosts=tuple(_hosts(cards, leased)),
        waiting=tuple(waiting),
        running=tuple(running),
        quotas=tuple(_quotas()),
        claims=tuple(_claims()),
        reservations=tuple(_reservations(now)),
        usage=tuple(_usage(now, fair_half_life_s)),
        type_names=dict(GpuType.objects.values_list("id", "name")),
        host_names=dict(Host.objects.exclude(state=Host.State.REMOVED).values_list("id", "name")),
        business_names=dict(Business.objects.values_list("id", "flag")),
        region_names=dict(Region.objects.values_list("id", "name")),
    )
    return Loaded(snapshot=snapshot, stored_reasons=reasons, attempts=attempts, states=states)


CardRow = tuple[int, int, int, int, str]  # host, type, id, number, state
HostRow = tuple[int, int, str, bool, list[str]]  # id, region, state, whether lost, what it offers


def _cards() -> list[CardRow]:
    rows = Card.objects.exclude(host__state=Host.State.REMOVED)
    return list(rows.values_list("host_id", "gpu_type_id", "id", "index", "state"))


def _host_rows() -> dict[int, HostRow]:
    lost = ExpressionWrapper(Q(lost_since__isnull=False), BooleanField())
    rows = Host.objects.exclude(state=Host.State.REMOVED)
    return {row[0]: row for row in rows.values_list("id", "region_id", "state", lost, "offers")}


def _leases(cards: Iterable[CardRow]) -> tuple[set[int], dict[int, Counter[int]]]:
    """Return the leased cards, and by attempt how many good cards it holds on each host."""
    places = {card: (host, state == Card.State.OK) for host, _type, card, _number, state in cards}
    leased: set[int] = set()
    held_by: dict[int, Counter[int]] = defaultdict(Counter)
    for card, gang in CardLease.objects.filter(released_at=None).values_list("card_id", "instance__gang"):
        leased.add(card)
        if card in places:
            host, good = places[card]
            held_by[gang][host] += good
    return leased, held_by


def _hosts(cards: Iterable[CardRow], leased: set[int]) -> Iterable[types.HostCards]:
    """Group cards by host and type."""
    hosts = _host_rows()
    groups: dict[tuple[int, int], list[CardRow]] = defaultdict(list)
    for row in cards:
        groups[row[0], row[1]].append(row)
    for (host, gpu_type), rows in groups.items():
        if host not in hosts:
            continue  # registered since the cards were read
        _, region, state, lost, offers = hosts[host]
        good = [row for row in rows if row[4] == Card.State.OK]
        yield types.HostCards(
            host=host,
            region=region,
            gpu_type=gpu_type,
            total=len(good),
            free_numbers=tuple(sorted(row[3] for row in good if row[2] not in leased)),
            state="lost" if lost else state,  # type: ignore[arg-type]  # the model's choices are those words
            offers=frozenset(offers),
        )


def _waiting(now: float) -> tuple[list[types.Waiting], dict[int, tuple[str, dict[str, Any]]]]:
    rows = Task.objects.waiting().values_list(
        "id",
        "business_id",
        "user_id",
        "wanted_class",
        "host_num",
        "host_gpu_num",
        _text("gpu_types"),
        "region_id",
        "priority",
        Epoch(F("submitted_at")),
        Epoch(F("queued_at")),
        Epoch(F("ready_at")),
        "time_limit_s",
        _text("avoid_hosts"),
        "state",
        "reason_code",
        _text("reason_args"),
        "pull_up",
        "checkpoint_interval_s",
    )
    parse = cache(json.loads)  # tasks of one shape say the same: each text is read once
    tasks, reasons = [], {}
    for row in rows:
        tasks.append(_waiting_task(row, now, parse))
        reasons[row[0]] = (row[15], parse(row[16]))
    return tasks, reasons


def _text(name: str) -> Cast:
    """Read a JSON column as the text that it is: most rows have one of a few."""
    return Cast(name, TextField())


def _waiting_task(row: tuple[Any, ...], now: float, parse: Callable[[str], Any]) -> types.Waiting:
    submitted, queued, ready_at = row[9], row[10], row[11] or 0.0
    late = "backoff" if queued > submitted + 0.5 else "not_before"
    return types.Waiting(
        id=row[0],
        business=row[1],
        user=row[2],
        wanted=row[3],
        host_num=row[4],
        host_gpu_num=row[5],
        gpu_types=tuple(parse(row[6])),
        region=row[7],
        priority=row[8],
        submitted=submitted,
        queued=queued,
        ready_at=ready_at,
        gate=GATES.get(row[14]) or (late if ready_at > now else ""),  # type: ignore[arg-type]  # the words of Gate
        time_limit=row[12],
        avoid=frozenset(parse(row[13])),
        pull_up=row[17],
        checkpoint_s=row[18],
    )


def _running(
    held_by: dict[int, Counter[int]], now: float
) -> tuple[list[types.Running], dict[int, int], dict[int, str]]:
    evictions = _evictions(now)
    rows = Attempt.objects.filter(ended_at=None, task__state__in=ACTIVE).values_list(
        "task_id",
        "id",
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
        "task__state",
        "evicted_for_id",
        Epoch(F("ending_at")),
    )
    tasks, attempts, states = [], {}, {}
    for row in rows:
        tasks.append(_running_task(row, held_by, evictions))
        attempts[row[0]] = row[1]
        states[row[0]] = row[15]
    return tasks, attempts, states


def _running_task(
    row: tuple[Any, ...], held_by: dict[int, Counter[int]], evictions: dict[int, list[float]]
) -> types.Running:
    return types.Running(
        id=row[0],
        business=row[2],
        user=row[3],
        task_class=row[4],
        wanted=row[5],
        gpu_type=row[6],
        hosts=dict(held_by.get(row[1], {})),
        cards=row[7],
        submitted=row[8],
        started=row[9],
        region=row[10],
        priority=row[11],
        time_limit=row[12],
        checkpoint_s=row[13],
        pull_up=row[14],
        leaving_since=row[17],
        keeping=row[15] == State.KEEPING,
        evicted_for=row[16],
        evictions=tuple(evictions.get(row[0], ())),
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


def _reservations(now: float) -> Iterable[types.Reservation]:
    """Write recurring reservations out, window by window."""
    since = datetime.fromtimestamp(now, tz=UTC)
    for row in Reservation.objects.order_by("id"):
        for start, end in windows.windows(row.rule, since, since + WINDOWS_AHEAD):
            yield types.Reservation(
                id=row.pk,
                business=row.business_id,
                gpu_type=row.gpu_type_id,
                region=row.region_id,
                cards=row.cards,
                start=start.timestamp(),
                end=end.timestamp(),
            )


def _usage(now: float, half_life_s: float) -> Iterable[types.Usage]:
    """Sum up the elastic card-seconds of ended attempts; after ten half-lives a thousandth would be left."""
    since = datetime.fromtimestamp(max(0.0, now - HALF_LIVES * half_life_s), tz=UTC)
    decay = Exp((Epoch(F("ended_at")) - now) * (log(2) / half_life_s))
    rows = UsageRow.objects.filter(task_class=TaskClass.ELASTIC, ended_at__gt=since).order_by()
    sums = rows.values_list("business_id", "user_id").annotate(
        card_s=Sum(F("cards") * F("seconds") * decay, output_field=FloatField())
    )
    for business, user, card_s in sums:
        yield types.Usage(business=business, user=user, card_s=card_s)


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
