"""What an MPIJob asks for, and everything that is odd in it; pure."""

from typing import Any

import pytest

from cluster import mpijob_asks
from tests.kubernetes.test_mpijobs import made

JSON = dict[str, Any]


def test_it_asks_for_what_its_workers_and_notes_say() -> None:
    said = {
        "class": "elastic",
        "pull_up": "true",
        "gpu_type": "P40,M40",
        "priority": "high",
        "time_limit": "2h",
    }
    ask = mpijob_asks.read(made(workers=4, cards=2, **said), "SZ")
    assert (ask.resource, ask.faults) == ("nvidia.com/gpu", ())
    assert ask.document == {
        "business_flag": "ads",
        "task_flag": "train",
        "region": "SZ",
        "is_elasticity": True,
        "enable_evicted_pulled_up": True,
        "start_cmd": "# MPIJob research/train",
        "host_num": 4,
        "host_gpu_num": 2,
        "GPUName": "P40,M40",
        "priority": "high",
        "time_limit": "2h",
    }


def test_all_that_keeps_it_from_being_a_task_is_said_at_once() -> None:
    job = made(**{"class": "fast"}, pull_up="yes")
    job["spec"]["slotsPerWorker"] = 4
    limits = {"limits": {"nvidia.com/gpu": "1"}}
    job["spec"]["mpiReplicaSpecs"]["Launcher"]["template"]["spec"]["containers"][0]["resources"] = limits
    assert len(mpijob_asks.read(job, "SZ").faults) == 4
    job["spec"]["mpiReplicaSpecs"] = {}
    faults = mpijob_asks.read(job, "SZ").faults
    assert [fault for fault in faults if "launcher" in fault or "workers" in fault]


def test_slices_are_asked_for_by_their_own_name() -> None:
    job = made(workers=2)
    container(job)["resources"] = {"limits": {"nvidia.com/mig-3g.20gb": 2}}
    ask = mpijob_asks.read(job, "SZ")
    assert (ask.resource, ask.faults) == ("nvidia.com/mig-3g.20gb", ())
    assert (ask.document["host_num"], ask.document["host_gpu_num"]) == (2, 2)


@pytest.mark.parametrize("number", ["9" * 5000, "1e3", "-1", "²"], ids=["huge", "1e3", "-1", "²"])
def test_a_number_of_cards_that_nobody_can_count_is_a_fault(number: str) -> None:
    job = made(workers=2)
    container(job)["resources"] = {"limits": {"nvidia.com/gpu": number}}
    assert mpijob_asks.read(job, "SZ").faults
    assert mpijob_asks.resource_of(job) == ""


def container(job: JSON, role: str = "Worker") -> JSON:
    """Return the one container of a role."""
    found: JSON = job["spec"]["mpiReplicaSpecs"][role]["template"]["spec"]["containers"][0]
    return found


@pytest.mark.parametrize(
    ("resources", "said"),
    [
        ({"limits": {"nvidia.com/gpu": "1", "nvidia.com/mig-1g.5gb": "1"}}, "of several kinds"),
        ({"limits": {"nvidia.com/gpu": "0.5"}}, "a whole number as its limit"),
        ({"requests": {"nvidia.com/gpu": "2"}}, "with a limit of ''"),
        ({"limits": {"nvidia.com/gpu": "4"}, "requests": {"nvidia.com/gpu": "2"}}, "asks for '2'"),
        ({"limits": {"amd.com/gpu": "1"}}, "or slices such as nvidia.com/mig-1g.5gb"),
        ({"limits": {"cpu": "1"}}, "have to ask for cards as a limit: nvidia.com/gpu"),
    ],
)
def test_cards_that_no_device_plugin_would_give_are_told_at_once(resources: JSON, said: str) -> None:
    job = made()
    container(job)["resources"] = resources
    ask = mpijob_asks.read(job, "SZ")
    assert any(said in fault for fault in ask.faults)
    assert ask.resource == ""


def test_what_would_go_past_the_plan_or_never_run_is_told_at_once() -> None:
    job = made(clas="elastic")
    job["spec"]["mpiReplicaSpecs"]["Worker"]["template"]["spec"]["nodeName"] = "gpu-1"
    job["spec"]["runLauncherAsWorker"] = True
    job["spec"]["runPolicy"]["managedBy"] = "kueue.x-k8s.io/multikueue"
    faults = mpijob_asks.read(job, "SZ").faults
    for said in ("no annotation taiji.io/clas", "nodeName", "runLauncherAsWorker", "managedBy"):
        assert any(said in fault for fault in faults), said
    assert len(faults) == 4
