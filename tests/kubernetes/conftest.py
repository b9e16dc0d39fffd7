"""A cluster that the platform runs tasks on: a stand-in for its API, with kubelets that run real processes."""

import os
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from pytest_django import Settings

from cluster import logs
from cluster.kubernetes import calls
from cluster.kubernetes.calls import Calls, Conflict
from cluster.kubernetes.controller import Controller
from cluster.kubernetes.options import Options
from cluster.models import CardLease, Host, Instance
from jobs.engine import passes
from jobs.models import Task
from tests.kubernetes.kubelet import Fleet
from tests.kubernetes.server import CONTROLLER, WHO, Server
from tests.patience import WITHIN_S
from tests.world import World

JSON = dict[str, Any]
MARK = "taiji.io/test-node"
# How the API server reaches the played kubelets.
ADDRESS = os.environ.get("TAIJI_KUBE_KUBELET_ADDRESS", "127.0.0.1")


def node(name: str, cards: int = 8, product: str = "Tesla-P40") -> JSON:
    """Return a node that is well, with so many cards."""
    number = {"nvidia.com/gpu": str(cards), "pods": "110", "cpu": "64", "memory": "256Gi"}
    labels = {"nvidia.com/gpu.product": product, MARK: "yes"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {**labels, "kubernetes.io/hostname": name}},
        "spec": {},
        "status": {
            "capacity": number,
            "allocatable": number,
            "conditions": [{"type": "Ready", "status": "True", "reason": "Played", "message": ""}],
            "addresses": [{"type": "InternalIP", "address": ADDRESS}],
        },
    }


class Kube:
    """One cluster, its controller, and the platform beside it; all rounds are made by the test's thread."""

    def __init__(self, api: Callable[[], Any], folder: Path, server: Server | None, *, played: bool) -> None:
        """Keep the storage of tasks, and what pods need, below `folder`; `played`: kubelets are ours."""
        self._server, self._api = server, api
        self.storage = folder / "storage"
        self.storage.mkdir()
        self.namespace = f"taiji-test-{uuid.uuid4().hex[:8]}"
        self.options = Options(
            region="SZ",
            namespace=self.namespace,
            storage_claim="storage",
            storage_path=str(self.storage),
            default_image=os.environ.get("TAIJI_KUBE_IMAGE", "python:3.11"),
            node_selector=MARK if played else "",
            unschedulable_s=2.0,
            gang_jobs=False,  # a real cluster may have the operator: those who want it say so
        )
        self.calls = Calls(api())
        self._fleet: Fleet | None = None
        self.controllers: list[Controller] = []
        self._begin(folder, played=played)

    def _begin(self, folder: Path, *, played: bool) -> None:
        self.calls.create("/api/v1/namespaces", named("Namespace", self.namespace))
        with suppress(
            Conflict
        ):  # a real cluster makes it itself, a little later, and refuses pods until then
            self.calls.create(f"{self._folder}/serviceaccounts", named("ServiceAccount", "default"))
        if played:
            self._clear_nodes()
            claims = {"storage": self.storage}
            # Of all namespaces where the cluster is ours alone: some tests have pods of others.
            mine = "" if self._server else self.namespace
            self._fleet = Fleet(Calls(self._api()), folder / "nodes", claims, MARK, mine)
            self._fleet.places = self._server is not None  # a real cluster has a scheduler of its own
            self._fleet.beats = self._server is None
            self._bind_claim()

    def _clear_nodes(self) -> None:
        """Remove the nodes that a test before left in a real cluster."""
        for one in self.calls.list("/api/v1/nodes", labelSelector=MARK)[0]:
            self.calls.delete(f"/api/v1/nodes/{one['metadata']['name']}")

    def _bind_claim(self) -> None:
        """Have a claim for the storage that is bound, whether or not somebody binds claims: a real scheduler asks."""
        about = {"accessModes": ["ReadWriteMany"], "storageClassName": ""}
        volume, claim = named("PersistentVolume", self.namespace), named("PersistentVolumeClaim", "storage")
        volume["spec"] = about | {
            "capacity": {"storage": "1Gi"},
            "hostPath": {"path": str(self.storage)},
            "claimRef": {"namespace": self.namespace, "name": "storage"},
        }
        claim["spec"] = about | {"resources": {"requests": {"storage": "1Gi"}}, "volumeName": self.namespace}
        claim["metadata"]["annotations"] = {"pv.kubernetes.io/bind-completed": "yes"}
        for folder, thing in (
            ("/api/v1/persistentvolumes", volume),
            (f"{self._folder}/persistentvolumeclaims", claim),
        ):
            made = self.calls.create(folder, thing)
            self.calls.patch(f"{folder}/{made['metadata']['name']}/status", {"status": {"phase": "Bound"}})

    @property
    def _folder(self) -> str:
        return f"/api/v1/namespaces/{self.namespace}"

    @property
    def played_alone(self) -> bool:
        """Say whether all of the cluster is played, its API too."""
        return self._server is not None

    @property
    def server(self) -> Server:
        """The stand-in for the API; where it is a real one, the test is skipped."""
        if self._server is None:
            pytest.skip("this needs a stand-in for the API server: a real one cannot be made to fail")
        return self._server

    @property
    def fleet(self) -> Fleet:
        """The kubelets; where they are real ones, the test is skipped."""
        if self._fleet is None:
            pytest.skip("this needs TAIJI_KUBE_FAKE_KUBELET=1: real kubelets do nothing at a test's word")
        return self._fleet

    def control(self) -> Controller:
        """Start a controller and wait until it hears the cluster."""
        api = self._api()
        api.default_headers[WHO] = CONTROLLER
        controller = Controller(api, self.options)
        controller.start()
        self.controllers.append(controller)
        return controller

    def add(self, thing: JSON) -> None:
        """Have a node."""
        port = {"daemonEndpoints": {"kubeletEndpoint": {"Port": self.fleet.door.port}}}
        name = thing["metadata"]["name"]
        self.calls.create("/api/v1/nodes", {**thing, "status": {**thing["status"], **port}})
        self.change(
            name, lambda one: one["spec"].pop("taints", None)
        )  # not ready yet, says a real one of a new node

    def change(self, name: str, change: Callable[[JSON], object]) -> None:
        """Change a node."""
        path = f"/api/v1/nodes/{name}"
        new = self.calls.get(path)
        change(new)
        kept = self.calls.replace(path, new)
        self.calls.replace(f"{path}/status", {**kept, "status": new["status"]})

    def remove(self, name: str) -> None:
        """Take a node out of the cluster."""
        self.calls.delete(f"/api/v1/nodes/{name}")

    def pods(self) -> list[JSON]:
        """Return the pods of tasks."""
        return self.things("pods")

    def things(self, kind: str) -> list[JSON]:
        """Return our objects of this kind."""
        return self.calls.list(f"{self._folder}/{kind}", labelSelector="taiji.io/region")[0]

    def other_pod(self, name: str, node: str, cards: int, **labels: str) -> str:
        """Have somebody else's pod on a node, whose kubelet does nothing from now on; return its path."""
        self.fleet.silent.add(node)
        limits = {"limits": {"nvidia.com/gpu": str(cards)}}
        spec = {"containers": [{"name": "x", "image": "x", "resources": limits}], "nodeName": node}
        body = named("Pod", name) | {"spec": {**spec, "tolerations": [{"operator": "Exists"}]}}
        body["metadata"]["labels"] = labels
        self.calls.create("/api/v1/namespaces/default/pods", body)
        return f"/api/v1/namespaces/default/pods/{name}"

    def step(self, *, plan: bool = True) -> None:
        """Let every controller make a round, and the platform a pass."""
        for controller in self.controllers:
            controller.round()
        if plan:
            passes.run()

    def until(self, met: Callable[[], Any], within_s: float = WITHIN_S, *, plan: bool = True) -> Any:
        """Make rounds and passes until `met` is true, and return what it says."""
        deadline = time.monotonic() + within_s
        while not (found := met()):
            assert time.monotonic() < deadline, self.describe()
            self.step(plan=plan)
            time.sleep(0.02)
        return found

    def state(self, task: Task, state: str, within_s: float = WITHIN_S) -> Task:
        """Wait until the task is in `state`, and return it."""

        def met() -> bool:
            task.refresh_from_db()
            return str(task.state) == state

        self.until(met, within_s)
        return task

    def settle(self) -> None:
        """Wait until nothing of tasks is left in the cluster."""
        self.until(lambda: not self.pods())

    def log(self, task: Task, rank: int = 0, number: int = 1) -> bytes:
        """Return what the task printed."""
        attempt = task.attempts.get(number=number)
        return logs.read(Instance.objects.get(gang=attempt.pk, rank=rank).pk, 0, 10**6)[0]

    def describe(self) -> str:
        """Return where everything is, for a test that waited in vain."""
        every = self.calls.list("/api/v1/pods")[0] if self.played_alone else self.pods()
        pods = [
            (
                pod["metadata"]["name"],
                pod["metadata"].get("deletionTimestamp"),
                pod["spec"].get("nodeName"),
                pod["status"],
            )
            for pod in every
        ]
        rows = list(Instance.objects.values_list("label", "phase", "wanted", "detail"))
        tasks = list(Task.objects.values_list("task_flag", "state", "reason_code", "reason_args"))
        hosts = list(Host.objects.values_list("name", "state", "lost_since", "trouble"))
        troubles = [controller.trouble() for controller in self.controllers]
        return f"pods {pods}\nrows {rows}\ntasks {tasks}\nhosts {hosts}\ntroubles {troubles}"

    def leased(self) -> int:
        """Return how many cards are leased."""
        return CardLease.objects.filter(released_at=None).count()

    def stop(self) -> None:
        """End it all."""
        for controller in self.controllers:
            controller.stop()
        if self._server is None:
            self._leave()
        if self._fleet is not None:
            self._fleet.stop()
        if self._server is not None:
            self._server.close()

    def _leave(self) -> None:
        """Leave nothing in a real cluster."""
        for pod in self.pods():
            path = f"{self._folder}/pods/{pod['metadata']['name']}"
            self.calls.patch(path, {"metadata": {"finalizers": []}})
            self.calls.delete(path, grace_s=0)
        self.calls.delete(self._folder)
        if self._fleet is not None:
            self._clear_nodes()
            self.calls.delete(f"/api/v1/persistentvolumes/{self.namespace}")


def named(kind: str, name: str) -> JSON:
    """Return an object with a name and nothing else."""
    return {"apiVersion": "v1", "kind": kind, "metadata": {"name": name}}


def connect(url: str) -> Any:
    """Return a client of the API at `url`."""
    from kubernetes import client

    settings = client.Configuration()
    settings.host = url
    settings.connection_pool_maxsize = 32
    settings.retries = False
    return client.ApiClient(settings)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests that run on a cluster, before those of a mark are chosen."""
    for item in items:
        if "kube" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.kubernetes)


@pytest.fixture
def kube(request: pytest.FixtureRequest, world: World, tmp_path: Path, settings: Settings) -> Iterator[Kube]:
    """Return a cluster without nodes, and no controller yet: a stand-in, or that of TAIJI_KUBECONFIG."""
    marked = request.node.get_closest_marker("kubernetes")
    assert marked, "what asks for a cluster only while it runs has to say so by the mark `kubernetes`"
    if file := os.environ.get("TAIJI_KUBECONFIG"):
        played = os.environ.get("TAIJI_KUBE_FAKE_KUBELET") == "1"
        kube = Kube(lambda: calls.connect(Path(file)), tmp_path, None, played=played)
    else:
        server = Server()
        kube = Kube(lambda: connect(server.url), tmp_path, server, played=True)
    yield kube
    kube.stop()
