"""MIG slices of a cluster: types of their own, which tasks get by the name that the device plugin gives them."""

from dataclasses import replace
from typing import Any

from cluster.models import Card, GpuType
from jobs import services
from tests.kubernetes.conftest import Kube, node
from tests.kubernetes.floor import Floor
from tests.world import World

JSON = dict[str, Any]
SMALL, LARGE = "nvidia.com/mig-1g.10gb", "nvidia.com/mig-3g.40gb"


def sliced(name: str, *, whole: int = 0, **slices: int) -> JSON:
    """Return a node with an A100 that is divided; `slices` are SMALL and LARGE ones, by `small` and `large`."""
    thing = node(name, whole, "NVIDIA-A100-SXM4-80GB")
    room = {SMALL: slices.get("small", 0), LARGE: slices.get("large", 0)}
    for part in ("capacity", "allocatable"):
        thing["status"][part] |= {resource: str(number) for resource, number in room.items() if number}
    return thing


def limits(pod: JSON) -> dict[str, str]:
    found: dict[str, str] = pod["spec"]["containers"][0]["resources"]["limits"]
    return {name: number for name, number in found.items() if "/" in name}


def count() -> dict[str, int]:
    """Return how many cards of each type are well."""
    found: dict[str, int] = {}
    for name in Card.objects.filter(state="ok").values_list("gpu_type__name", flat=True):
        found[name] = found.get(name, 0) + 1
    return found


def test_a_node_whose_cards_are_divided_offers_each_kind_and_a_task_gets_what_it_asked_for(
    world: World, kube: Kube
) -> None:
    world.business("ads", **{"A100-1g.10gb": 7, "A100-3g.40gb": 2, "A100-SXM4-80GB": 2})
    kube.add(sliced("gpu-1", whole=2, small=7, large=2))
    kube.control()
    kube.until(lambda: count() == {"A100-SXM4-80GB": 2, "A100-1g.10gb": 7, "A100-3g.40gb": 2})
    ann = world.user("ann", "ads")
    asked = {"business_flag": "ads", "start_cmd": "echo $TAIJI_CARDS; sleep 60"}
    small = services.submit(ann, {**asked, "GPUName": "A100-1g.10gb", "host_gpu_num": 3})
    large = services.submit(ann, {**asked, "GPUName": "A100-3g.40gb", "host_gpu_num": 1})
    whole = services.submit(ann, {**asked, "GPUName": "A100-SXM4-80GB", "host_gpu_num": 2})
    for task in (small, large, whole):
        kube.state(task, "running")
    by_task = {
        pod["metadata"]["annotations"]["taiji.io/label"].split()[0]: limits(pod) for pod in kube.pods()
    }
    assert by_task == {
        str(small.pk): {SMALL: "3"},
        str(large.pk): {LARGE: "1"},
        str(whole.pk): {"nvidia.com/gpu": "2"},
    }
    kube.until(lambda: kube.log(small) == b"3\n")
    for task in (small, large, whole):
        services.stop(task, ann)
        kube.state(task, "stopped")
    kube.settle()
    assert kube.leased() == 0


def test_slices_that_others_use_are_not_offered_and_whole_cards_beside_them_are(
    world: World, kube: Kube
) -> None:
    kube.add(sliced("gpu-1", whole=1, small=3))
    kube.control()
    kube.until(lambda: count() == {"A100-SXM4-80GB": 1, "A100-1g.10gb": 3})
    spec = {
        "nodeName": "gpu-1",
        "containers": [{"name": "x", "image": "x", "resources": {"limits": {SMALL: "2"}}}],
    }
    kube.fleet.silent.add("gpu-1")
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "theirs"}, "spec": spec}
    kube.calls.create("/api/v1/namespaces/default/pods", body)
    kube.until(lambda: count() == {"A100-SXM4-80GB": 1, "A100-1g.10gb": 1})
    kube.calls.delete("/api/v1/namespaces/default/pods/theirs", grace_s=0)
    kube.until(lambda: count() == {"A100-SXM4-80GB": 1, "A100-1g.10gb": 3})


def test_a_node_that_is_divided_otherwise_has_other_types_and_keeps_what_runs_until_it_ends(
    world: World, kube: Kube
) -> None:
    world.business("ads", **{"A100-1g.10gb": 7})
    kube.add(sliced("gpu-1", small=7))
    kube.control()
    kube.until(lambda: count() == {"A100-1g.10gb": 7})
    task = world.task(cards=2, gpu_types=["A100-1g.10gb"], config={"start_cmd": "sleep 60"})
    kube.state(task, "running")

    def divide(one: JSON) -> None:
        for part in ("capacity", "allocatable"):
            one["status"][part].pop(SMALL)
            one["status"][part][LARGE] = "2"

    kube.change("gpu-1", divide)
    kube.until(lambda: count().get("A100-3g.40gb") == 2)
    task.refresh_from_db()
    assert (task.state, kube.leased()) == ("running", 2)
    services.stop(task, world.user("ann"))
    kube.state(task, "stopped")
    kube.settle()
    kube.until(lambda: count() == {"A100-3g.40gb": 2})


def test_where_two_kinds_are_called_alike_a_task_asks_for_as_many_of_each_as_it_was_given(
    world: World, kube: Kube
) -> None:
    world.business("ads", slice=4)
    kube.options = replace(kube.options, gpu_types={SMALL: "slice", LARGE: "slice"})
    kube.add(sliced("gpu-1", small=3, large=1))
    kube.control()
    kube.until(lambda: count() == {"slice": 4})
    task = world.task(cards=4, gpu_types=["slice"], config={"start_cmd": "sleep 60"})
    kube.state(task, "running")
    assert [limits(pod) for pod in kube.pods()] == [{SMALL: "3", LARGE: "1"}]
    services.stop(task, world.user("ann"))
    kube.state(task, "stopped")
    kube.settle()


def test_a_gang_of_slices_is_an_mpijob_where_their_name_is_the_same_and_else_pods(
    world: World, kube: Kube
) -> None:
    world.business("ads", P40=32, **{"A100-1g.10gb": 14})
    floor = Floor(kube)
    for number in (5, 6):
        kube.add(sliced(f"mig-{number}", small=7))
    kube.until(lambda: count().get("A100-1g.10gb") == 14)
    task = world.task(hosts=2, cards=7, gpu_types=["A100-1g.10gb"], config={"start_cmd": "sleep 60"})
    kube.state(task, "running", 40)
    assert [limits(pod) for pod in floor.pods()] == [{SMALL: "7"}] * 2
    assert [job["spec"]["slotsPerWorker"] for job in floor.jobs()] == [7]
    services.stop(task, world.user("ann"))
    kube.state(task, "stopped", 40)
    floor.settle()


def test_a_gang_whose_hosts_call_their_cards_differently_runs_as_pods_of_its_own(
    world: World, kube: Kube
) -> None:
    world.business("ads", P40=32, slice=2)
    kube.options = replace(kube.options, gpu_types={SMALL: "slice", LARGE: "slice"})
    floor = Floor(kube)
    kube.add(sliced("mig-1", small=1))
    kube.add(sliced("mig-2", large=1))
    kube.until(lambda: count().get("slice") == 2)
    task = world.task(hosts=2, cards=1, gpu_types=["slice"], config={"start_cmd": "sleep 0.3"})
    kube.state(task, "running", 40)
    assert sorted(map(str, map(limits, kube.pods()))) == [str({SMALL: "1"}), str({LARGE: "1"})]
    assert not floor.jobs()
    kube.state(task, "succeeded", 40)
    kube.settle()
    assert GpuType.objects.filter(name="slice").count() == 1
