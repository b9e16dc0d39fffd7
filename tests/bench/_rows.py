"""Write a snapshot into the database, so that the live pass finds there what the pure pass was given."""

from datetime import UTC, datetime

from django.contrib.auth.models import User
from django.core.management.color import no_style
from django.db import connection, models

from cluster.models import Card, CardLease, GpuType, Host, Instance, Region
from jobs.models import Attempt, Task
from jobs.scheduling.types import Running, Snapshot, Waiting
from quotas.models import Business, Quota

CHUNK = 2000


def write(snapshot: Snapshot) -> None:
    """Write every row of the snapshot, under the ids that it has there."""
    _names(snapshot)
    cards = _cards(snapshot)
    _tasks(snapshot)
    _leases(snapshot, cards)
    _go_on_counting()


def _go_on_counting() -> None:
    """Let the database give ids behind those that were given here."""
    statements = connection.ops.sequence_reset_sql(no_style(), [User, Region, GpuType, Business, Host, Task])
    with connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)


def _at(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, tz=UTC)


def _names(snapshot: Snapshot) -> None:
    users = {row.user for row in snapshot.waiting} | {row.user for row in snapshot.running}
    User.objects.bulk_create(User(pk=user, username=f"u{user}") for user in sorted(users))
    regions = {row.region for row in snapshot.hosts}
    Region.objects.bulk_create(Region(pk=pk, name=f"r{pk}") for pk in sorted(regions))
    GpuType.objects.bulk_create(GpuType(pk=pk, name=name) for pk, name in snapshot.type_names.items())
    Business.objects.bulk_create(Business(pk=pk, flag=flag) for pk, flag in snapshot.business_names.items())
    Quota.objects.bulk_create(
        Quota(business_id=row.business, gpu_type_id=row.gpu_type, region_id=row.region, cards=row.cards)
        for row in snapshot.quotas
    )


def _cards(snapshot: Snapshot) -> dict[tuple[int, int], int]:
    """Write hosts and cards; return the card's id by host and number."""
    seen = _at(snapshot.now)
    Host.objects.bulk_create(
        Host(pk=row.host, name=f"h{row.host}", region_id=row.region, offers=["process"], last_seen_at=seen)
        for row in snapshot.hosts
    )
    cards = [
        Card(host_id=row.host, index=index, gpu_type_id=row.gpu_type)
        for row in snapshot.hosts
        for index in range(row.total)
    ]
    return {(card.host_id, card.index): card.pk for card in Card.objects.bulk_create(cards, CHUNK)}


def _task(row: Waiting | Running, **fields: object) -> Task:
    values = {
        "task_flag": f"t{row.id}",
        "config": {"start_cmd": "python train.py", "exec_start_in_all_mpi_pods": True},
        "pull_up": row.pull_up,
        "region_id": row.region,
        "priority": row.priority,
        "time_limit_s": row.time_limit and round(row.time_limit),
        **fields,
    }
    return Task(pk=row.id, business_id=row.business, user_id=row.user, wanted_class=row.wanted, **values)


def _tasks(snapshot: Snapshot) -> None:
    waiting = [
        _task(
            row,
            host_num=row.host_num,
            host_gpu_num=row.host_gpu_num,
            gpu_types=list(row.gpu_types),
        )
        for row in snapshot.waiting
    ]
    running = [
        _task(
            row,
            host_num=len(row.hosts),
            host_gpu_num=row.cards // len(row.hosts),
            gpu_types=[row.gpu_type],
            state="running",
        )
        for row in snapshot.running
    ]
    Task.objects.bulk_create([*waiting, *running], CHUNK)
    rows: list[Waiting | Running] = [*snapshot.waiting, *snapshot.running]
    since = {row.id: row.submitted for row in rows}
    _set_dates(Task.objects.only("pk"), since, "submitted_at", "queued_at")


def _set_dates(rows: "models.QuerySet[Task]", since: dict[int, float], *names: str) -> None:
    """Set dates that creating a row sets to now."""
    found = list(rows)
    for row in found:
        for name in names:
            setattr(row, name, _at(since[row.pk]))
    Task.objects.bulk_update(found, names, CHUNK)


def _leases(snapshot: Snapshot, cards: dict[tuple[int, int], int]) -> None:
    """Write an attempt, an instance and leases for every running task; it holds the highest numbers left."""
    free = {row.host: set(row.free_numbers) for row in snapshot.hosts}
    totals = {row.host: row.total for row in snapshot.hosts}
    attempts = Attempt.objects.bulk_create(
        (
            Attempt(
                task_id=row.id,
                number=1,
                task_class=row.task_class,
                gpu_type_id=row.gpu_type,
                cards=row.cards,
                created_at=_at(row.started),
                running_at=_at(row.started),
            )
            for row in snapshot.running
        ),
        CHUNK,
    )
    instances, leases = [], []
    for row, attempt in zip(snapshot.running, attempts, strict=True):
        for rank, (host, number) in enumerate(row.hosts.items()):
            instance = Instance(host_id=host, gang=attempt.pk, rank=rank, label="", spec={}, phase="running")
            instances.append(instance)
            taken = [index for index in range(totals[host]) if index not in free[host]][:number]
            free[host].update(taken)
            leases += [
                CardLease(card_id=cards[host, index], instance=instance, gang=attempt.pk) for index in taken
            ]
    Instance.objects.bulk_create(instances, CHUNK)
    CardLease.objects.bulk_create(leases, CHUNK)
