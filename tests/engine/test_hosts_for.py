"""The hosts that a waiting task's page counts, from the database."""

import time

import pytest
from pytest_django import DjangoAssertNumQueries

from cluster.models import Host
from jobs.engine import hosts_for
from jobs.models import Claim, Task
from tests.portal.conftest import run
from tests.world import World

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _looks_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hosts_for, "KEPT_S", 0.0)
    monkeypatch.setattr(hosts_for, "_look", hosts_for._Look())


def seen(task: Task) -> dict[str, int]:
    return {one.why: one.hosts for one in hosts_for.hosts_for(task)}


def test_each_host_counts_once_by_what_keeps_the_task_from_it(world: World) -> None:
    run(world.task(cards=4), world.host("h1"))
    run(world.task(cards=8, wanted_class="elastic"), world.host("h2"))
    world.host("h3")
    Host.objects.filter(name="h3").update(state="cordoned")
    world.host("h4", cards=4)
    task = world.task(cards=8)
    assert seen(task) == {"soft": 1, "busy": 1, "small": 1, "cordoned": 1}


def test_cards_that_a_claim_holds_are_held(world: World) -> None:
    host, other = world.host("h1"), world.task(cards=8)
    gpu_type = world.gpu_type()
    Claim.objects.create(task=other, gpu_type=gpu_type, hosts={host.pk: 8}, made_at=other.submitted_at)
    assert seen(world.task(cards=8)) == {"held": 1}


def test_cards_that_the_task_s_own_claim_holds_are_free_for_it(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hosts_for, "KEPT_S", 60.0)
    host, task, other = world.host("h1"), world.task(cards=8), world.task(cards=8)
    gpu_type = world.gpu_type()
    Claim.objects.create(task=task, gpu_type=gpu_type, hosts={host.pk: 8}, made_at=task.submitted_at)
    assert [seen(task), seen(other), seen(task)] == [{"free": 1}, {"held": 1}, {"free": 1}]


def test_pages_share_one_look_for_a_moment(
    world: World, monkeypatch: pytest.MonkeyPatch, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    monkeypatch.setattr(hosts_for, "KEPT_S", 60.0)
    world.host("h1")
    first, second = world.task(cards=8), world.task(cards=4)
    assert seen(first) == {"free": 1}
    with django_assert_num_queries(0):
        assert seen(second) == {"free": 1}
    later = time.monotonic() + 61
    monkeypatch.setattr(time, "monotonic", lambda: later)
    Host.objects.update(state="draining")
    assert seen(second) == {"draining": 1}
