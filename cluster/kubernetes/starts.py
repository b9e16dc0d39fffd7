"""What is to start: each member as a pod of its own, or a gang as one MPIJob, once all its hosts say that it may."""

import uuid
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from functools import partial

from cluster.kubernetes import gang_job, hosts, posts
from cluster.kubernetes.brought import Brought, nodes_of
from cluster.kubernetes.gang_orders import GangOrders
from cluster.kubernetes.members import member_of
from cluster.kubernetes.options import Options
from cluster.kubernetes.orders import Orders
from cluster.kubernetes.pods import Member
from cluster.kubernetes.posts import Post
from cluster.kubernetes.work import Work


class Starts:
    """The starts of one cluster's controller."""

    def __init__(
        self, orders: Orders, gangs: GangOrders, brought: Brought | None, options: Options, work: Work
    ) -> None:
        """Have them carried out by `work`."""
        self._orders, self._gangs, self._brought = orders, gangs, brought
        self._options, self._work = options, work

    def begin(self, asked: Mapping[uuid.UUID, Post], in_pods: Collection[int]) -> None:
        """Begin to start those that are asked for, on the hosts of their posts.

        `in_pods` are gangs of which members run as pods of their own already: what is left of them does too.
        """
        if not asked:
            return
        rows = hosts.asked(list(asked))
        gangs: dict[int, list[Member]] = defaultdict(list)
        for pk, post in asked.items():
            if pk in rows and (member := self._member(rows[pk], post)):
                gangs[member.gang].append(member)
        several = {gang for gang, its in gangs.items() if its[0].members > 1 and gang not in in_pods}
        led = hosts.led(several) if self._gangs.is_served() else set()
        for gang, its in gangs.items():
            if gang not in led:
                self._apart(its)
            # Else it waits: a host that does not say that it may start has a stray, or is lost.
            elif len(its) == its[0].members:
                self._together(sorted(its, key=lambda member: member.rank))

    def _member(self, asked: hosts.Asked, post: Post) -> Member | None:
        """Return a member that is to be started here; None where it is no pod of ours, or cannot be had."""
        if post.desired is None:
            return None
        orders = {pk: (spec, sealed) for pk, _, _, spec, sealed in post.desired.instances}
        seat = asked.seat
        spec, sealed = orders[seat.id]
        if spec.get("mpijob") and self._brought:
            self._work.begin(seat.id, partial(self._brought.start, asked, spec, nodes_of(seat.gang)))
            return None
        member = member_of(asked, spec, sealed)
        if member is None:
            post.refuse(seat.id, posts.UNREADABLE)
        return member

    def _apart(self, members: Sequence[Member]) -> None:
        for member in members:
            self._work.begin(member.id, partial(self._orders.launch, member))

    def _together(self, members: Sequence[Member]) -> None:
        """Start a whole gang as an MPIJob, where one template does for all its workers."""
        if not gang_job.fits(members):
            self._apart(members)
            return
        others = [member.id for member in members[1:]]
        self._work.begin(members[0].id, partial(self._gangs.launch, members), *others)
