"""A stand-in for the MPI operator, as far as it was seen: pods of an MPIJob come and go as that is told to run."""

import uuid
from contextlib import suppress
from typing import Any

from cluster.kubernetes.calls import Calls, Conflict

JSON = dict[str, Any]
KIND = "/apis/kubeflow.org/v2beta1"


class Operator:
    """It looks at every job when it is asked to."""

    def __init__(self, calls: Calls) -> None:
        """Know the cluster by its API."""
        self.calls = calls
        self._furnished: set[tuple[str, str]] = set()  # uid of a job, kind
        # By uid: of jobs that came suspended. Their launchers are made from what stood there then, and wait for nobody.
        self._launchers: dict[str, JSON] = {}

    def tick(self) -> None:
        """Bring every job a step further."""
        for job in self.calls.list(f"{KIND}/mpijobs")[0]:
            self._tend(job)

    def _tend(self, job: JSON) -> None:
        if job["metadata"].get("deletionTimestamp"):
            return None  # it does nothing for one that is leaving, whoever holds it
        self._furnish(job)
        conditions = {one["type"]: one["status"] for one in (job.get("status") or {}).get("conditions") or ()}
        if "True" in {conditions.get("Succeeded"), conditions.get("Failed")}:
            return None if _policy(job).get("cleanPodPolicy") == "None" else self._clean(job)
        if _policy(job).get("suspend"):
            self._say(job, Suspended="True", Running="False")  # at once, while pods are still there
            return self._clean(job)
        workers = self._workers(job)
        are_up = len(workers) == _workers_of(job)["replicas"] and all(
            {"type": "Ready", "status": "True"} in pod["status"].get("conditions", ()) for pod in workers
        )
        is_there = job["metadata"]["uid"] in self._launchers
        if is_there or are_up or job["spec"].get("launcherCreationPolicy", "AtStartup") == "AtStartup":
            self._launch(job, are_up=are_up)
        return self._say(job, Suspended="False")

    def _furnish(self, job: JSON) -> None:
        """Have what its pods need: the service by which they are found, the host file, the keys."""
        metadata = job["metadata"]
        is_new = not any(uid == metadata["uid"] for uid, _ in self._furnished)
        if is_new and _policy(job).get("suspend"):
            self._launchers[metadata["uid"]] = job["spec"]["mpiReplicaSpecs"].get("Launcher", {})
        for kind, ending in (("Service", ""), ("ConfigMap", "-config"), ("Secret", "-ssh")):
            folder = f"/api/v1/namespaces/{metadata['namespace']}/{kind.lower()}s"
            owned = {"name": metadata["name"] + ending, "ownerReferences": [_owner(job)]}
            if (metadata["uid"], kind) not in self._furnished:
                with suppress(Conflict):
                    self.calls.create(folder, {"apiVersion": "v1", "kind": kind, "metadata": owned})
                self._furnished.add((metadata["uid"], kind))

    def _workers(self, job: JSON) -> list[JSON]:
        """Make the workers that are missing; return those that are there."""
        spec = _workers_of(job)
        names = [f"{job['metadata']['name']}-worker-{number}" for number in range(spec["replicas"])]
        there = {pod["metadata"]["name"]: pod for pod in self._pods(job)}
        for number, name in enumerate(names):
            if name not in there:
                index = {"training.kubeflow.org/replica-index": str(number)}
                self._make(job, name, name, spec["template"], "worker", index)
        return [there[name] for name in names if name in there]

    def _launch(self, job: JSON, *, are_up: bool) -> None:
        """Do what the launcher's Job would: one pod, of a name that nobody knows before."""
        role = "training.kubeflow.org/job-role"
        there = [pod for pod in self._pods(job) if pod["metadata"]["labels"][role] == "launcher"]
        if not there:
            host = f"{job['metadata']['name']}-launcher"
            name = f"{host}-{uuid.uuid4().hex[:5]}"
            made_of = (
                self._launchers.get(job["metadata"]["uid"]) or job["spec"]["mpiReplicaSpecs"]["Launcher"]
            )
            self._make(job, name, host, made_of["template"], "launcher", {})
            return
        phase, metadata = there[0]["status"].get("phase"), there[0]["metadata"]
        if phase in {"Succeeded", "Failed"}:
            self._say(job, Running="False", **{phase: "True"})
        elif metadata.get("deletionTimestamp") and _policy(job).get("backoffLimit") == 0:
            self._say(job, Running="False", Failed="True")
        elif phase == "Running" and are_up:
            self._say(job, Running="True")

    def _make(self, job: JSON, name: str, host: str, template: JSON, role: str, more: JSON) -> None:
        # Labels and annotations of a template come to its pods, and no finalizers.
        given = template.get("metadata") or {}
        labels = {
            **(given.get("labels") or {}),
            "training.kubeflow.org/job-name": job["metadata"]["name"],
            "training.kubeflow.org/job-role": role,
            **more,
        }
        notes = given.get("annotations") or {}
        about = {"name": name, "labels": labels, "annotations": notes, "ownerReferences": [_owner(job)]}
        found = {"hostname": host, "subdomain": job["metadata"]["name"]}
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": about,
            "spec": {**template["spec"], **found, "restartPolicy": "Never"},
        }
        try:
            self.calls.create(f"/api/v1/namespaces/{job['metadata']['namespace']}/pods", pod)
        except Conflict:
            return  # the one before is not gone yet

    def _clean(self, job: JSON) -> None:
        for pod in self._pods(job):
            is_over = pod["status"].get("phase") in {"Succeeded", "Failed"}
            # What failed stays, and is taken for a worker of the next run, unless all are to be cleaned.
            is_all = _policy(job).get("cleanPodPolicy") == "All" and "-worker-" in pod["metadata"]["name"]
            if is_all if is_over else not pod["metadata"].get("deletionTimestamp"):
                metadata = pod["metadata"]
                self.calls.delete(f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}")

    def _pods(self, job: JSON) -> list[JSON]:
        selector = f"training.kubeflow.org/job-name={job['metadata']['name']}"
        return self.calls.list("/api/v1/pods", labelSelector=selector)[0]

    def _say(self, job: JSON, **conditions: str) -> None:
        """Write its conditions as it knows the job: those of others stay, and where it knows an old one, it fails."""
        metadata, status = job["metadata"], job.get("status") or {}
        known = {one["type"]: one for one in status.get("conditions") or ()}
        news = {name: said for name, said in conditions.items() if known.get(name, {}).get("status") != said}
        if not known:
            news = {"Created": "True", **news}
        if not news:
            return
        said = {**known, **{name: {"type": name, "status": value} for name, value in news.items()}}
        path = f"{KIND}/namespaces/{metadata['namespace']}/mpijobs/{metadata['name']}/status"
        with suppress(Conflict):  # it sees the job anew with the next tick
            self.calls.replace(path, {**job, "status": {**status, "conditions": list(said.values())}})


def _policy(job: JSON) -> JSON:
    return job["spec"].get("runPolicy") or {}


def _owner(job: JSON) -> JSON:
    found: JSON = {"apiVersion": "kubeflow.org/v2beta1", "kind": "MPIJob", "controller": True}
    return found | {name: job["metadata"][name] for name in ("name", "uid")}


def _workers_of(job: JSON) -> JSON:
    """Return what a job says of its workers, with what the operator takes where it says nothing."""
    return {"replicas": 0, "template": {}, **job["spec"]["mpiReplicaSpecs"].get("Worker", {})}
