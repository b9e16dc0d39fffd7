"""A thousand hosts against one web process and PostgreSQL: how long a sync takes, without the time it is held."""

import asyncio
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path

from launch import postgres
from tests import valkey
from tests.bench._hosts import CARDS, INSTANCES, MINUTE_S, PERIOD_S, Figures, SimulatedHost
from tests.bench._web import cpu_s, web

HOSTS = int(os.environ.get("BENCH_HOSTS", "1000"))
WARM_S, MEASURE_S = 20.0, 60.0  # the first calls open a connection each and bring the lists to the hosts
TELLING_S = 15.0  # after a full minute: if all hosts told of it at once, then in these seconds


def run() -> dict[str, float | int]:
    """Fill a database with hosts, start one web process, and let the hosts report."""
    with postgres.server() as url, tempfile.TemporaryDirectory(prefix="valkey-", dir="/tmp") as folder:
        server = valkey.start(Path(folder))
        try:
            os.environ |= {"DATABASE_URL": url, "REDIS_URL": f"unix://{server.unix_socket_path}"}
            import django

            django.setup()
            hosts = _fill()
            with web() as (port, pid):
                return _measure(hosts, port, pid)
        finally:
            server.stop()


def _fill() -> list[SimulatedHost]:
    """Write the hosts with their cards and running instances; return those who speak for them."""
    from django.core.management import call_command
    from django.db import connection

    from cluster import inventory
    from cluster.models import Card, CardLease, GpuType, Host, Instance, Region

    call_command("migrate", verbosity=0)
    region, gpu_type = Region.objects.create(name="r1"), GpuType.objects.create(name="P40")
    names = [f"h{number}" for number in range(HOSTS)]
    hosts = Host.objects.bulk_create(
        Host(name=name, region=region, token_hash=inventory.digest(f"token-{name}")) for name in names
    )
    cards = Card.objects.bulk_create(
        [
            Card(host=host, index=index, gpu_type=gpu_type, uuid=f"GPU-{host.name}-{index}", memory_mib=22919)
            for host in hosts
            for index in range(CARDS)
        ],
        2000,
    )
    spec = {"label": "bench", "command": "python train.py", "env": {"A": "1"}, "grace_s": 30, "rank": 0}
    instances = Instance.objects.bulk_create(
        [
            Instance(
                host=host, gang=place * INSTANCES + number, rank=0, label="bench", spec=spec, phase="running"
            )
            for place, host in enumerate(hosts)
            for number in range(INSTANCES)
        ],
        2000,
    )
    each = CARDS // INSTANCES
    CardLease.objects.bulk_create(
        [
            CardLease(card=card, instance=instances[place // each], gang=place // each)
            for place, card in enumerate(cards)
        ],
        2000,
    )
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")
    ids = [str(row.pk) for row in instances]
    return [
        SimulatedHost(name=name, token=f"token-{name}", instances=ids[at * INSTANCES : (at + 1) * INSTANCES])
        for at, name in enumerate(names)
    ]


def _measure(hosts: list[SimulatedHost], port: int, pid: int) -> dict[str, float | int]:
    from django.db import connection

    began = time.monotonic()
    figures = Figures(since=began + WARM_S)
    until = began + WARM_S + MEASURE_S
    marks: list[tuple[float, int]] = []

    def look() -> None:
        with connection.cursor() as cursor:
            cursor.execute("SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'")
            marks.append((cpu_s(pid), cursor.fetchone()[0]))

    async def story() -> None:
        lives = [
            host.live(port, PERIOD_S * place / len(hosts), until, figures) for place, host in enumerate(hosts)
        ]
        waiting = asyncio.gather(*lives)
        await asyncio.sleep(WARM_S)
        await asyncio.to_thread(look)
        await asyncio.sleep(MEASURE_S)
        await asyncio.to_thread(look)
        await waiting

    asyncio.run(story())
    if figures.faults:
        sys.exit(f"{len(figures.faults)} calls failed, the first: {figures.faults[0]}")
    calls = figures.calls
    p50_ms, p95_ms = _ms(took_s for _, took_s in calls)
    _, told_ms = _ms(took_s for at, took_s in calls if at % MINUTE_S < TELLING_S)
    (before_s, _), (after_s, connections) = marks
    return {
        "hosts": len(hosts),
        "sync_p50_ms": p50_ms,
        "sync_p95_ms": p95_ms,
        "sync_p95_after_a_full_minute_ms": told_ms,
        "reports_per_s": round(len(calls) / MEASURE_S, 1),
        "web_cpu_percent": round(100 * (after_s - before_s) / MEASURE_S, 1),
        "web_cpu_ms_per_report": round(1000 * (after_s - before_s) / len(calls), 2),
        "connections": connections,
        "load_1m": round(os.getloadavg()[0], 1),
    }


def _ms(calls_s: Iterable[float]) -> tuple[float, float]:
    """Return the median and the 95th percentile, in milliseconds."""
    cuts = statistics.quantiles(calls_s, n=20)
    return round(cuts[9] * 1000, 1), round(cuts[18] * 1000, 1)
