"""MPIJobs that people make with kubectl: run and suspended as their tasks are, and told where those stand."""

import hashlib
import logging
import threading
import time
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from typing import Any

from cluster import hints
from cluster.kubernetes import hosts, mpijobs, names
from cluster.kubernetes.calls import Calls, Conflict, Missing, Refused
from cluster.kubernetes.options import Options
from cluster.kubernetes.orders import DETAIL_AT_MOST, NameTaken, Outcome
from cluster.kubernetes.posts import Post
from cluster.kubernetes.watch import Mirror
from cluster.kubernetes.work import Work
from cluster.models import BroughtJob, Instance, Region

log = logging.getLogger(__name__)
JSON = dict[str, Any]
KIND = "/apis/kubeflow.org/v2beta1"
CONFIRM_S = 5.0  # what we patched and do not see for so long is asked for
GONE = "The MPIJob is no more, or is another by now."


class Brought:
    """The MPIJobs of one cluster that name a business."""

    def __init__(self, calls: Calls, options: Options, changed: Callable[[], None]) -> None:
        """Watch them, and their pods, in all namespaces."""
        self._calls, self._options = calls, options
        self._jobs = Mirror(calls, f"{KIND}/mpijobs", changed, labelSelector=names.BUSINESS)
        self._pods = Mirror(calls, "/api/v1/pods", changed, labelSelector=names.BROUGHT)
        self.mirrors = (self._jobs, self._pods)
        self._lock = threading.Lock()
        self._patched: dict[str, tuple[float, JSON]] = {}  # by uid: what the watch has not shown yet

    def gather(self, posts: Mapping[int, Post], nodes: Mapping[int, str], region: Region, work: Work) -> None:
        """Give each host the members of attempts that run there, note what is new, and say what is news."""
        jobs = {job["metadata"]["uid"]: job for job in map(self._latest, self._jobs.objects())}
        live = hosts.wanted(region).values()
        self._give(posts, nodes, jobs, live)
        running = {row.gang for row in live if row.wanted}
        for job in jobs.values():
            runs = not mpijobs.is_suspended(job) and not mpijobs.ended(job)
            if runs and mpijobs.attempt_of(job) not in running:
                work.begin(_key(job), partial(self._suspend, job))
        self._note(jobs, region)
        self._tell(jobs, region, work)

    def _give(
        self,
        posts: Mapping[int, Post],
        nodes: Mapping[int, str],
        jobs: Mapping[str, JSON],
        live: Iterable[hosts.Wanted],
    ) -> None:
        by_gang = {mpijobs.attempt_of(job): job for job in jobs.values()}
        pods: dict[int | None, list[JSON]] = defaultdict(list)
        for pod in self._pods.objects():
            pods[mpijobs.attempt_of(pod)].append(pod)
        for row in live:
            if row.gang not in by_gang and row.gang not in pods:
                continue
            place = mpijobs.Place(
                id=str(row.id),
                gang=row.gang,
                rank=row.rank,
                host=row.host,
                node=nodes[row.host],
                wanted=row.wanted,
            )
            pod = mpijobs.member(place, by_gang.get(row.gang), pods[row.gang])
            posts[row.host].pods[row.id] = pod

    def start(self, place: hosts.Place, spec: Mapping[str, Any], nodes: Sequence[str]) -> Outcome:
        """Run the job of a member's attempt, on the nodes of all of them; the first that is asked does it for all."""
        asked = spec["mpijob"]
        path = _path(asked)
        try:
            job = self._calls.get(path)
            if job["metadata"]["uid"] != asked["uid"]:
                return "refused", place.host, GONE
            if mpijobs.attempt_of(job) != place.gang:
                self._run(job, place.gang, path, nodes)
        except Missing:
            return "refused", place.host, GONE
        except Conflict as conflict:
            raise NameTaken(f"{path} was changed meanwhile") from conflict
        except Refused as refused:
            said = f"The cluster does not take the change of the MPIJob: {refused}"
            return "refused", place.host, said[:DETAIL_AT_MOST]
        return "there", {}

    def _run(self, job: JSON, gang: int, path: str, nodes: Sequence[str]) -> None:
        uid = job["metadata"]["uid"]
        left = [pod for pod in self._pods.objects() if names.labels_of(pod).get(names.BROUGHT) == uid]
        if any(not mpijobs.is_over(pod) for pod in left):
            raise NameTaken(f"pods of {path} are left of an earlier attempt")
        patch = mpijobs.starting(job, gang, nodes, self._options.tolerations)
        # As it was read: of two who start it, one is told of a conflict.
        patch["metadata"]["resourceVersion"] = job["metadata"]["resourceVersion"]
        self._patch(path, uid, patch)

    def _patch(self, path: str, uid: str, patch: JSON) -> None:
        patched = self._calls.patch(path, patch)
        with self._lock:
            self._patched[uid] = (time.monotonic(), patched)

    def stop(self, pod: Mapping[str, Any]) -> None:
        """Suspend the job of a member's attempt."""
        gang = int(names.labels_of(pod)[names.GANG])
        for job in self._jobs.objects():
            latest = self._latest(job)
            if mpijobs.attempt_of(latest) == gang and not mpijobs.is_suspended(latest):
                self._suspend(latest)

    def _suspend(self, job: Mapping[str, Any]) -> None:
        uid = job["metadata"]["uid"]
        try:
            self._patch(_path(job["metadata"]), uid, {**mpijobs.suspending(), "metadata": {"uid": uid}})
        except (Missing, Conflict):
            log.info("the MPIJob %s is no more", job["metadata"]["name"])

    def _latest(self, job: JSON) -> JSON:
        """Return a job as we last changed it, until the watch shows that or something later."""
        uid = job["metadata"]["uid"]
        with self._lock:
            at, patched = self._patched.get(uid, (0.0, job))
            # Or somebody else changed it since: then what the watch shows is the later.
            if _same(job, patched) or time.monotonic() - at > CONFIRM_S:
                self._patched.pop(uid, None)
                return job
        return patched

    def _note(self, jobs: Mapping[str, JSON], region: Region) -> None:
        """Write down jobs that are new, and those that are no more."""
        rows = BroughtJob.objects.filter(region=region, deleted=False)
        known = set(rows.values_list("uid", flat=True))
        new = [_row(jobs[uid], region) for uid in sorted(jobs.keys() - known)]
        BroughtJob.objects.bulk_create(new, ignore_conflicts=True)
        if gone := known - jobs.keys():
            rows.filter(uid__in=gone).update(deleted=True)
        if new or gone:
            hints.wake_pass()

    def _tell(self, jobs: Mapping[str, JSON], region: Region, work: Work) -> None:
        """Say on each job where its task stands, where that is news."""
        rows = BroughtJob.objects.filter(region=region, deleted=False).exclude(state="")
        for row in rows:
            job = jobs.get(row.uid)
            if job is not None and _told(row).items() - names.annotations_of(job).items():
                work.begin(_key(job), partial(self._say, job, row))

    def _say(self, job: JSON, row: BroughtJob) -> None:
        metadata = job["metadata"]
        try:
            # First, so that none is lost where this breaks off in between; its name keeps it from being said twice.
            with suppress(Conflict):
                self._calls.create(f"/api/v1/namespaces/{metadata['namespace']}/events", _event(job, row))
            patch = {"metadata": {"uid": row.uid, "annotations": _told(row)}}
            self._calls.patch(_path(metadata), patch)
        except (Missing, Conflict):
            log.info("the MPIJob %s is no more", metadata["name"])


def nodes_of(gang: int) -> list[str]:
    """Return the nodes of an attempt, by rank."""
    return list(Instance.objects.filter(gang=gang).order_by("rank").values_list("host__node", flat=True))


def _row(job: JSON, region: Region) -> BroughtJob:
    ask, metadata = mpijobs.read(job, region.name), job["metadata"]
    return BroughtJob(
        region=region,
        uid=metadata["uid"],
        namespace=metadata["namespace"],
        name=metadata["name"],
        owner=ask.owner[:150],
        document=dict(ask.document),
        faults=list(ask.faults),
    )


def _same(one: JSON, other: JSON) -> bool:
    """Say whether both are told to run, or not, and as the same attempt."""
    return (mpijobs.is_suspended(one), mpijobs.attempt_of(one)) == (
        mpijobs.is_suspended(other),
        mpijobs.attempt_of(other),
    )


def _told(row: BroughtJob) -> dict[str, str]:
    number = {f"{names.GROUP}/task": str(row.task)} if row.task else {}
    return {**number, f"{names.GROUP}/state": row.state, f"{names.GROUP}/reason": row.sentence}


def _event(job: JSON, row: BroughtJob) -> JSON:
    """Return an event on the job, whose name follows from what it says: said once however often it is tried."""
    metadata, words = job["metadata"], f"{row.uid} {mpijobs.attempt_of(job)} {row.state} {row.sentence}"
    about = {name: metadata[name] for name in ("name", "namespace", "uid")}
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {
            "name": f"{metadata['name'][:200]}.{hashlib.sha256(words.encode()).hexdigest()[:16]}",
            "namespace": metadata["namespace"],
        },
        "involvedObject": {"apiVersion": "kubeflow.org/v2beta1", "kind": "MPIJob", **about},
        "type": "Warning" if row.state in {"refused", "failed"} else "Normal",
        "reason": f"Task{row.state.title()}",
        "message": row.sentence or f"Task {row.task} is {row.state}.",
        "source": {"component": "taiji"},
        "firstTimestamp": now,
        "lastTimestamp": now,
        "count": 1,
    }


def _key(job: Mapping[str, Any]) -> uuid.UUID:
    return uuid.uuid5(uuid.NAMESPACE_OID, f"mpijob {job['metadata']['uid']}")


def _path(named: Mapping[str, Any]) -> str:
    return f"{KIND}/namespaces/{named['namespace']}/mpijobs/{named['name']}"
