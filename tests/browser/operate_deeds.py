"""What the pages of operators show: cards in every state, passes of a day, reservations; see deeds.py."""

import json
import random
from collections.abc import Callable
from dataclasses import replace
from datetime import time, timedelta
from typing import Any

from django.utils import timezone

from cluster import hints, host_events, host_moves, inventory
from cluster.host_states import State
from cluster.models import Card, CardLease, CardMinute, Host, Instance
from cluster.reports import CardReport
from jobs.engine import what_ifs
from jobs.models import Attempt, Claim, PassMinute, Task
from jobs.simulation.what_if import Change, NewHosts, QuotaChange, compare
from jobs.what_ifs import WhatIf
from quotas.models import Quota, Reservation
from tests.portal.conftest import run
from tests.scheduling.test_what_if import setup
from tests.world import World

world = World()
DAY_MIN = 24 * 60
MANY_HOSTS, MANY_CARDS = 2500, 8
PAST_TASKS = 5000


def operate() -> None:
    """Make hosts whose cards are used in every way, a day of passes and reservations; print the ids."""
    hosts = [world.host(f"map-{number}", 8, "L40", "Shenzhen") for number in range(6)]
    run(world.task(task_flag="guaranteed", cards=8, gpu_types=["L40"], time_limit_s=90_000), hosts[0])
    both = hosts[1]
    run(world.task(task_flag="stays", cards=2, gpu_types=["L40"], time_limit_s=7200), both)
    evicted = world.task(
        "games", "ben", task_flag="leaves", cards=3, gpu_types=["L40"], wanted_class="elastic", pull_up=True
    )
    _run_on_the_rest(evicted, both, 2)
    alone = world.task("games", "ben", task_flag="ends", cards=2, gpu_types=["L40"], wanted_class="elastic")
    _run_on_the_rest(alone, both, 5)
    Card.objects.filter(host=hosts[2], index=1).update(state=Card.State.BROKEN, state_reason="Xid 79")
    Card.objects.filter(host=hosts[2], index=2).update(
        state=Card.State.EXTERNAL, state_reason="used by pid 4711"
    )
    why: dict[str, Any] = {"reason_code": "leaving", "reason_args": {"cards": 4, "missing": 2}}
    waits = world.task(task_flag="claims", cards=4, gpu_types=["L40"], **why)
    held = {str(hosts[3].pk): 4}
    Claim.objects.create(task=waits, gpu_type=world.gpu_type("L40"), hosts=held, made_at=timezone.now())
    root = world.operator("root")
    host_moves.act(hosts[4], "cordon", actor_id=root.pk, reason="the fan is loud")
    Host.objects.update(last_seen_at=timezone.now())
    _figures(both)
    _reservations()
    _passes()
    answered, running = _what_ifs()
    ids = {"busy_host": both.pk, "cordoned_host": hosts[4].pk, "answered": answered, "replayed": running}
    print(json.dumps(ids))


def _run_on_the_rest(task: Task, host: Host, first: int) -> None:
    """Let a task run on the cards of a host from `first` on; `run` takes the first of all."""
    attempt = run(task)
    instance = Instance.objects.create(host=host, gang=attempt.pk, label="x", spec={}, phase="running")
    cards = host.cards.filter(index__gte=first).order_by("index")[: attempt.cards]
    CardLease.objects.bulk_create(CardLease(card=card, instance=instance, gang=attempt.pk) for card in cards)


def _figures(host: Host) -> None:
    now = int(timezone.now().timestamp() // 60)
    host.cards.update(memory_mib=48 * 1024)
    CardMinute.objects.bulk_create(
        CardMinute(card=card, minute=minute, use_mean=(37 * minute) % 100, memory_mean_mib=20 * 1024)
        for card in host.cards.filter(index__lt=3)
        for minute in range(now - 300, now)
    )


def _reservations() -> None:
    now = timezone.now().replace(minute=0, second=0, microsecond=0)
    ours, theirs = world.business("ads"), world.business("speech")
    l40 = world.gpu_type("L40")
    Reservation.objects.create(business=ours, gpu_type=l40, cards=2, note="the demo room")
    weekly = {"kind": "weekly", "from_time": time(22), "to_time": time(6), "time_zone": "Asia/Shanghai"}
    for weekday in range(5):
        Reservation.objects.create(business=theirs, gpu_type=l40, cards=16, weekday=weekday, **weekly)
    once = {"kind": "once", "starts_at": now + timedelta(hours=30), "ends_at": now + timedelta(hours=54)}
    Reservation.objects.create(business=ours, gpu_type=l40, cards=40, note="the big run", **once)


def _what_ifs() -> tuple[int, int]:
    """Return a question that is answered, and one that is being replayed."""
    ads, l40 = world.business("ads", L40=16), world.gpu_type("L40")
    quota = QuotaChange(business=ads.pk, gpu_type=l40.pk, region=None, cards=32)
    more = NewHosts(region=world.region("Shenzhen").pk, gpu_type=l40.pk, hosts=4, cards=8)
    change = Change(quotas=(quota,), policy={"placement": "spread", "aging_s": 600.0}, added=(more,))
    answered = what_ifs.ask(world.operator("root"), 7, change)
    running = what_ifs.ask(world.operator("root"), 30, Change(policy={"victim_order": "least_lost_work"}))
    after = replace(setup(40), quotas=tuple(replace(row, cards=16) for row in setup().quotas))
    host = after.hosts[0]
    after = replace(after, hosts=(host, replace(host, host=host.host + 1)))
    about = {"since": 0, "tasks": 40, "still_running": 1, "never_ran": 2}
    result = {**compare(setup(40), after), **about}
    soon = timezone.now() + timedelta(hours=1)  # as if somebody worked on it all the time
    WhatIf.objects.filter(pk=answered.pk).update(state="done", done=100, result=result)
    WhatIf.objects.filter(pk=running.pk).update(state="running", done=40, beat_at=soon)
    return answered.pk, running.pk


def _passes() -> None:
    dice = random.Random(7)
    now = int(timezone.now().timestamp() // 60)
    PassMinute.objects.bulk_create(
        PassMinute(
            minute=now - before,
            passes=3,
            took_ms=3 * dice.randint(40, 90),
            longest_ms=dice.randint(90, 220),
            starts=dice.randint(0, 5),
            evictions=dice.choice((0, 0, 0, 1)),
        )
        for before in range(DAY_MIN)
    )


def many_hosts() -> None:
    """Add 2,500 hosts of 8 cards: 20,000 cards, of which some are broken or busy from outside."""
    region, types = world.region("Huge"), [world.gpu_type(name) for name in ("H20", "H800")]
    Host.objects.bulk_create(
        Host(name=f"huge-{number:04}", region=region, offers=["process"], state=State.READY)
        for number in range(MANY_HOSTS)
    )
    dice = random.Random(3)
    states = (*[Card.State.OK] * 18, Card.State.BROKEN, Card.State.EXTERNAL)
    Card.objects.bulk_create(
        Card(host=host, index=index, gpu_type=types[host.pk % 2], state=dice.choice(states))
        for host in Host.objects.filter(region=region)
        for index in range(MANY_CARDS)
    )


def use_from_outside() -> None:
    """Let somebody use card 3 of a host by hand, as its agent reports it; the pages hear of it."""
    _report("map-5", 3, Card.State.EXTERNAL, "used by pid 4711, which is no task")


def give_back() -> None:
    """Let that end."""
    _report("map-5", 3, Card.State.OK, "")


def _report(name: str, index: int, state: str, reason: str) -> None:
    host = world.host(name)
    reported = [
        CardReport(
            index=card.index,
            uuid=card.uuid,
            gpu_type=card.gpu_type.name,
            memory_mib=card.memory_mib,
            state=state if card.index == index else card.state,
            reason=reason if card.index == index else card.state_reason,
        )
        for card in host.cards.select_related("gpu_type")
    ]
    inventory.report_cards(host.pk, inventory.changed_cards(host.pk, reported))
    code = "card_external" if reason else "card_back"
    host_events.note(host.pk, code, args={"cards": str(index), "reason": reason})
    hints.publish("cards")


def replay() -> None:
    """Answer the questions what would have been, as the worker does."""
    WhatIf.objects.filter(state=WhatIf.State.RUNNING).delete()  # nobody works on that one
    while what_ifs.run_next() is not None:
        pass


def busy_past() -> None:
    """Let thousands of tasks have run in the last day: to replay them takes a while."""
    now = timezone.now()
    first = world.task(cards=1, gpu_types=["L40"], state="succeeded", ended_at=now)
    copies = [Task(**{**_columns(first), "task_flag": f"past-{number}"}) for number in range(PAST_TASKS)]
    tasks = Task.objects.bulk_create(copies)
    begun = now - timedelta(hours=20)
    Task.objects.filter(task_flag__startswith="past-").update(submitted_at=begun, queued_at=begun)
    Attempt.objects.bulk_create(
        Attempt(
            task=task,
            number=1,
            task_class="high",
            gpu_type=world.gpu_type("L40"),
            cards=1,
            outcome="succeeded",
            created_at=begun,
            ended_at=begun + timedelta(minutes=1 + place % 60),
        )
        for place, task in enumerate(tasks)
    )


def _columns(task: Task) -> dict[str, Any]:
    return {
        field.attname: getattr(task, field.attname) for field in Task._meta.fields if not field.primary_key
    }


def replay_one() -> None:
    """Answer the oldest question, as the worker does, in a process that waits to be killed."""
    what_ifs.run_next()


def a_minute_passes() -> None:
    """Let the last word of whoever replays be older than one that is given up."""
    WhatIf.objects.filter(state=WhatIf.State.RUNNING).update(
        beat_at=timezone.now() - timedelta(seconds=what_ifs.GIVEN_UP_S + 1)
    )


def lower_quota() -> None:
    """Let another operator change the quota of `ads`."""
    Quota.objects.filter(business__flag="ads", gpu_type__name="L40").update(cards=9)


DEEDS: dict[str, Callable[[], None]] = {
    "operate": operate,
    "many_hosts": many_hosts,
    "use_from_outside": use_from_outside,
    "give_back": give_back,
    "replay": replay,
    "lower_quota": lower_quota,
    "busy_past": busy_past,
    "replay_one": replay_one,
    "a_minute_passes": a_minute_passes,
}
