"""Builders of database rows: a business with quotas and people, hosts with cards, tasks."""

from typing import Any

from django.contrib.auth.models import User
from django.utils import timezone

from cluster.models import Card, GpuType, Host, Instance, Region
from jobs.models import Attempt, Task
from quotas.models import Business, DefaultGpuType, Member, PlatformRole, Quota


class World:
    """Make rows by name; asking twice for the same name returns the same row."""

    def region(self, name: str = "SZ") -> Region:
        """Return the region `name`."""
        return Region.objects.get_or_create(name=name)[0]

    def gpu_type(self, name: str = "P40") -> GpuType:
        """Return the GPU type `name`."""
        return GpuType.objects.get_or_create(name=name)[0]

    def host(self, name: str, cards: int = 8, gpu_type: str = "P40", region: str = "SZ") -> Host:
        """Return the host `name`, made with so many cards."""
        host, made = Host.objects.get_or_create(
            name=name,
            defaults={"region": self.region(region), "offers": ["process"], "address": f"{name}.test"},
        )
        if made:
            Card.objects.bulk_create(
                Card(host=host, index=index, gpu_type=self.gpu_type(gpu_type)) for index in range(cards)
            )
        return host

    def business(self, flag: str = "ads", **cards: int) -> Business:
        """Return the business `flag` with quotas by type, as in `business("ads", P40=16)`.

        Its types are its defaults, in this order.
        """
        business = Business.objects.get_or_create(flag=flag)[0]
        for position, (name, number) in enumerate(cards.items()):
            Quota.objects.update_or_create(
                business=business, gpu_type=self.gpu_type(name), region=None, defaults={"cards": number}
            )
            DefaultGpuType.objects.get_or_create(
                business=business, gpu_type=self.gpu_type(name), defaults={"position": position}
            )
        return business

    def user(self, name: str = "ann", *flags: str, role: str = Member.Role.MEMBER) -> User:
        """Return the user `name`, a member of the businesses `flags`."""
        user = User.objects.get_or_create(username=name)[0]
        for flag in flags:
            Member.objects.update_or_create(business=self.business(flag), user=user, defaults={"role": role})
        return user

    def operator(self, name: str = "root") -> User:
        """Return the operator `name`."""
        return User.objects.get_or_create(username=name, defaults={"is_superuser": True, "is_staff": True})[0]

    def auditor(self, name: str = "audrey") -> User:
        """Return the auditor `name`."""
        user = self.user(name)
        PlatformRole.objects.get_or_create(user=user, defaults={"role": PlatformRole.Role.AUDITOR})
        return user

    def task(
        self, flag: str = "ads", user: str = "ann", *, hosts: int = 1, cards: int = 1, **fields: Any
    ) -> Task:
        """Return a new queued task of `user` for `flag`: `hosts` × `cards` P40, high unless `fields` differ."""
        types = [self.gpu_type(name).pk for name in fields.pop("gpu_types", ["P40"])]
        document = {"business_flag": flag, "start_cmd": "true", **fields.pop("config", {})}
        values: dict[str, Any] = {"task_flag": "t", "wanted_class": "high", **fields}
        return Task.objects.create(
            business=self.business(flag),
            user=self.user(user, flag),
            config=document,
            host_num=hosts,
            host_gpu_num=cards,
            gpu_types=types,
            **values,
        )

    def attempt(self, task: Task) -> Attempt:
        """Return the open attempt of the task."""
        return task.attempts.get(ended_at=None)

    def host_says(self, task: Task, phase: str, *ranks: int, **fields: Any) -> None:
        """Record what hosts say of the task's open attempt: all its members, or only `ranks`.

        A member that is gone ended well and by itself unless `fields` say otherwise.
        """
        members = Instance.objects.filter(gang=self.attempt(task).pk)
        if ranks:
            members = members.filter(rank__in=ranks)
        now = timezone.now()
        if phase == "gone":
            fields = {"exit_code": 0, "ended_by_itself": True, "gone_at": now, **fields}
        members.update(phase=phase, **fields)
