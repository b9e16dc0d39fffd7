"""The manifests below deploy/kubernetes: they are whole, and the controller's rights are those that it uses."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from cluster.kubernetes import pods
from cluster.kubernetes.options import Options
from cluster.management.commands import kubernetes
from jobs import services
from tests.kubernetes import schemas, test_pods
from tests.kubernetes.conftest import Kube
from tests.kubernetes.floor import Floor, gang
from tests.kubernetes.server import Server
from tests.world import World

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "deploy" / "kubernetes" / "controller"
VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
Right = tuple[str, str, str, str]  # namespaced or not, group, resource, verb


def manifests() -> list[dict[str, Any]]:
    """Return all objects as they stand in the files."""
    files = yaml.safe_load((FOLDER / "kustomization.yaml").read_text())["resources"]
    return [thing for name in files for thing in yaml.safe_load_all((FOLDER / name).read_text())]


def given() -> set[Right]:
    """Return the rights that the manifests give."""
    return {
        ("" if thing["kind"] == "ClusterRole" else thing["metadata"]["namespace"], group, resource, verb)
        for thing in manifests()
        if thing["kind"] in {"Role", "ClusterRole"}
        for rule in thing["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def used(calls: set[tuple[str, str]], namespace: str) -> Iterator[Right]:
    """Give the rights that these calls need."""
    for method, path in calls:
        parts = path.strip("/").split("/")
        group, parts = ("", parts[2:]) if parts[0] == "api" else (parts[1], parts[3:])
        where = ""
        if parts[0] == "namespaces" and len(parts) > 2:
            where, parts = "taiji-tasks" if parts[1] == namespace else parts[1], parts[2:]
        resource = "/".join([parts[0], *parts[2:]])
        reads = {"LIST": "get" if len(parts) > 1 else "list", "GET": "watch"}
        yield where, group, resource, VERBS.get(method) or reads[method]


def test_the_controller_may_do_what_it_does_and_nothing_else(world: World, kube: Kube) -> None:
    server = kube.server
    world.business("ads", P40=32)
    floor = Floor(kube)
    [controller] = kube.controllers
    task = services.submit(
        world.user("ann", "ads"),
        {
            "business_flag": "ads",
            "GPUName": "P40",
            "start_cmd": "sleep 60",
            "host_num": 2,
            "host_gpu_num": 8,
            "exec_start_in_all_mpi_pods": True,
            "env": {"KEY": {"value": "x", "secret": True}},
        },
    )
    server.fail(-1, method="POST", path="/secrets")  # one that is left over, and found to be there already
    server.fail(-1, method="POST", path="/services")
    kube.state(task, "running", 40)
    controller._orders.look_up(kube.pods()[0])  # as where the watch does not show it for long
    controller.lease.tend()
    services.stop(task, world.user("ann"))
    kube.state(task, "stopped")
    kube.settle()
    kube.state(gang(world, "true", 2), "succeeded", 60)
    controller._gangs._look_up(1)
    floor.settle()
    for kind in ("secrets", "services"):
        labels = {"taiji.io/region": "SZ", "taiji.io/gang": "9"}
        body = {"apiVersion": "v1", "kind": kind[:-1].title(), "metadata": {"name": "left", "labels": labels}}
        kube.calls.create(f"{kube._folder}/{kind}", body)
    controller._swept_at = -1e9
    kube.until(lambda: not kube.things("secrets") and not kube.things("services"))
    assert set(used(server.by_controller, kube.namespace)) == given()


def test_what_is_deployed_is_known_to_a_real_api_server_as_far_as_its_schemas_are_here() -> None:
    try:
        known = [thing for thing in manifests() if thing["apiVersion"] in schemas.FILES]
        assert {thing["kind"] for thing in known} == {"Namespace", "ServiceAccount"}
        assert [fault for thing in known for fault in schemas.faults(thing)] == []
        (pod,) = (thing["spec"]["template"] for thing in manifests() if thing["kind"] == "Deployment")
        metadata = {**pod["metadata"], "name": "x"}
        assert schemas.faults({"apiVersion": "v1", "kind": "Pod", **pod, "metadata": metadata}) == []
    except schemas.Absent as absent:
        pytest.skip(str(absent))


def test_the_deployed_options_are_such_that_the_command_takes_them() -> None:
    (deployment,) = (thing for thing in manifests() if thing["kind"] == "Deployment")
    arguments = deployment["spec"]["template"]["spec"]["containers"][0]["args"]
    assert arguments[:3] == ["python", "manage.py", "kubernetes"]
    parser = kubernetes.Command().create_parser("manage.py", "kubernetes")
    options: Options = kubernetes.read(vars(parser.parse_args(arguments[3:])))
    assert options.namespace == "taiji-tasks"
    assert options.offers == ("container", "limits", "process")


def kubectl(*arguments: str, given: str = "", folder: Path = ROOT) -> str:
    """Return what kubectl says."""
    if shutil.which("kubectl") is None:
        pytest.skip("kubectl is not installed: it reads the manifests")
    done = subprocess.run(
        ["kubectl", *arguments],
        input=given,
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": os.environ["PATH"], "HOME": str(folder), "KUBECONFIG": "/dev/null"},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_kubectl_takes_what_is_deployed_and_what_is_made(tmp_path: Path) -> None:
    one = test_pods.member(secret_env={"KEY": "x"}, code_token="t", **test_pods.CODE, **test_pods.GANG)
    made = [pods.pod(one, test_pods.OPTIONS), pods.service(70, test_pods.OPTIONS)]
    made += pods.secrets(one, test_pods.OPTIONS)
    server = Server()
    try:
        said = kubectl(
            *(
                "create",
                "--server",
                server.url,
                "--dry-run=client",
                "--validate=false",
                "-o",
                "name",
                "-f",
                "-",
            ),
            given=yaml.safe_dump_all([*manifests(), *made]),
            folder=tmp_path,
        )
    finally:
        server.close()
    assert len(said.split()) == len(manifests()) + len(made)


def test_kustomize_builds_them(tmp_path: Path) -> None:
    built = list(yaml.safe_load_all(kubectl("kustomize", str(FOLDER), folder=tmp_path)))
    assert len(built) == len(manifests())
    (deployment,) = (thing for thing in built if thing["kind"] == "Deployment")
    image = deployment["spec"]["template"]["spec"]["containers"][0]["image"]
    assert image == "registry.example.com/taiji:0.1.0"
