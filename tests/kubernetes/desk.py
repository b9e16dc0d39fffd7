"""A cluster with the MPI operator, on which people work with kubectl."""

import base64
import copy
import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from cluster import mpijob_review
from cluster.kubernetes import job_words
from cluster.models import BroughtJob, Card
from jobs import brought
from jobs.models import Task
from tests.kubernetes.conftest import Kube, node
from tests.kubernetes.mpi_operator import KIND, Operator
from tests.patience import WITHIN_S

JSON = dict[str, Any]
FOLDER = f"{KIND}/namespaces/research/mpijobs"


class Desk:
    """A cluster with the MPI operator, on which people work with kubectl."""

    def __init__(self, kube: Kube, *nodes: str) -> None:
        self.kube, self.operator = kube, Operator(kube.calls)
        kube.server  # noqa: B018  # a real cluster has an operator of its own
        kube.options = replace(kube.options, mpijobs=True)
        for name in nodes:
            kube.add(node(name))
        kube.control()
        kube.until(lambda: Card.objects.count() == 8 * len(nodes))

    def step(self) -> None:
        self.operator.tick()
        brought.adopt()

    def until(self, met: Callable[[], Any], within_s: float = WITHIN_S) -> Any:
        def stepped() -> Any:
            self.step()
            return met()

        return self.kube.until(stepped, within_s)

    def state(self, task: Task, state: str, within_s: float = 30) -> None:
        def met() -> bool:
            task.refresh_from_db()
            return task.state == state

        self.until(met, within_s)

    def apply(self, job: JSON) -> None:
        """Make a job as where no webhook is asked."""
        self.kube.calls.create(FOLDER, job)

    def admit(self, job: JSON, username: str = "ann") -> None:
        """Make a job as `username`, where the webhook is asked."""
        request = {"uid": "r", "userInfo": {"username": username}, "object": job, "oldObject": None}
        answer = mpijob_review.answer({"request": request})
        self.apply(patched(job, answer["response"]))

    def job(self, name: str = "train") -> JSON:
        return self.kube.calls.get(f"{FOLDER}/{name}")

    def task(self, name: str = "train") -> Task:
        def found() -> Task | None:
            row = BroughtJob.objects.filter(name=name, deleted=False).first()
            return Task.objects.filter(pk=row.task or 0).first() if row else None

        task: Task = self.until(found)
        return task

    def pods(self) -> list[JSON]:
        return self.kube.calls.list("/api/v1/namespaces/research/pods")[0]

    def live_pods(self) -> list[JSON]:
        return [pod for pod in self.pods() if pod["status"].get("phase") not in {"Succeeded", "Failed"}]

    def says_suspended(self) -> bool:
        conditions = self.job()["status"]["conditions"]
        return {"type": "Suspended", "status": "True"} in conditions

    def said(self, name: str = "train") -> dict[str, str]:
        """Return our condition, as `kubectl describe` shows it."""
        return dict(job_words.condition_of(self.job(name)))

    def told(self) -> list[JSON]:
        """Return the events about MPIJobs, the oldest first."""
        found = self.kube.calls.list("/api/v1/namespaces/research/events")[0]
        assert all(event["involvedObject"]["kind"] == "MPIJob" for event in found)
        return sorted(found, key=lambda event: int(event["metadata"]["name"].rpartition(".")[2]))

    def events(self) -> list[str]:
        return [event["reason"] for event in self.told()]


def patched(job: JSON, response: JSON) -> JSON:
    """Return the job as the API server takes it in, by what an admission webhook says."""
    assert response["allowed"]
    assert response["patchType"] == "JSONPatch"
    found = copy.deepcopy(job)
    for one in json.loads(base64.b64decode(response["patch"])):
        assert one["op"] == "add"
        *way, last = one["path"].strip("/").split("/")
        at = found
        for step in way:
            at = at[step]
        at[last] = one["value"]
    return found


def mpijob(
    name: str = "train",
    *,
    workers: int = 1,
    cards: int = 8,
    launcher: str = "sleep 0.5",
    business: str = "ads",
    suspend: bool = True,
    resource: str = "nvidia.com/gpu",
    **said: str,
) -> JSON:
    """Return an MPIJob as its owner writes it; `said` are annotations, with _ for -."""
    notes = {f"taiji.io/{key.replace('_', '-')}": value for key, value in {"owner": "ann", **said}.items()}
    limits = {"limits": {resource: str(cards)}} if cards else {}
    trap = "trap 'exit 0' TERM; while :; do sleep 0.1; done"
    worker = {"name": "w", "image": "x", "command": ["sh", "-c", trap], "resources": limits}
    run = {"name": "l", "image": "x", "command": ["sh", "-c", launcher]}
    return {
        "apiVersion": "kubeflow.org/v2beta1",
        "kind": "MPIJob",
        "metadata": {"name": name, "labels": {"taiji.io/business": business}, "annotations": notes},
        "spec": {
            "runPolicy": {"suspend": suspend},
            "mpiReplicaSpecs": {
                "Launcher": {"replicas": 1, "template": {"spec": {"containers": [run]}}},
                "Worker": {"replicas": workers, "template": {"spec": {"containers": [worker]}}},
            },
        },
    }
