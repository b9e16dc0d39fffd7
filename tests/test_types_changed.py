"""GPU types that are removed, or made anew under their names, while tasks are submitted that ask for them."""

import threading
from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection, transaction
from django.test import Client
from django.urls import reverse

from cluster.models import GpuType
from jobs import config, lookups, services
from jobs.engine import ask
from jobs.models import Task
from tests.world import World


@pytest.fixture
def ann(world: World) -> User:
    """Return a member of ads, which has quota for P40 and M40, and hosts of both."""
    world.host("h1", 8, "P40")
    world.host("h2", 8, "M40")
    world.business("ads", P40=16, M40=16)
    return world.user("ann", "ads")


def document(**fields: Any) -> dict[str, Any]:
    """Return a document that asks for V100."""
    return {"business_flag": "ads", "start_cmd": "true", "GPUName": "V100", "is_elasticity": True, **fields}


def make_anew(world: World, name: str) -> GpuType:
    """Remove a type that no key names, and make another one of its name, which stands on a host."""
    GpuType.objects.filter(name=name).delete()
    found = world.gpu_type(name)
    world.host(f"of-{found.pk}", 8, name)
    return found


@pytest.mark.parametrize("together", [False, True])
def test_a_task_asks_for_the_type_that_has_the_name_now(ann: User, world: World, together: bool) -> None:
    before = world.gpu_type("V100")
    lookups.Lookups(ann, ["ads"])  # as somebody asked a moment ago
    now = make_anew(world, "V100")
    assert now.pk != before.pk
    if together:
        services.submit_many(ann, [document()] * 3)
    else:
        services.submit(ann, document())
    assert {pk for task in Task.objects.all() for pk in task.gpu_types} == {now.pk}


def test_a_name_that_means_nothing_any_more_is_refused(ann: User, world: World) -> None:
    world.host("h3", 8, "V100")
    lookups.Lookups(ann, ["ads"])
    GpuType.objects.get(name="V100").cards.all().delete()
    GpuType.objects.filter(name="V100").delete()
    with pytest.raises(config.Invalid) as refused:
        services.submit(ann, document())
    assert [(fault.field, fault.code) for fault in refused.value.faults] == [("GPUName", "unknown")]
    (one,) = services.submit_many(ann, [document()])
    assert isinstance(one, config.Invalid)
    assert not Task.objects.exists()


@pytest.mark.parametrize("looked_at_before", [False, True])
def test_a_dry_run_asks_for_the_type_that_has_the_name_now(
    ann: User, world: World, looked_at_before: bool
) -> None:
    world.host("h3", 8, "V100")
    if looked_at_before:
        assert ask.preview(ann, document()).verdict == "starts"
    else:
        lookups.Lookups(ann, ["ads"])
    GpuType.objects.get(name="V100").cards.all().delete()
    make_anew(world, "V100")
    assert ask.preview(ann, document()).verdict == "starts"


def beside(do: Callable[[], object]) -> threading.Thread:
    """Do something in a thread of its own, which waits for what is not committed yet."""

    def doing() -> None:
        try:
            do()
        finally:
            connection.close()

    thread = threading.Thread(target=doing)
    thread.start()
    thread.join(0.5)
    assert thread.is_alive()
    return thread


@pytest.mark.django_db(transaction=True)
def test_a_type_that_is_deleted_while_a_task_is_written_that_asks_for_it_stays(
    ann: User, world: World
) -> None:
    unused = world.gpu_type("V100")
    root = Client()
    root.force_login(world.operator())
    address = reverse("admin:cluster_gputype_delete", args=[unused.pk])
    with transaction.atomic():
        services.submit(ann, document(GPUName="P40,V100"))
        deleting = beside(lambda: root.post(address, {"post": "yes"}))
    deleting.join()
    assert GpuType.objects.filter(pk=unused.pk).exists()
    assert unused.pk in Task.objects.get().gpu_types


@pytest.mark.django_db(transaction=True)
def test_a_task_that_is_written_while_its_type_is_deleted_is_refused(ann: User, world: World) -> None:
    unused = world.gpu_type("V100")
    faults: list[config.Fault] = []

    def submit() -> None:
        try:
            services.submit(ann, document(GPUName="P40,V100"))
        except config.Invalid as refused:
            faults.extend(refused.faults)

    lookups.Lookups(ann, ["ads"])
    with transaction.atomic():
        GpuType.objects.filter(pk=unused.pk).delete()
        submitting = beside(submit)
    submitting.join()
    assert [(fault.field, fault.code) for fault in faults] == [("GPUName", "unknown")]
    assert not Task.objects.exists()
