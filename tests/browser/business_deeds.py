"""A business with a past, and others beside it that wait or borrow: what the pages of businesses show."""

import json
import random
from collections.abc import Callable
from datetime import time, timedelta
from typing import Any

from django.utils import timezone

from cluster.models import Card, CardLease, GpuType, Host, Instance, Region
from jobs.engine import passes
from jobs.models import Attempt, Task, TaskEvent, Template
from quotas.models import Business, DefaultGpuType, Member, Quota, Reservation, UsageRow
from tests.portal.conftest import run
from tests.world import World

DAYS = 40
USERS = ("ann", "bob", "chen", "dora")
world = World()


def business() -> None:
    """Let `ads` have used cards for weeks, and let three others starve, borrow and rest; print its id by name."""
    ads = world.business("ads")
    Business.objects.filter(pk=ads.pk).update(name="Advertising 广告")
    _past(ads)
    world.user("ann", "ads", role="lead")
    region = world.region("Shenzhen")
    Quota.objects.get_or_create(
        business=ads, gpu_type=world.gpu_type("P40"), region=region, defaults={"cards": 8}
    )
    quota = {"business": ads, "gpu_type": world.gpu_type("P40")}
    Reservation.objects.create(**quota, cards=4, note="Before the autumn sale.")
    weekly = {"kind": "weekly", "weekday": 4, "from_time": time(20), "to_time": time(8)}
    Reservation.objects.create(**quota, region=region, cards=8, time_zone="Asia/Shanghai", **weekly)
    document = {"business_flag": "ads", "start_cmd": "python train.py"}
    Template.objects.create(name="Nightly ranking", business=ads, description="Eight cards.", config=document)
    _others()
    print(json.dumps({"ads": ads.pk}))


def _past(ads: Business) -> None:
    dice = random.Random(7)
    people = [world.user(name, "ads") for name in USERS]
    now, gpu_type = timezone.now(), world.gpu_type("P40")
    UsageRow.objects.bulk_create(
        UsageRow(
            attempt=1_000_000 + number,
            task=number,
            business=ads,
            user=dice.choice(people),
            gpu_type=gpu_type,
            task_class=dice.choice(("high", "elastic")),
            cards=dice.choice((1, 2, 4, 8)),
            started_at=(end := now - timedelta(hours=dice.uniform(1, 24 * DAYS))) - timedelta(hours=3),
            ended_at=end,
            seconds=3 * 3600,
            outcome="succeeded",
        )
        for number in range(300)
    )


def _others() -> None:
    """Make a business that waits for cards, one that waits for quota, one over its quota, and one at rest."""
    for flag in ("search", "speech", "vision", "a-business-with-quite-a-long-name-翻译"):
        world.business(flag, P40=8)
    world.task("search", "sue", cards=8, reason_code="no_room")
    world.task("speech", "oz", cards=16, reason_code="quota")
    host = world.host("gpu-9", 8, "P40", "Shenzhen")
    run(world.task("vision", "vic", cards=6), host)
    Quota.objects.filter(business__flag="vision").update(cards=4)


def bare() -> None:
    """Take all away but the people who log in: what a platform is at its very first start."""
    work: tuple[Any, ...] = (CardLease, Instance, TaskEvent, Attempt, Task, Template)
    people: tuple[Any, ...] = (Quota, DefaultGpuType, Member, Business)
    machines: tuple[Any, ...] = (Card, Host, GpuType, Region)
    for model in (*work, *people, *machines):
        model.objects.all().delete()


def one_pass() -> None:
    """Let the scheduler look once."""
    passes.run()


DEEDS: dict[str, Callable[[], None]] = {"business": business, "bare": bare, "pass": one_pass}
