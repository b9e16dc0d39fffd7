"""What the platform is told of the nodes of a cluster: the very reports that agents of their hosts would write."""

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime

from django.db import DatabaseError, DataError

from cluster import admission, fencing, logs, sync
from cluster.agent import VERSION
from cluster.agent.protocol import PROTOCOL
from cluster.kubernetes import hosts, nodes, posts
from cluster.kubernetes.nodes import NodeSeen
from cluster.kubernetes.posts import Content, Post
from cluster.models import Host, Region
from cluster.reports import Report

log = logging.getLogger(__name__)
HEARD_EVERY_S = 10.0  # hosts that say nothing new are written down as heard so often


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """What one round knows of a cluster."""

    region: Region
    known: Mapping[str, Host]  # by node
    seen: Mapping[str, NodeSeen]  # by name
    outside: Mapping[str, Mapping[str, int]]  # cards that others use, by node and resource
    now: datetime


class Reporter:
    """Speaks for the hosts of one cluster, as one agent of them all."""

    def __init__(self, boot: str, offers: Callable[[], tuple[str, ...]], heard: Callable[[], None]) -> None:
        """Speak as the process `boot`; `heard` is called whenever the platform answered a report."""
        self._boot, self._offers, self._heard = boot, offers, heard
        self._seq = 0
        self._refused: set[int] = set()  # hosts that belong to another cluster
        self._heard_at = 0.0

    def speak(self, of: Round, machine: str, desks: Mapping[int, Post]) -> None:
        """Report each host that has something new to say, or to be told; note of the others that they are heard."""
        live = hosts.wanted(of.region)
        marks = hosts.marks(live.values())
        cards = hosts.known_cards(host.pk for host in of.known.values())
        placed = hosts.placed(live.values())
        quiet = []
        for name, host in of.known.items():
            post, node, orders = desks[host.pk], of.seen.get(name), marks.get(host.pk, ())
            post.placed = placed.get(host.pk, frozenset())
            if not _is_heard(host, node, post, orders):
                continue
            mark = (host.state == Host.State.REMOVED, *orders)  # of one that is removed, no report is taken
            content = self._content(post, node, of.outside.get(name, {}), cards.get(host.pk, []))
            if content != post.content or mark != post.marks or host.lost_since is not None:
                post.marks = mark
                self._report_alone(host, post, content, self._written(content, of.now, machine), of.now)
            elif node:
                quiet.append(host.pk)
        if time.monotonic() - self._heard_at >= HEARD_EVERY_S:
            hosts.heard(quiet, of.now)
            self._heard_at = time.monotonic()

    def _content(
        self, post: Post, node: NodeSeen | None, outside: Mapping[str, int], known: list[nodes.KnownCard]
    ) -> Content:
        return Content(
            address=node.address if node else "",
            trouble=node.trouble[:255] if node else "",
            offers=self._offers(),
            cards=posts.card_reports(nodes.cards(node, outside, known)) if node else (),
            instances=post.instances(),
        )

    def _written(self, content: Content, now: datetime, machine: str) -> Report:
        self._seq += 1
        return Report(
            version=VERSION,
            boot=self._boot,
            seq=self._seq,
            clock=now.timestamp(),
            address=content.address,
            offers=content.offers,
            trouble=content.trouble,
            cards=content.cards,
            instances=tuple(posts.with_log(one, logs.end_of(one.id)) for one in content.instances),
            have="",
            wait_s=0.0,
            protocol=PROTOCOL,
            machine=machine,
            seat="kubernetes",
        )

    def _report_alone(self, host: Host, post: Post, content: Content, report: Report, now: datetime) -> None:
        """Report, and let a fault in one host not keep the others from theirs."""
        try:
            self._report(host, post, content, report, now)
        except Exception as error:
            if isinstance(error, DatabaseError) and not isinstance(error, DataError):
                raise  # no other host would fare better: the round is made again
            # A node may say of itself what no row takes, or only this program stumbles over: said with where, and tried
            # with each round. Thrown on it would end all reports of the cluster, and every host would be lost.
            log.exception("host %s was left as it is: its report could not be taken", host.name)
            post.content = None

    def _report(self, host: Host, post: Post, content: Content, report: Report, now: datetime) -> None:
        try:
            post.desired = sync.take(host, report, now)
            post.content = content
        except sync.Late:
            post.content = None  # somebody else wrote: told anew with the next round
        except sync.NotKnown:
            post.desired, post.content = posts.nothing_but(content.instances), content
        except fencing.Refused as refused:
            if host.pk not in self._refused:
                log.error("%s", admission.sentence(refused, host.name))
            self._refused.add(host.pk)
            post.desired, post.content = None, None
            return
        self._refused.discard(host.pk)
        self._heard()


def _is_heard(host: Host, node: NodeSeen | None, post: Post, orders: tuple[object, ...]) -> bool:
    """Say whether anybody knows what runs on a host, and see to what its cluster wants of it."""
    if node is None:
        hosts.remove(host)
        return bool(post.pods or post.ended or orders)
    hosts.restore(host)
    hosts.close(host, node.closed)
    return node.ready  # else it is lost after a while, as any host
