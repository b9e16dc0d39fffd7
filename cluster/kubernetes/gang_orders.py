"""Gangs that run as MPIJobs: made, seen and ended so that they say what pods of our own would say."""

import logging
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any

from cluster import clock
from cluster.kubernetes import ceph, gang_job, gang_seats, hosts, names, pods
from cluster.kubernetes.calls import Calls, Conflict, Missing, Refused
from cluster.kubernetes.options import Options
from cluster.kubernetes.orders import DETAIL_AT_MOST, NotYet, Orders
from cluster.kubernetes.outcomes import NotTaken, Outcome
from cluster.kubernetes.pods import Member
from cluster.kubernetes.posts import Post
from cluster.kubernetes.seat import Seat
from cluster.kubernetes.seen import is_gone, is_leaving
from cluster.kubernetes.unseen import Unseen
from cluster.kubernetes.watch import Mirror
from cluster.kubernetes.work import Work

log = logging.getLogger(__name__)
JSON = dict[str, Any]
Say = Callable[[uuid.UUID, int, str], None]  # into the log of an instance of a gang
OPERATOR_S = 30.0  # an MPIJob of which the operator says nothing for so long is told of
DENIED = "the cluster shows no MPIJobs at the moment"
AWAY = "The MPI operator of the cluster has done nothing yet for MPIJob {name}: the task starts when it does."


class GangOrders:
    """The MPIJobs that one cluster's controller makes."""

    def __init__(
        self, calls: Calls, options: Options, orders: Orders, changed: Callable[[], None], say: Say
    ) -> None:
        """Watch those of the region, where the cluster knows the kind."""
        self._calls, self._options, self._orders, self._say = calls, options, orders, say
        self._folder = gang_job.folder(options)
        mine = f"{names.REGION}={names.region_label(options.region)}"
        self._jobs = Mirror(calls, self._folder, changed, optional=True, labelSelector=mine)
        self.mirrors = (self._jobs,) if options.gang_jobs else ()
        self._made = Unseen[int]()  # MPIJobs by gang
        self._told: set[int] = set()  # gangs that were told that the operator is away
        self.hosts: dict[int, str] = {}  # the host files of gangs of which every member has its place

    def is_served(self) -> bool:
        """Say whether the cluster knows the kind, and lets us see it."""
        return not self._jobs.absent

    def gather(
        self, posts: Mapping[int, Post], every: Iterable[JSON], work: Work
    ) -> tuple[set[uuid.UUID], list[JSON]]:
        """Give each host the pods of members that are there, `every` being all pods of MPIJobs of ours.

        Return whose those are, and the pods that are nobody's. What there is to do to whole MPIJobs is begun.
        """
        jobs, (of_gang, strays) = self._known(work), _by_gang(every)
        shown: set[uuid.UUID] = set()
        self.hosts = {}
        for gang, seats in hosts.seats(jobs.keys() | of_gang.keys()).items():
            job, its = jobs.get(gang), of_gang.get(gang, [])
            found, others = gang_seats.seated([one for one in seats if one.host in posts], job, its)
            strays += others
            for seat, pod in found.items():
                posts[seat.host].pods[seat.id] = pod
            shown |= {seat.id for seat, pod in found.items() if gang_seats.is_there(pod)}
            self._hold(found, work)
            if job is not None:
                self.hosts[gang] = gang_seats.host_lines(found, job)
                self._tend(gang, job, seats, its, work)
                self._tell(gang, job, seats)
        self._told &= jobs.keys()
        return shown, strays

    def launch(self, members: Sequence[Member]) -> Outcome:
        """Have the MPIJob of a gang; raises NotYet, calls.Away."""
        hosts_of = {member.id: member.host_id for member in members}
        if why := ceph.clash(members[0].spec, pods.storage_of(members[0].spec, self._options)):
            return NotTaken(hosts=hosts_of, sentence=why)
        try:
            job = self._start(members)
        except Missing as missing:
            raise NotYet(f"the cluster has no MPIJobs any more: {missing}") from missing
        except Refused as refused:
            said = f"The cluster does not take the MPIJob: {refused}"
            return NotTaken(hosts=hosts_of, sentence=said[:DETAIL_AT_MOST])
        self._made.note(members[0].gang, job)
        return None

    def stop(self, pod: Mapping[str, Any]) -> None:
        """Have a member's pod end, and before that its MPIJob, else the operator makes another."""
        gang = gang_seats.gang_of(pod)
        for job in self._jobs.objects():
            if gang_seats.gang_of(job) == gang and not is_leaving(job):
                self._delete(job)
        if gang_seats.is_there(pod):
            self._orders.stop(pod)
        elif self._jobs.is_denied:
            raise NotYet(f"the MPIJob of {gang} cannot be ended: {DENIED}")

    def _start(self, members: Sequence[Member]) -> JSON:
        """Make what the pods need, the MPIJob, and have the former go with it."""
        # The launcher's, and those that all workers share: their values are the same, and so is when they are wanted.
        secrets = [one for member in members[:2] for one in pods.secrets(member, self._options)]
        for secret in secrets:
            self._orders.once(self._orders.secrets, secret)
        self._orders.bring_data(members[0])
        job = self._job(members)
        for secret in secrets:
            self._orders.own(self._orders.secrets, secret["metadata"]["name"], gang_job.owner(job))
        self._orders.own_data(members[0], gang_job.owner(job))
        return job

    def _job(self, members: Sequence[Member]) -> JSON:
        body = gang_job.job(members, self._options)
        try:
            return self._calls.create(self._folder, body)
        except Conflict:
            found = self._calls.get(f"{self._folder}/{body['metadata']['name']}")
            if names.labels_of(found) != body["metadata"]["labels"] or is_leaving(found):
                raise NotYet(f"{body['metadata']['name']} is another MPIJob, or on its way out") from None
            return found

    def _known(self, work: Work) -> dict[int, JSON]:
        """Return the MPIJobs that are there by gang, those that we made before the watch shows them too."""
        found = {gang: job for job in self._jobs.objects() if (gang := gang_seats.gang_of(job)) is not None}
        for gang, job in self._made.all_but(found).items():
            found[gang] = job
            if self._made.is_late(gang):
                work.begin(_key(gang), partial(self._look_up, gang))
        return found

    def _look_up(self, gang: int) -> None:
        """Forget an MPIJob that the watch does not show, where a list does not either."""
        job = self._made.find(gang)
        try:
            uid = self._calls.get(f"{self._folder}/{names.job_name(gang)}")["metadata"]["uid"]
        except Missing:
            uid = self._listed(gang)
        if job is not None and uid != job["metadata"]["uid"]:
            self._made.forget(gang, job)

    def _listed(self, gang: int) -> str:
        """Return the uid of a gang's MPIJob, blank where it has none; raises NotYet where its kind is not served."""
        try:
            found, _ = self._calls.list(self._folder, labelSelector=f"{names.GANG}={gang}")
        except Refused as refused:
            raise NotYet(f"nobody knows whether the MPIJob of {gang} is there: {refused}") from refused
        return str(found[0]["metadata"]["uid"]) if found else ""

    def _hold(self, found: Mapping[Seat, JSON], work: Work) -> None:
        """Keep the pods of members: the operator makes them without our finalizer."""
        for seat, pod in found.items():
            held = names.FINALIZER in (pod["metadata"].get("finalizers") or ())
            if gang_seats.is_there(pod) and not held and not is_leaving(pod):
                work.begin(seat.id, partial(self._orders.hold, pod))

    def _tend(self, gang: int, job: JSON, seats: Sequence[Seat], its: Sequence[JSON], work: Work) -> None:
        """Have an MPIJob go that nobody wants, and let it go when all is known of its members."""
        if self._jobs.is_denied:
            return  # nothing can be done to it now
        if not is_leaving(job):
            if not any(seat.wanted and seat.phase != "gone" for seat in seats):
                work.begin(_key(gang), partial(self._delete, job))
        elif all(seat.phase == "gone" for seat in seats) and not its:
            work.begin(_key(gang), partial(self._release, job))
        elif any(seat.wanted for seat in seats):
            # Somebody else deleted it: the operator does nothing more for it, and its pods are for us to end.
            for pod in its:
                if not is_leaving(pod) and not is_gone(pod):
                    work.begin(uuid.UUID(pod["metadata"]["uid"]), partial(self._orders.stop, pod))

    def _tell(self, gang: int, job: JSON, seats: Sequence[Seat]) -> None:
        """Say once in the log of the first member that the operator takes no notice of its MPIJob."""
        if gang not in self._told and seats and _is_late(job):
            self._told.add(gang)
            self._say(seats[0].id, gang, AWAY.format(name=job["metadata"]["name"]))

    def _delete(self, job: Mapping[str, Any]) -> None:
        metadata = job["metadata"]
        try:
            self._calls.delete(f"{self._folder}/{metadata['name']}", uid=metadata["uid"])
        except Conflict:
            log.info("the MPIJob %s is another by now", metadata["name"])

    def _release(self, job: Mapping[str, Any]) -> None:
        metadata = job["metadata"]
        rest = [name for name in metadata.get("finalizers") or () if name != names.FINALIZER]
        body = {"metadata": {"finalizers": rest, "resourceVersion": metadata["resourceVersion"]}}
        try:
            self._calls.patch(f"{self._folder}/{metadata['name']}", body)
        except (Missing, Conflict):
            log.info("the MPIJob %s changed meanwhile, or is no more", metadata["name"])


def _by_gang(every: Iterable[JSON]) -> tuple[dict[int, list[JSON]], list[JSON]]:
    """Return the pods by the gang that they say they are of, and those that say none."""
    found: dict[int, list[JSON]] = defaultdict(list)
    nobodys: list[JSON] = []
    for pod in every:
        gang = gang_seats.gang_of(pod)
        (nobodys if gang is None else found[gang]).append(pod)
    return found, nobodys


def _key(gang: int) -> uuid.UUID:
    return uuid.uuid5(uuid.NAMESPACE_OID, f"gang {gang}")


def _is_late(job: Mapping[str, Any]) -> bool:
    """Say whether the operator said nothing of a job that is not new; by the API server's clock and ours."""
    if (job.get("status") or {}).get("conditions") or is_leaving(job):
        return False
    made = datetime.fromisoformat(job["metadata"]["creationTimestamp"])
    return (clock.now() - made).total_seconds() > OPERATOR_S
