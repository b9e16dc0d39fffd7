"""Cards that break, are used by others or change their kind under the real platform: what is free, what starts."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.utils import timezone

from cluster import inventory
from cluster.executors.agents import GONE
from cluster.models import Card, CardLease, HostEvent
from jobs import use
from tests.agent.nvml import Nvml
from tests.life.house import House

LOOP = "echo on $CUDA_VISIBLE_DEVICES; while :; do sleep 0.05; done"


@pytest.fixture
def nvml(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Nvml:
    """Return the driver of a host with eight P40."""
    nvml = Nvml(tmp_path / "nvml")
    nvml.gpus(*["Tesla P40"] * 8)
    for name, value in nvml.environment.items():
        monkeypatch.setenv(name, value)
    return nvml


@pytest.fixture
def h1(house: House, nvml: Nvml) -> None:
    """Have the host with these cards."""
    house.host("h1", 8, simulate="", cards_every="0.1")


@pytest.fixture
def person() -> Iterator[subprocess.Popen[bytes]]:
    """Return a process that somebody started by hand."""
    with subprocess.Popen(["sleep", "600"]) as process:
        yield process
        process.kill()


def states() -> dict[int, str]:
    """Return the states of the cards of h1 that are not well, by index."""
    found = Card.objects.filter(host__name="h1").exclude(state="ok")
    return dict(found.values_list("index", "state"))


def free(kind: str = "P40") -> tuple[int, int]:
    """Return how many cards are free, and the most on one host."""
    found = inventory.free_cards(timezone.now(), use.held_cards())
    return next((one.free, one.largest_block) for one in found if one.gpu_type == kind)


@pytest.mark.usefixtures("h1")
def test_cards_that_fail_are_not_given_away_and_leave_what_runs_and_its_host_usable(
    house: House, nvml: Nvml
) -> None:
    runs = house.submit(LOOP, host_gpu_num=4)
    house.printed(runs, "on GPU-0,GPU-1,GPU-2,GPU-3")
    nvml.set("5", use="!15")
    nvml.xid(6, 79)
    house.until(lambda: states() == {5: "broken", 6: "broken"})
    assert free() == (2, 2)
    waits = house.submit(LOOP, host_gpu_num=3)
    house.until(lambda: waits.__class__.objects.get(pk=waits.pk).reason_code)
    fits = house.submit(LOOP, host_gpu_num=2, is_elasticity=True)
    house.printed(fits, "on GPU-4,GPU-7")
    assert free() == (0, 0)
    nvml.xid(2, 48)  # a card that is in use
    house.until(lambda: states() == {2: "broken", 5: "broken", 6: "broken"})
    assert free() == (0, 0)
    house.host("h2", 4)
    house.printed(waits, "on 0,1,2")
    assert house.member(waits).host.name == "h2"
    assert house.reach(runs, "running")
    told = HostEvent.objects.filter(host__name="h1", code="card_broken").order_by("pk")
    assert {event.args["cards"]: event.args["reason"] for event in told}["6"] == "Xid 79"


@pytest.mark.usefixtures("h1")
def test_a_card_that_a_person_uses_is_not_given_away_until_that_ends(
    house: House, nvml: Nvml, person: subprocess.Popen[bytes]
) -> None:
    nvml.set("3", pids=person.pid)
    house.until(lambda: states() == {3: "external"})
    assert free() == (7, 7)
    task = house.submit(LOOP, host_gpu_num=8)
    house.until(lambda: task.__class__.objects.get(pk=task.pk).reason_code)
    person.kill()
    person.wait()
    house.printed(task, "on GPU-0")
    codes = HostEvent.objects.filter(code__startswith="card_").order_by("pk").values_list("code", flat=True)
    assert list(codes) == ["card_external", "card_back"]


@pytest.mark.usefixtures("h1")
def test_a_card_that_a_task_and_a_person_use_stays_the_task_s_and_goes_to_nobody_after_it(
    house: House, nvml: Nvml, person: subprocess.Popen[bytes]
) -> None:
    task = house.submit("echo on $CUDA_VISIBLE_DEVICES; sleep 1", host_gpu_num=8)
    house.printed(task, "on")
    nvml.set("3", pids=person.pid)
    house.until(lambda: states() == {3: "external"})
    house.reach(task, "succeeded")
    house.until(lambda: free() == (7, 7))


def test_a_card_that_is_divided_under_a_task_passes_its_lease_to_nobody(house: House, nvml: Nvml) -> None:
    nvml.gpus("Tesla P40", "NVIDIA A100-SXM4-40GB")
    house.host("h1", 2, simulate="", cards_every="0.1")
    house.world.business("ads", **{"A100-SXM4-40GB": 4, "A100-3g.20gb": 4})
    task = house.submit(LOOP, GPUName="A100-SXM4-40GB")
    house.printed(task, "on GPU-1")
    nvml.slices(1, "3g.20gb", "3g.20gb")
    house.until(lambda: states() == {1: "missing"})
    kinds = Card.objects.exclude(state="missing").order_by("index").values_list("index", "gpu_type__name")
    # The driver divides the card first and makes the slices then, and the agent may look in between.
    house.until(lambda: list(kinds.all()) == [(0, "P40"), (200, "A100-3g.20gb"), (201, "A100-3g.20gb")])
    lease = CardLease.objects.get(released_at=None)
    assert (lease.card.index, lease.card.gpu_type.name) == (1, "A100-SXM4-40GB")
    on_slice = house.submit(LOOP, GPUName="A100-3g.20gb")
    house.printed(on_slice, "on MIG-1-0")
    nvml.slices(1)
    house.until(lambda: states() == {200: "missing", 201: "missing"})
    assert Card.objects.get(index=1).state == "ok"
    assert house.member(task).phase != GONE
    assert house.member(on_slice).phase != GONE
