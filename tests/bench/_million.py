"""A million tasks in the database, written by the database itself, with the attempts of those that ran."""

from django.contrib.auth.models import User
from django.core.management.color import no_style
from django.db import connection

from cluster.models import GpuType, Region
from jobs.models import Attempt, Task
from quotas.models import Business, Member

BUSINESSES, USERS = 40, 10  # users of each business; the first of both have the most tasks
TINY, DEAD = BUSINESSES + 1, BUSINESSES + 2  # businesses with 20 tasks, and with many that are all old
RARE = 25_000  # of so many tasks one has a rare name, a rare type and a rare tag
EVERY_S = 30  # a task is submitted
TYPES, REGIONS = ("P40", "M40", "V100", "A100", "Rare"), ("sh", "sz", "bj")
DOCUMENT = {
    "business_flag": "b1", "start_cmd": "python train.py --epochs 90 --batch 256 --data /data/imagenet",
    "image_full_name": "registry.example.com/vision/train:2030.01", "tags": ["nightly", "vision"],
    "env": {f"SETTING_{number}": "a value of some length" for number in range(8)},
}  # fmt: skip

# By the number i of the task, of {rows}; the newest {open} are open by half.
STATE = (
    "CASE WHEN i > {rows} - {open} AND i % 2 = 0 "
    "THEN (ARRAY['queued','queued','queued','running','held','starting'])[1 + (random() * 5.99)::int % 6] "
    "ELSE (ARRAY['succeeded','succeeded','succeeded','failed','stopped','evicted'])[1 + (random() * 5.99)::int % 6] END"
)
BUSINESS = (
    f"CASE WHEN i % 50000 = 7 THEN {TINY} WHEN i < {{rows}} / 10 AND random() < 0.3 THEN {DEAD} "
    f"ELSE 1 + ({BUSINESSES - 1} * random() ^ 2)::int END"
)
SUBMITTED = f"now() - make_interval(secs => ({{rows}} - i) * {EVERY_S})"
NAME = (
    f"CASE WHEN i % {RARE} = 3 THEN 'needle-' || i "
    "ELSE (ARRAY['resnet','bert','gpt','wide-deep','全量训练','diffusion'])[1 + (i::bigint * 7919) % 6] || '-' || "
    "(ARRAY['train','eval','tune','sweep'])[1 + (i::bigint * 104729) % 4] || '-' || i END"
)
OVER = "state IN ('succeeded', 'failed', 'stopped', 'evicted')"
ENDED = f"CASE WHEN {OVER} THEN submitted + random() * interval '6 hours' END"
NUMBERS = '{"per_host": 8, "types": "P40", "free": 14, "largest": 6}'
COLUMNS = {
    "id": "i",
    "business_id": "business",
    "user_id": f"business * {USERS} + 1 + ({USERS - 1} * random() ^ 3)::int",
    "task_flag": NAME,
    "state": "n.state",
    "wanted_class": "(ARRAY['high','elastic','auto'])[1 + i % 3]",
    "host_gpu_num": "1 + i % 8",
    "gpu_types": f"CASE WHEN i % {RARE} = 3 THEN '[5]' WHEN i % 4 = 0 THEN '[1, 2]' ELSE '[3]' END::jsonb",
    "region_id": "CASE WHEN i % 3 = 0 THEN 1 + i % 7 % 3 END",
    "config": f"CASE WHEN i % {RARE} = 3 THEN jsonb_set(t.config, '{{tags}}', '[\"rare\"]') ELSE t.config END",
    "submitted_at": "submitted",
    "queued_at": "submitted",
    "ended_at": ENDED.replace("state", "n.state"),
    "reason_code": "CASE WHEN n.state = 'queued' "
    "THEN (ARRAY['no_cards','quota','behind','not_before'])[1 + i % 4] ELSE '' END",
    "reason_args": f"CASE WHEN n.state = 'queued' THEN '{NUMBERS}' ELSE '{{}}' END::jsonb",
}


def write(rows: int, open_rows: int) -> None:
    """Write people, businesses, tasks and attempts."""
    _names()
    model = Task.objects.create(
        business_id=1, user_id=11, task_flag="model", config=DOCUMENT, wanted_class="high", host_num=1,
        host_gpu_num=1, gpu_types=[1],
    )  # fmt: skip
    size = {"rows": rows, "open": open_rows}
    numbered = (
        f"SELECT i, {STATE.format(**size)} AS state, {BUSINESS.format(**size)} AS business, "
        f"{SUBMITTED.format(**size)} AS submitted FROM generate_series(2, {rows}) AS i"
    )
    _insert_like(model, numbered)
    _attempts()
    statements = connection.ops.sequence_reset_sql(
        no_style(), [User, Region, GpuType, Business, Task, Attempt]
    )
    for statement in [*statements, "VACUUM ANALYZE"]:  # which the database does by itself in time
        _execute(statement)


def _names() -> None:
    Region.objects.bulk_create(Region(pk=pk, name=name) for pk, name in enumerate(REGIONS, 1))
    GpuType.objects.bulk_create(GpuType(pk=pk, name=name) for pk, name in enumerate(TYPES, 1))
    flags = range(1, DEAD + 1)
    Business.objects.bulk_create(Business(pk=pk, flag=f"b{pk}") for pk in flags)
    users = [(flag, flag * USERS + number) for flag in flags for number in range(1, USERS + 1)]
    User.objects.bulk_create(User(pk=pk, username=f"u{pk}") for _flag, pk in users)
    Member.objects.bulk_create(Member(business_id=flag, user_id=pk) for flag, pk in users)


def _insert_like(model: Task, numbered: str) -> None:
    """Insert rows that differ from `model` in COLUMNS."""
    columns = [str(field.column) for field in Task._meta.concrete_fields]
    values = ", ".join(COLUMNS.get(column, f't."{column}"') for column in columns)
    names = ", ".join(f'"{column}"' for column in columns)
    table = Task._meta.db_table
    _execute(
        f"INSERT INTO {table} ({names}) SELECT {values} FROM ({numbered}) AS n, {table} AS t WHERE t.id = {model.pk}"
    )


def _attempts() -> None:
    """Give each task that ran an attempt, open where it still runs."""
    columns = {
        "task_id": "id",
        "number": "1",
        "task_class": "CASE wanted_class WHEN 'high' THEN 'high' ELSE 'elastic' END",
        "gpu_type_id": "1",
        "cards": "host_gpu_num",
        "created_at": "submitted_at",
        "running_at": "submitted_at",
        "ended_at": "ended_at",
        "ending": "''",
        "ending_code": "''",
        "outcome": "CASE WHEN ended_at IS NULL THEN '' ELSE state END",
        "outcome_code": "CASE WHEN ended_at IS NULL THEN '' WHEN state = 'failed' THEN 'exit_code' "
        "WHEN state = 'stopped' THEN 'stop' ELSE state END",
        "outcome_args": "'{\"code\": 1}'::jsonb",
        "evict_rule": "''",
    }
    _execute(
        f"INSERT INTO {Attempt._meta.db_table} ({', '.join(columns)}) SELECT {', '.join(columns.values())} "
        f"FROM {Task._meta.db_table} WHERE {OVER} OR state IN ('running', 'starting')"
    )


def _execute(statement: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(statement)
