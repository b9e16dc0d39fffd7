"""A world of any size, for lists of the admin: of each kind of row `number`, all named alike."""

from typing import Any

from django.contrib.auth.models import User
from django.utils import timezone

from cluster.models import Card, Host
from jobs.materials import Code, Dataset, Upload
from jobs.models import Attempt, Task, Template
from quotas.models import (
    ApiToken,
    AuditEntry,
    Business,
    DefaultGpuType,
    GroupRule,
    Member,
    PlatformRole,
    Quota,
    Reservation,
)
from tests.world import World

STATES = ("queued", "running", "succeeded", "failed")
CLASSES = ("high", "elastic", "auto")


def names(first: int, number: int) -> list[str]:
    """Return the names of the rows from `first` on."""
    return [f"n{place:05}" for place in range(first, first + number)]


def fill(world: World, first: int, number: int) -> None:
    """Add `number` rows of each kind; those before `first` are there."""
    some = names(first, number)
    _people(world, some)
    _machines(world, some)
    _work(world, some)


def _people(world: World, some: list[str]) -> None:
    users = User.objects.bulk_create(User(username=name) for name in some)
    businesses = Business.objects.bulk_create(Business(flag=name, name=f"The {name}") for name in some)
    of_each = list(zip(users, businesses, some, strict=True))
    Member.objects.bulk_create(Member(user=user, business=business) for user, business, _ in of_each)
    PlatformRole.objects.bulk_create(PlatformRole(user=user, role="auditor") for user in users)
    GroupRule.objects.bulk_create(
        GroupRule(group=name, role="member", business=business) for _, business, name in of_each
    )
    ApiToken.objects.bulk_create(
        ApiToken(user=user, business=business, name=name, digest=name) for user, business, name in of_each
    )
    models: tuple[Any, ...] = (Quota, DefaultGpuType, Reservation)
    for model in models:
        more: dict[str, Any] = {} if model is DefaultGpuType else {"cards": 1}
        model.objects.bulk_create(
            model(business=business, gpu_type=world.gpu_type(), **more) for business in businesses
        )


def _machines(world: World, some: list[str]) -> None:
    hosts = Host.objects.bulk_create(
        Host(name=name, region=world.region(), offers=["process"], last_seen_at=timezone.now())
        for name in some
    )
    Card.objects.bulk_create(
        Card(host=host, index=index, gpu_type=world.gpu_type(), uuid=f"GPU-{host.name}-{index}")
        for host in hosts
        for index in range(2)
    )


def _work(world: World, some: list[str]) -> None:
    now = timezone.now()
    businesses = dict(Business.objects.filter(flag__in=some).values_list("flag", "pk"))
    users = dict(User.objects.filter(username__in=some).values_list("username", "pk"))
    of_each = [(name, {"business_id": businesses[name], "user_id": users[name]}) for name in some]
    Upload.objects.bulk_create(Upload(digest=name, size=1, used_at=now, **ids) for name, ids in of_each)
    models: tuple[Any, ...] = (Code, Dataset)
    for model in models:
        model.objects.bulk_create(
            model(name=name, params={}, fingerprint=name, **ids) for name, ids in of_each
        )
    Template.objects.bulk_create(Template(name=name, config={}, **ids) for name, ids in of_each)
    tasks = Task.objects.bulk_create(
        Task(
            task_flag=name, config={}, host_num=1, host_gpu_num=1, gpu_types=[world.gpu_type().pk],
            state=STATES[place % 4], wanted_class=CLASSES[place % 3], **ids,
        )
        for place, (name, ids) in enumerate(of_each)
    )  # fmt: skip
    Attempt.objects.bulk_create(
        Attempt(
            task=task, number=1, task_class="high", gpu_type=world.gpu_type(), cards=1, created_at=now,
            ended_at=now if task.is_over else None, outcome="failed" if task.is_over else "",
        )
        for task in tasks
    )  # fmt: skip
    AuditEntry.objects.bulk_create(
        AuditEntry(at=now, deed="task.stop", actor=name, kind="task", target_id=str(task.pk))
        for name, task in zip(some, tasks, strict=True)
    )
