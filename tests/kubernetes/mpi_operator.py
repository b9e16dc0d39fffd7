"""A stand-in for the MPI operator, as far as it was seen: pods of an MPIJob come and go as that is told to run."""

from typing import Any

from cluster.kubernetes.calls import Calls, Conflict

JSON = dict[str, Any]
KIND = "/apis/kubeflow.org/v2beta1"


class Operator:
    """It looks at every job when it is asked to."""

    def __init__(self, calls: Calls) -> None:
        """Know the cluster by its API."""
        self.calls = calls

    def tick(self) -> None:
        """Bring every job a step further."""
        for job in self.calls.list(f"{KIND}/mpijobs")[0]:
            self._tend(job)

    def _tend(self, job: JSON) -> None:
        conditions = {one["type"]: one["status"] for one in (job.get("status") or {}).get("conditions") or ()}
        if "True" in {conditions.get("Succeeded"), conditions.get("Failed")}:
            return self._clean(job)
        if (job["spec"].get("runPolicy") or {}).get("suspend"):
            self._say(job, Suspended="True", Running="False")  # at once, while pods are still there
            return self._clean(job)
        workers = self._workers(job)
        if len(workers) == job["spec"]["mpiReplicaSpecs"]["Worker"]["replicas"] and all(
            pod["status"].get("phase") == "Running" for pod in workers
        ):
            self._launch(job)
        return self._say(job, Suspended="False")

    def _workers(self, job: JSON) -> list[JSON]:
        """Make the workers that are missing; return those that are there."""
        spec = job["spec"]["mpiReplicaSpecs"]["Worker"]
        names = [f"{job['metadata']['name']}-worker-{number}" for number in range(spec["replicas"])]
        there = {pod["metadata"]["name"]: pod for pod in self._pods(job)}
        for name in names:
            if name not in there:
                self._make(job, name, spec["template"], "worker")
        return [there[name] for name in names if name in there]

    def _launch(self, job: JSON) -> None:
        name = f"{job['metadata']['name']}-launcher"
        there = {pod["metadata"]["name"]: pod for pod in self._pods(job)}
        if name not in there:
            self._make(job, name, job["spec"]["mpiReplicaSpecs"]["Launcher"]["template"], "launcher")
            return
        phase = there[name]["status"].get("phase")
        if phase == "Running":
            self._say(job, Running="True")
        elif phase in {"Succeeded", "Failed"}:
            self._say(job, Running="False", **{phase: "True"})

    def _make(self, job: JSON, name: str, template: JSON, role: str) -> None:
        given = template.get("metadata") or {}
        labels = {
            **(given.get("labels") or {}),
            "training.kubeflow.org/job-name": job["metadata"]["name"],
            "training.kubeflow.org/job-role": role,
        }
        owner = {"apiVersion": "kubeflow.org/v2beta1", "kind": "MPIJob", "controller": True}
        owner |= {name: job["metadata"][name] for name in ("name", "uid")}
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "labels": labels, "ownerReferences": [owner]},
            "spec": {**template["spec"], "restartPolicy": "Never"},
        }
        try:
            self.calls.create(f"/api/v1/namespaces/{job['metadata']['namespace']}/pods", pod)
        except Conflict:
            return  # the one before is not gone yet

    def _clean(self, job: JSON) -> None:
        for pod in self._pods(job):
            is_over = pod["status"].get("phase") in {"Succeeded", "Failed"}
            is_suspended = (job["spec"].get("runPolicy") or {}).get("suspend")
            if is_suspended if is_over else not pod["metadata"].get("deletionTimestamp"):
                metadata = pod["metadata"]
                self.calls.delete(f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}")

    def _pods(self, job: JSON) -> list[JSON]:
        selector = f"training.kubeflow.org/job-name={job['metadata']['name']}"
        return self.calls.list("/api/v1/pods", labelSelector=selector)[0]

    def _say(self, job: JSON, **conditions: str) -> None:
        metadata = job["metadata"]
        known = {one["type"]: one["status"] for one in (job.get("status") or {}).get("conditions") or ()}
        new = {**known, **conditions}
        if new == known:
            return
        said = [{"type": name, "status": status} for name, status in sorted(new.items())]
        path = f"{KIND}/namespaces/{metadata['namespace']}/mpijobs/{metadata['name']}/status"
        self.calls.patch(path, {"status": {"conditions": said}})
