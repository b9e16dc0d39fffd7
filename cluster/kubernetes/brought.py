"""MPIJobs that people make with kubectl: run and suspended as their tasks are."""

import logging
import math
import time
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from django.db.models import QuerySet

from cluster import hints, mpijob_asks
from cluster.kubernetes import hosts, job_logs, mpijobs, names, seen, telling
from cluster.kubernetes.calls import Calls, Conflict, Missing, Refused
from cluster.kubernetes.log_keeper import LogKeeper
from cluster.kubernetes.options import Options
from cluster.kubernetes.orders import DETAIL_AT_MOST, NotYet
from cluster.kubernetes.outcomes import NotTaken, Outcome
from cluster.kubernetes.pod_logs import Source
from cluster.kubernetes.posts import Post
from cluster.kubernetes.seat import Seat
from cluster.kubernetes.telling import Telling
from cluster.kubernetes.troubles import Troubles
from cluster.kubernetes.unseen import Unseen
from cluster.kubernetes.watch import Mirror
from cluster.kubernetes.work import Work
from cluster.models import BroughtJob, Instance, Region
from cluster.mpijob_asks import Ask

log = logging.getLogger(__name__)
JSON = dict[str, Any]
GONE = "The MPIJob is no more, or is another by now."


class Brought:
    """The MPIJobs of one cluster that name a business."""

    def __init__(self, calls: Calls, options: Options, changed: Callable[[], None]) -> None:
        """Watch them, and their pods, in all namespaces."""
        self._calls, self._options = calls, options
        self._jobs = Mirror(calls, f"{names.JOBS}/mpijobs", changed, labelSelector=names.BUSINESS)
        self._pods = Mirror(calls, "/api/v1/pods", changed, labelSelector=names.BROUGHT)
        launchers = f"{names.JOB_ROLE}={names.LAUNCHER},!{names.GANG}"
        self._launchers = Mirror(calls, "/api/v1/pods", changed, labelSelector=launchers)
        self.mirrors = (self._jobs, self._pods, self._launchers)
        self._telling = Telling(calls, Work(changed, telling.THREADS))
        self._logs = LogKeeper(calls)
        self._troubles = Troubles(options, math.inf)
        self._patched = Unseen[str]()  # by uid
        self._ran: dict[
            int, str
        ] = {}  # uid by attempt that holds cards, also where the MPIJob is gone before its pods

    def gather(self, posts: Mapping[int, Post], region: Region, work: Work) -> None:
        """Give each host the members of attempts that run there, note what is new, and say what is news."""
        jobs = {job["metadata"]["uid"]: job for job in map(self._latest, self._jobs.objects())}
        live = hosts.wanted(region).values()
        uids = self._ran | {gang: uid for uid, job in jobs.items() if (gang := mpijobs.attempt_of(job))}
        self._ran = {row.gang: uids[row.gang] for row in live if row.gang in uids}
        self._give(posts, jobs, live, work)
        running = {row.gang for row in live if row.wanted}
        for job in jobs.values():
            runs = not mpijobs.is_suspended(job) and not mpijobs.ended(job)
            if runs and mpijobs.attempt_of(job) not in running:
                work.begin(_key(job), partial(self._suspend, job))
        self._note(jobs, region)
        self._telling.tell(jobs, region)
        self._logs.keep({row.id for row in live})
        self._troubles.keep({uuid.UUID(pod["metadata"]["uid"]) for pod in self._printing()})
        self._logs.look()
        hints.publish(*(f"log.{gang}" for gang in sorted(self._logs.news())))

    def runs(self, pod: Mapping[str, Any]) -> bool:
        """Say whether a pod is of an attempt that holds cards here: its labels alone may be of another platform."""
        uid = self._ran.get(mpijobs.attempt_of(pod) or 0)
        return uid is not None and names.labels_of(pod).get(names.BROUGHT) == uid

    def close(self) -> None:
        """End what reads logs, and what tells."""
        self._telling.close()
        self._logs.stop()

    def _give(
        self, posts: Mapping[int, Post], jobs: Mapping[str, JSON], live: Iterable[Seat], work: Work
    ) -> None:
        by_gang = {mpijobs.attempt_of(job): job for job in jobs.values()}
        pods: dict[int | None, list[JSON]] = defaultdict(list)
        for pod in self._pods.objects():
            pods[mpijobs.attempt_of(pod)].append(pod)
        launchers = self._launchers_by_job()
        for gang, job in by_gang.items():
            pods[gang] += mpijobs.launchers(job, launchers[_named(job)])
            for launcher in mpijobs.due(job, pods[gang]):
                work.begin(uuid.UUID(launcher["metadata"]["uid"]), partial(self._let_start, launcher))
        for seat in live:
            if seat.gang not in by_gang and seat.gang not in pods:
                continue
            pod = mpijobs.member(seat, by_gang.get(seat.gang), pods[seat.gang])
            posts[seat.host].pods[seat.id] = pod
            printed = job_logs.sources(seat.rank, seat.node, pods[seat.gang])
            self._logs.follow_all(seat.id, seat.gang, printed, is_all=seen.is_gone(pod))
            self._say_troubles(seat, printed)

    def _say_troubles(self, seat: Seat, printed: Iterable[Source]) -> None:
        """Write into the log of a member what keeps its pods, once: how long to wait is for their owner to say."""
        for source in printed:
            _, words, _ = self._troubles.look(uuid.UUID(source.key), source.pod, time.monotonic())
            if words:
                self._logs.say(seat.id, seat.gang, words)

    def start(self, member: hosts.Asked, spec: Mapping[str, Any], nodes: Sequence[str]) -> Outcome:
        """Run the job of a member's attempt, on the nodes of all of them; the first that is asked does it for all."""
        seat, asked = member.seat, spec["mpijob"]
        path = _path(asked)
        try:
            job = self._calls.get(path)
            if job["metadata"]["uid"] != asked["uid"]:
                return _not_taken(seat, GONE)
            planned, wanted = ", ".join(sorted(member.resources)), mpijob_asks.resource_of(job)
            if planned != wanted:
                return _not_taken(seat, f"It asks for {wanted}, and was planned on {planned}.")
            if mpijobs.attempt_of(job) != seat.gang:
                self._run(job, seat.gang, path, nodes)
        except Missing:
            return _not_taken(seat, GONE)
        except Conflict as conflict:
            raise NotYet(f"{path} was changed meanwhile") from conflict
        except Refused as refused:
            return _not_taken(seat, f"The cluster does not take the change of the MPIJob: {refused}")
        return None

    def _run(self, job: JSON, gang: int, path: str, nodes: Sequence[str]) -> None:
        uid = job["metadata"]["uid"]
        workers = [pod for pod in self._pods.objects() if names.labels_of(pod).get(names.BROUGHT) == uid]
        launchers = self._launchers_by_job()[_named(job)]
        if any(not seen.is_gone(pod) for pod in (*workers, *launchers)):
            raise NotYet(f"pods of {path} are left of an earlier attempt")
        after = max(map(mpijobs.made_at, launchers), default="")
        patch = mpijobs.starting(job, gang, nodes, self._options.tolerations, after)
        # As it was read: of two who start it, one is told of a conflict.
        patch["metadata"]["resourceVersion"] = job["metadata"]["resourceVersion"]
        self._patch(path, uid, patch)

    def _let_start(self, pod: Mapping[str, Any]) -> None:
        """Take our gate from a launcher; those of others stay."""
        metadata = pod["metadata"]
        rest = [gate for gate in pod["spec"]["schedulingGates"] if gate["name"] != names.GATE]
        body = {
            "metadata": {"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]},
            "spec": {"schedulingGates": rest or None},
        }
        try:
            self._calls.patch(f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}", body)
        except (Missing, Conflict):
            log.info("the launcher %s changed meanwhile, or is no more", metadata["name"])

    def _printing(self) -> list[JSON]:
        return [*self._pods.objects(), *self._launchers.objects()]

    def _launchers_by_job(self) -> dict[tuple[str, str], list[JSON]]:
        """Return all launchers that there are, by the namespace and the name of their job."""
        found: dict[tuple[str, str], list[JSON]] = defaultdict(list)
        for pod in self._launchers.objects():
            found[pod["metadata"]["namespace"], names.labels_of(pod).get(names.JOB_NAME, "")].append(pod)
        return found

    def _patch(self, path: str, uid: str, patch: JSON) -> None:
        self._patched.note(uid, self._calls.patch(path, patch))

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
        patched = self._patched.find(uid)
        if patched is None:
            return job
        # Or somebody else changed it since: then what the watch shows is the later.
        if _same(job, patched) or self._patched.is_late(uid):
            self._patched.forget(uid, patched)
            return job
        return patched

    def _note(self, jobs: Mapping[str, JSON], region: Region) -> None:
        """Write down jobs that are new, those that are no more, and what was changed of those that were refused."""
        rows = BroughtJob.objects.filter(region=region, deleted=False)
        known = dict(rows.values_list("uid", "state"))
        if new := sorted(jobs.keys() - known.keys()):
            kinds = hosts.kinds(region)
            made = [_row(jobs[uid], region, kinds) for uid in new]
            BroughtJob.objects.bulk_create(made, ignore_conflicts=True)
        if gone := known.keys() - jobs.keys():
            rows.filter(uid__in=gone).update(deleted=True)
        refused = [uid for uid, state in known.items() if state == BroughtJob.REFUSED and uid in jobs]
        mended = self._mend(rows.filter(uid__in=refused), jobs, region) if refused else False
        if new or gone or mended:
            hints.wake_pass()

    def _mend(self, refused: QuerySet[BroughtJob], jobs: Mapping[str, JSON], region: Region) -> bool:
        """Have those looked at anew that ask for something else by now, or whose cards are there; say if any is."""
        kinds, changed = hosts.kinds(region), False
        for row in refused:
            latest = _row(jobs[row.uid], region, kinds)
            if values := {name: getattr(latest, name) for name in _READ if _differ(name, row, latest)}:
                same = refused.filter(pk=row.pk, task=None, state=BroughtJob.REFUSED)
                changed |= bool(same.update(**values, state=""))
        return changed


_READ = ("owner", "document", "types", "faults")  # what a row says of its job


def _differ(name: str, one: BroughtJob, other: BroughtJob) -> bool:
    return bool(getattr(one, name) != getattr(other, name))


def _not_taken(seat: Seat, sentence: str) -> NotTaken:
    return NotTaken(hosts={seat.id: seat.host}, sentence=sentence[:DETAIL_AT_MOST])


def nodes_of(gang: int) -> list[str]:
    """Return the nodes of an attempt, by rank."""
    return list(Instance.objects.filter(gang=gang).order_by("rank").values_list("host__node", flat=True))


def _row(job: JSON, region: Region, kinds: Mapping[str, Sequence[str]]) -> BroughtJob:
    ask, metadata = mpijob_asks.read(job, region.name), job["metadata"]
    owner = names.annotations_of(job).get(names.OWNER, "")
    faults = [] if owner else [f"Nobody knows who made it: it has no annotation {names.OWNER}."]
    types = kinds.get(ask.resource, ())
    faults += [*ask.faults, *_odd_types(ask, types, kinds)]
    return BroughtJob(
        region=region,
        uid=metadata["uid"],
        namespace=metadata["namespace"],
        name=metadata["name"],
        owner=owner[:150],
        document=dict(ask.document),
        types=list(types),
        faults=faults,
    )


def _odd_types(ask: Ask, types: Sequence[str], kinds: Mapping[str, Sequence[str]]) -> list[str]:
    """Say what is wrong with the kind of cards that it asks for, as far as the hosts of its cluster tell."""
    if not ask.resource:
        return []
    if not types:
        known = ", ".join(sorted(kinds)) or "none"
        return [f"No host of this cluster has {ask.resource}; there are {known}."]
    named = str(ask.document.get("GPUName", ""))
    others = {
        name.casefold() for resource, each in kinds.items() if resource != ask.resource for name in each
    }
    others -= {name.casefold() for name in types}
    odd = [name.strip() for name in named.split(",") if name.strip().casefold() in others]
    sentence = "The annotation {note} names {odd}: as {resource} this cluster has only {types}."
    said = sentence.format(
        note=f"{names.GROUP}/gpu-type", odd=", ".join(odd), resource=ask.resource, types=", ".join(types)
    )
    return [said] if odd else []


def _same(one: JSON, other: JSON) -> bool:
    """Say whether both are told to run, or not, and as the same attempt."""
    return (mpijobs.is_suspended(one), mpijobs.attempt_of(one)) == (
        mpijobs.is_suspended(other),
        mpijobs.attempt_of(other),
    )


def _named(job: Mapping[str, Any]) -> tuple[str, str]:
    return job["metadata"]["namespace"], job["metadata"]["name"]


def _key(job: Mapping[str, Any]) -> uuid.UUID:
    return uuid.uuid5(uuid.NAMESPACE_OID, f"mpijob {job['metadata']['uid']}")


def _path(named: Mapping[str, Any]) -> str:
    return names.job_path(named["namespace"], named["name"])
