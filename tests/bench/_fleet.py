"""A fleet to measure on: 2,500 hosts of 8 cards, 90 % in use, and a long line before it."""

import random
from itertools import count

from jobs.scheduling.types import HostCards, Quota, Running, Snapshot, Usage, Waiting

NOW = 1_900_000_000.0
REGIONS, TYPES, BUSINESSES, USERS = 4, 5, 40, 10
HOSTS, CARDS = 2500, 8
RUNNING, IN_USE = 12_000, 0.90
HIGH, GANGS, SEVERAL_TYPES = 0.35, 0.02, 0.25
HOUR_S = 3600


def fleet(waiting: int, *, quota: int = 100, seed: int = 7, now: float = NOW) -> Snapshot:
    """Return a snapshot with so many waiting tasks; each business has `quota` cards of each type."""
    dice = random.Random(seed)
    ids = count(1)
    free = {host: list(range(CARDS)) for host in range(1, HOSTS + 1)}
    running = _running(dice, ids, free, now)
    hosts = tuple(
        HostCards(
            host=host,
            region=1 + host % REGIONS,
            gpu_type=1 + host % TYPES,
            total=CARDS,
            free_numbers=tuple(numbers),
        )
        for host, numbers in free.items()
    )
    return Snapshot(
        now=now,
        hosts=hosts,
        running=tuple(running),
        waiting=_in_line(dice, ids, waiting, now),
        quotas=tuple(
            Quota(business=business, gpu_type=gpu_type, cards=quota)
            for business in range(1, BUSINESSES + 1)
            for gpu_type in range(1, TYPES + 1)
        ),
        usage=tuple(
            Usage(business=business, user=_user(business, user), card_s=dice.uniform(0, 1e7))
            for business in range(1, BUSINESSES + 1)
            for user in range(USERS)
        ),
        type_names={gpu_type: f"G{gpu_type}" for gpu_type in range(1, TYPES + 1)},
        host_names={host: f"h{host}" for host in free},
        business_names={business: f"b{business}" for business in range(1, BUSINESSES + 1)},
    )


def _user(business: int, user: int) -> int:
    return business * USERS + user + 1


def _running(dice: random.Random, ids: "count[int]", free: dict[int, list[int]], now: float) -> list[Running]:
    """Fill the hosts to 90 % with 12,000 tasks of one and a half cards on average, half of them elastic."""
    found: list[Running] = []
    left = round(HOSTS * CARDS * IN_USE)
    order = list(free)
    while len(found) < RUNNING and left > 0:
        want = min(left, dice.choices((1, 2, 4, 8), (78, 14, 6, 2))[0])
        host = next((h for h in dice.sample(order, 40) if len(free[h]) >= want), None)
        if host is None:
            continue
        del free[host][-want:]
        left -= want
        business = dice.randint(1, BUSINESSES)
        elastic = dice.random() < 0.5
        found.append(
            Running(
                id=next(ids),
                business=business,
                user=_user(business, dice.randrange(USERS)),
                task_class="elastic" if elastic else "high",
                wanted="elastic" if elastic else "high",
                gpu_type=1 + host % TYPES,
                hosts={host: want},
                cards=want,
                submitted=now - dice.uniform(24, 72) * HOUR_S,
                started=now - dice.uniform(0, 24) * HOUR_S,
                pull_up=True,
            )
        )
    return found


def _in_line(dice: random.Random, ids: "count[int]", number: int, now: float) -> tuple[Waiting, ...]:
    """Return the waiting tasks; ids follow the times of submission, as a database gives them."""
    since = sorted(now - dice.uniform(0, 5) * HOUR_S for _ in range(number))
    return tuple(_waiting(dice, next(ids), submitted, now) for submitted in since)


def _waiting(dice: random.Random, task_id: int, since: float, now: float) -> Waiting:
    high = dice.random() < HIGH
    gang = dice.random() < GANGS
    business = dice.randint(1, BUSINESSES)
    several = 2 + dice.randrange(2) if dice.random() < SEVERAL_TYPES else 1
    return Waiting(
        id=task_id,
        business=business,
        user=_user(business, dice.randrange(USERS)),
        wanted="high" if high else "elastic",
        host_num=dice.choice((2, 4, 8, 16, 32)) if gang else 1,
        host_gpu_num=8 if gang else dice.choices((1, 2, 4, 8), (60, 20, 12, 8))[0],
        gpu_types=tuple(dice.sample(range(1, TYPES + 1), several)),
        region=None if dice.random() < 0.7 else dice.randint(1, REGIONS),
        priority=dice.randrange(3),
        submitted=since,
        queued=since,
        time_limit=None if dice.random() < 0.5 else dice.uniform(1, 48) * HOUR_S,
        pull_up=True,
    )
