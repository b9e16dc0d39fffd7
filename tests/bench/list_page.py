"""Lists of tasks at a million rows on PostgreSQL: the server's time for a page, over all filters, orders and depths."""

import html
import os
import random
import re
import statistics
import time
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from launch import postgres

ROWS, OPEN = 1_000_000, 40_000
CHAINS = 240  # first pages asked for; most are followed to further ones
DEEPEST = 4  # pages that a chain goes on for
ON = re.compile(r'rel="(?:next|prev)"\s+href="([^"]+)"')
SLOWEST = 12  # kinds of requests that are printed

# What people ask for, by name; each request takes some of them together.
FILTERS: dict[str, tuple[str, ...]] = {
    "q": ("resnet", "train", "needle", "needle-500003", "全量", "no such name", "#77777", "90"),
    "state": ("open", "over", "waiting", "running", "failed", "succeeded", "held", "queued,running"),
    "class": ("high", "elastic", "auto"),
    "business": ("b1", "b20", "b41"),
    "user": ("me", "u11", "u18"),
    "gpu_type": ("P40", "V100", "Rare", "A100"),
    "region": ("sh", "bj"),
    "reason": ("quota", "no_cards", "reserved"),
    "tag": ("nightly", "rare"),
    "submitted_from": ("7d", "100d", "300d"),
    "submitted_to": ("200d", "30d"),
    "ended_from": ("today", "7d"),
    "sort": ("newest", "oldest", "waiting_longest", "ended_last"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Took:
    """How long one request took, and how long of that processors worked for it."""

    ms: float
    worked_ms: float


def run() -> dict[str, float | int]:
    """Fill a database, and ask for pages as operators, and as members with many and with few tasks."""
    with postgres.server() as url:
        os.environ |= {"DATABASE_URL": url, "REDIS_URL": "unix:///nowhere"}
        import django

        django.setup()
        return _measure()


def _measure() -> dict[str, float | int]:
    from django.core.management import call_command

    from tests.bench import _million

    call_command("migrate", verbosity=0)
    _million.write(ROWS, OPEN)
    dice = random.Random(5)
    took: dict[str, list[Took]] = defaultdict(list)
    browsers = _browsers()
    for browser in browsers.values():
        browser.get("/tasks/")  # templates and caches of a server that was just started are not measured
    for number in range(CHAINS):
        name, browser = list(browsers.items())[number % len(browsers)]
        _follow(name, browser, _query(dice), dice, took)
    _tell(took)
    return {"rows": ROWS, **figures(took)}


def figures(took: dict[str, list[Took]]) -> dict[str, float | int]:
    """Return the times of all requests, and those that processors worked: what is left where nothing else runs."""
    every = sorted(one.ms for found in took.values() for one in found)
    worked = sorted(one.worked_ms for found in took.values() for one in found)
    return {
        "requests": len(every),
        "p50_ms": round(statistics.median(every), 1),
        "p95_ms": round(every[int(len(every) * 0.95)], 1),
        "p99_ms": round(every[int(len(every) * 0.99)], 1),
        "worked_p50_ms": round(statistics.median(worked), 1),
        "worked_p95_ms": round(worked[int(len(worked) * 0.95)], 1),
        "worked_p99_ms": round(worked[int(len(worked) * 0.99)], 1),
    }


def _browsers() -> dict[str, Any]:
    """Return browsers: of an operator, and of members of large, small and old businesses, with many tasks and few."""
    from django.contrib.auth.models import User
    from django.test import Client

    from quotas.models import Member
    from tests.bench._million import DEAD, TINY

    operator = User.objects.create(username="root", is_superuser=True)
    several = User.objects.create(username="several")
    Member.objects.bulk_create(Member(business_id=flag, user=several) for flag in (TINY, DEAD, 30))
    people = {"operator": operator, "several": several}
    names = {
        "many": "u11",
        "few": "u20",
        "middle": "u205",
        "tiny": f"u{TINY * 10 + 1}",
        "old": f"u{DEAD * 10 + 1}",
    }
    people |= {name: User.objects.get(username=username) for name, username in names.items()}
    found = {}
    for name, user in people.items():
        found[name] = Client()
        found[name].force_login(user)
    return found


def _query(dice: random.Random) -> dict[str, str]:
    """Return filters: none, one, two or three."""
    names = dice.sample(list(FILTERS), dice.choices((0, 1, 2, 3), (1, 4, 4, 3))[0])
    return {name: dice.choice(FILTERS[name]) for name in names}


def _follow(
    name: str, browser: Any, query: dict[str, str], dice: random.Random, took: dict[str, list[Took]]
) -> None:
    """Ask for a page and some behind it; one in three begins deep inside."""
    if dice.random() < 0.33 and query.get("sort", "newest") in {"newest", "oldest"}:
        query["below"] = str(dice.randrange(1, ROWS))
    kind = f"{name}: {' '.join(f'{key}={value}' for key, value in query.items() if key != 'below') or 'all'}"
    address: str | None = "/tasks/"
    for _step in range(1 + dice.randrange(DEEPEST)):
        began, worked = time.perf_counter(), _worked_s()
        answer = browser.get(address, query)
        took[kind].append(
            Took(ms=(time.perf_counter() - began) * 1000, worked_ms=(_worked_s() - worked) * 1000)
        )
        assert answer.status_code == 200, answer.content
        links = ON.findall(answer.content.decode())
        address, query = (html.unescape(links[-1]) if links else None), {}
        if address is None:
            return


def _worked_s() -> float:
    """Return how long processors have worked for this process, and for its connection to the database."""
    from django.db import connection

    pid = connection.connection.info.backend_pid if connection.connection else 0
    try:
        on_processor_ns = int(Path(f"/proc/{pid}/schedstat").read_text().split()[0])
    except FileNotFoundError:
        return time.process_time()
    return time.process_time() + on_processor_ns / 1e9


def _tell(took: dict[str, list[Took]]) -> None:
    """Print what took longest, for whoever wants to mend it."""
    worst = {kind: max(found, key=lambda one: one.worked_ms) for kind, found in took.items()}
    for kind, one in sorted(worst.items(), key=lambda item: -item[1].worked_ms)[:SLOWEST]:
        print(f"    {one.ms:7.1f} ms, worked {one.worked_ms:7.1f} ms  {kind}")
