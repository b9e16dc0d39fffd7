"""Looking ahead on PostgreSQL with 10,000 tasks waiting, what it finds, and what a request then takes."""

import os
import random
import statistics
import struct
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from launch import postgres

WAITING, LONG_LINE = 10_000, 100_000
FINISHED_EACH = 5  # tasks of each user: the fleet's runners have no time limits
ROUNDS = 20


def run() -> dict[str, float | int]:
    """Fill a database with a fleet and its past, start what can start, look ahead, and ask as pages do."""
    with postgres.server() as url:
        os.environ["DATABASE_URL"] = url
        import django

        django.setup()
        return _measure()


def _measure() -> dict[str, float | int]:
    from django.core.management import call_command
    from django.db import connection

    from jobs.engine import forecasts, passes
    from jobs.models import Task
    from tests.bench import _fleet, _rows

    call_command("migrate", verbosity=0)
    _rows.write(_fleet.fleet(WAITING, quota=67, now=time.time()))
    _past()
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")
    passes.run()
    done = forecasts.run()
    assert done is not None
    task = Task.objects.filter(state="queued", wanted_class="elastic").latest("pk")
    figures = {
        "waiting": done.waiting,
        "passes": done.passes,
        "load_ms": round(done.load_ms, 1),
        "look_s": round(done.look_ms / 1000, 1),
        "write_ms": round(done.write_ms, 1),
        **_found(),
        "outlook_ms": _median(lambda: forecasts.outlook(task)),
        "preview_ms": _median(_preview),
    }
    _lengthen(task)
    return figures | {"outlook_100k_ms": _median(lambda: forecasts.outlook(task))}


def _past() -> None:
    """Give every user finished tasks."""
    from django.contrib.auth.models import User

    from quotas.models import UsageRow

    dice, now = random.Random(11), datetime.now(UTC)
    UsageRow.objects.bulk_create(
        UsageRow(
            attempt=10**9 + user * FINISHED_EACH + number, task=0, business_id=1, user_id=user, gpu_type_id=1,
            task_class="elastic", cards=1, started_at=now, ended_at=now - timedelta(hours=number),
            seconds=dice.uniform(1, 48) * 3600, outcome="succeeded",
        )
        for user in User.objects.values_list("pk", flat=True)
        for number in range(FINISHED_EACH)
    )  # fmt: skip


def _found() -> dict[str, float | int]:
    """Say of how many tasks the start is known, and how far ahead the last of them is."""
    from jobs.engine import forecasts
    from jobs.models import WaitingLine

    starts = [
        seconds
        for line in WaitingLine.objects.all()
        for seconds in struct.unpack(f"<{len(line.starts) // 4}I", line.starts)
        if seconds != forecasts.UNKNOWN
    ]
    return {"known": len(starts), "hours": round(max(starts, default=0) / 3600, 1)}


def _preview() -> None:
    from django.contrib.auth.models import User

    from jobs.engine import ask
    from quotas.models import Member

    user = User.objects.get(username="u11")
    Member.objects.get_or_create(user=user, business_id=1)
    document = {
        "business_flag": "b1", "GPUName": "G1", "host_gpu_num": 8, "is_elasticity": True, "start_cmd": "true",
    }  # fmt: skip
    said = ask.preview(user, document)
    assert said.verdict == "queues"
    assert said.position


def _lengthen(task: "object") -> None:
    """Let the task stand at the end of a line of 100,000."""
    from jobs.engine import forecasts
    from jobs.models import Task, WaitingLine

    assert isinstance(task, Task)
    ids = [*range(10**7, 10**7 + LONG_LINE - 1), task.pk]
    WaitingLine.objects.filter(name=forecasts.line_name(task.wanted_class, task.gpu_types)).update(
        in_line=LONG_LINE,
        tasks=struct.pack(f"<{LONG_LINE}Q", *ids),
        starts=struct.pack(f"<{LONG_LINE}I", *range(LONG_LINE)),
        bases_of=bytes(2 * LONG_LINE),
    )


def _median(call: Callable[[], object]) -> float:
    """Return the median of some calls in milliseconds."""
    times = []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        call()
        times.append((time.perf_counter() - began) * 1000)
    return round(statistics.median(times), 1)
