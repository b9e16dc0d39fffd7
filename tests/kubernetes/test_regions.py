"""Several clusters: each is a region with a controller of its own, and none touches what is another's."""

from dataclasses import replace

from cluster.models import Card, Host
from jobs import services
from tests.kubernetes.conftest import MARK, Kube, node
from tests.world import World


def test_a_task_runs_in_the_region_that_it_names_whatever_the_controller_of_another_does(
    world: World, kube: Kube
) -> None:
    world.business("ads", P40=16)
    ann, own = world.user("ann", "ads"), kube.options
    for region in ("SZ", "BJ"):
        thing = node(f"{region.lower()}-1")
        thing["metadata"]["labels"]["zone"] = region
        kube.add(thing)
        kube.options = replace(own, region=region, node_selector=f"{MARK},zone={region}")
        kube.control()
    kube.until(lambda: Card.objects.filter(state="ok").count() == 16)
    assert set(Host.objects.values_list("node", "region__name")) == {("sz-1", "SZ"), ("bj-1", "BJ")}
    asked = {"business_flag": "ads", "GPUName": "P40", "host_gpu_num": 8, "start_cmd": "sleep 60"}
    tasks = {region: services.submit(ann, {**asked, "region": region}) for region in ("BJ", "SZ")}
    for task in tasks.values():
        kube.state(task, "running")
    where = {pod["metadata"]["labels"]["taiji.io/region"]: pod["spec"]["nodeName"] for pod in kube.pods()}
    assert where == {"SZ": "sz-1", "BJ": "bj-1"}
    assert not Card.objects.exclude(state="ok").exists()
    kube.controllers.pop(0).stop()  # that of SZ
    services.stop(tasks["BJ"], ann)
    kube.state(tasks["BJ"], "stopped")
    tasks["SZ"].refresh_from_db()
    assert tasks["SZ"].state == "running"
    kube.until(lambda: [pod["spec"]["nodeName"] for pod in kube.pods()] == ["sz-1"])
    kube.options = replace(own, region="SZ", node_selector=f"{MARK},zone=SZ")
    kube.control()
    services.stop(tasks["SZ"], ann)
    kube.state(tasks["SZ"], "stopped")
    kube.settle()
    assert kube.leased() == 0
