"""A cluster with the MPI operator, where gangs of which only the first member runs the command are MPIJobs."""

import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cluster.kubernetes.calls import Away, Refused
from cluster.models import Card, Instance
from jobs.models import Task
from tests.kubernetes.conftest import Kube, node
from tests.kubernetes.mpi_operator import KIND, Operator
from tests.world import World

JSON = dict[str, Any]


class Floor:
    """A cluster with the MPI operator, and four nodes."""

    def __init__(self, kube: Kube) -> None:
        self.kube, self.operator = kube, Operator(kube.calls)
        self.operates = kube.played_alone  # a real cluster has an operator of its own
        if not self.operates:
            needs_operator(kube)
        kube.options = replace(kube.options, gang_jobs=True)
        self._step, kube.step = kube.step, self.step  # type: ignore[method-assign]
        there = {one["metadata"]["name"] for one in kube.calls.list("/api/v1/nodes")[0]}
        for name in sorted({f"gpu-{number}" for number in range(4)} - there):
            kube.add(node(name))
        kube.control()
        kube.until(lambda: Card.objects.filter(host__node__startswith="gpu-", state="ok").count() >= 32)

    def step(self, *, plan: bool = True) -> None:
        """Let the operator do its part besides."""
        if self.operates:
            with suppress(Away, Refused):
                self.operator.tick()
        self._step(plan=plan)

    def without_operator(self) -> None:
        """Let the operator do nothing from now on; where it is a real one, the test is skipped."""
        self.kube.server  # noqa: B018
        self.operates = False

    def jobs(self) -> list[JSON]:
        return self._things(f"{KIND}/namespaces/{self.kube.namespace}/mpijobs")

    def pods(self, role: str = "") -> list[JSON]:
        found = self._things(f"/api/v1/namespaces/{self.kube.namespace}/pods")
        return [pod for pod in found if role in pod["metadata"]["labels"].get("taiji.io/mpi-role", "")]

    def _things(self, folder: str) -> list[JSON]:
        return self.kube.calls.list(folder)[0]

    def settle(self) -> None:
        """Wait until nothing of any gang is left, nor of what was made for it."""
        kinds = ("pods", "secrets", "services", "configmaps")
        folder = f"/api/v1/namespaces/{self.kube.namespace}"

        def ours(kind: str) -> list[JSON]:
            found = self._things(f"{folder}/{kind}")
            return [thing for thing in found if thing["metadata"]["name"].startswith("taiji-")]

        self.kube.until(lambda: not self.jobs() and not any(map(ours, kinds)))
        assert self.kube.leased() == 0
        self.kube.until(lambda: not self.kube.fleet.running)

    def folder(self, task: Task) -> Path:
        return self.kube.storage / f"business-{task.business_id}"

    def starts(self, task: Task) -> int:
        file = self.folder(task) / "starts"
        return len(file.read_text().split()) if file.exists() else 0


def needs_operator(kube: Kube) -> None:
    """Skip the test where the cluster has no MPI operator."""
    try:
        kube.calls.get(f"{KIND}/namespaces/{kube.namespace}/mpijobs")
    except Refused as refused:
        pytest.skip(f"this needs the MPI operator: {refused}")


def gang(world: World, command: str, hosts: int = 3, *, config: JSON | None = None, **more: Any) -> Task:
    """Submit a gang of which the first member alone runs a command."""
    config = {"start_cmd": f"echo one >>$TAIJI_STORAGE/starts; {command}", **(config or {})}
    return world.task(hosts=hosts, cards=8, config=config, **more)


def rest(floor: Floor, seconds: float) -> None:
    """Let everybody do what they do for some time."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        floor.kube.step()
        time.sleep(0.05)


def phases(task: Task) -> list[str]:
    """Return the phases of the newest attempt's members, by rank."""
    newest = task.attempts.order_by("number").values_list("pk", flat=True).last()
    return list(Instance.objects.filter(gang=newest or 0).order_by("rank").values_list("phase", flat=True))
