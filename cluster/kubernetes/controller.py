"""The agent of all nodes of one cluster: reports what their pods do, and makes pods of what should run."""

import logging
import threading
import time
import uuid
from collections.abc import Mapping
from datetime import datetime
from functools import partial
from typing import Any

from django.conf import settings
from django.db import DatabaseError
from django.utils import timezone
from kubernetes import client

from cluster import admission, fencing, hints, logs, sync
from cluster.agent import VERSION
from cluster.agent.protocol import PROTOCOL
from cluster.kubernetes import hosts, names, nodes, posts
from cluster.kubernetes import seen as pods_seen
from cluster.kubernetes.brought import Brought, nodes_of
from cluster.kubernetes.calls import Away, Calls, Refused
from cluster.kubernetes.lease import RENEW_S, Lease
from cluster.kubernetes.members import member_of
from cluster.kubernetes.nodes import NodeSeen
from cluster.kubernetes.options import Options
from cluster.kubernetes.orders import Orders, instance_of
from cluster.kubernetes.pod_logs import LogKeeper
from cluster.kubernetes.posts import Content, Post
from cluster.kubernetes.troubles import Troubles
from cluster.kubernetes.watch import Mirror
from cluster.kubernetes.work import Work
from cluster.models import Host, Region
from cluster.reports import Report

log = logging.getLogger(__name__)
JSON = dict[str, Any]
HEARD_EVERY_S = 10.0  # hosts that say nothing new are written down as heard so often
SWEEP_EVERY_S = 300.0
CONFIRM_S = 5.0  # a pod that we made and do not see for so long is looked up
UNFINISHED = "status.phase!=Succeeded,status.phase!=Failed"


class Controller:
    """One round after the other, all of them in one thread; calls of the API are made in others."""

    def __init__(self, api: client.ApiClient, options: Options) -> None:
        """Speak for the nodes of the cluster behind `api`."""
        self.options = options
        self.wake = threading.Event()
        self._boot = str(uuid.uuid4())
        self.lease = Lease(
            Calls(api), options.namespace, f"taiji-{names.label_value(options.region).lower()}", self._boot
        )
        self._calls = Calls(api, self.lease.check)
        self._orders = Orders(self._calls, options)
        self._work = Work(self.wake.set)
        self.logs = LogKeeper(self._calls)
        limits: dict[str, Any] = dict(settings.CONTAINER)
        self._troubles = Troubles(options, float(limits["pull_timeout_s"]))
        self._nodes, self._pods, self._others = self._mirrors()
        self._brought = Brought(self._calls, options, self.wake.set) if options.mpijobs else None
        of_jobs = self._brought.mirrors if self._brought else ()
        self._heard = (self._nodes, self._pods, self._others, *of_jobs)
        self._region: Region | None = None
        self._machine: str | None = None
        self._seq = 0
        self._posts: dict[int, Post] = {}
        self._made: dict[uuid.UUID, tuple[float, JSON]] = {}  # pods that the watch has not shown yet
        self._refused: set[int] = set()  # hosts that belong to another cluster
        self._heard_at = self._swept_at = 0.0

    def _mirrors(self) -> tuple[Mirror, Mirror, Mirror]:
        changed, options = self.wake.set, self.options
        ours = f"{names.REGION}={names.label_value(options.region)}"
        pods = f"/api/v1/namespaces/{options.namespace}/pods"
        return (
            Mirror(self._calls, "/api/v1/nodes", changed, labelSelector=options.node_selector),
            Mirror(self._calls, pods, changed, labelSelector=ours),
            Mirror(
                self._calls,
                "/api/v1/pods",
                changed,
                keep=_with_cards,
                labelSelector=f"!{names.INSTANCE},!{names.BROUGHT}",
                fieldSelector=f"spec.nodeName!=,{UNFINISHED}",
            ),
        )

    def start(self) -> None:
        """Begin to listen, and to try for the lease."""
        for mirror in self._heard:
            mirror.start()
        threading.Thread(target=self.lease.run, name="lease", daemon=True).start()

    def stop(self) -> None:
        """End: what runs goes on running, and another controller takes over at once."""
        for mirror in self._heard:
            mirror.stop()
        self._work.stop()
        self.logs.stop()
        self.lease.stop()

    def hosts(self) -> frozenset[int]:
        """Return the hosts that it speaks for."""
        return frozenset(self._posts)

    def trouble(self) -> str:
        """Return why nothing is done at the moment, in a sentence; blank: all is well."""
        if not self.lease.is_held():
            return "The lease is not held: another controller is at work, or the API server does not answer."
        if time.monotonic() - self.lease.heard_at > 3 * RENEW_S:
            return "The API server does not answer."
        for mirror in self._heard:
            if mirror.trouble or not mirror.synced.is_set():
                return mirror.trouble or "The cluster was not read yet."
        return ""

    def round(self) -> bool:
        """Report what changed and do what is to be done; return whether that could be."""
        if self.trouble() or not self._knows_cluster():
            return False
        now = timezone.now()
        region = self._where()
        seen = {node.name: node for node in (nodes.seen(one, self.options) for one in self._nodes.objects())}
        known = hosts.rows(region)
        known = hosts.enter(region, (name for name, node in seen.items() if node.resources), known)
        self._gather(known, seen)
        if self._brought:
            node_of = {host.pk: host.node for host in known.values()}
            self._brought.gather(self._posts, node_of, region, self._work)
        self._take_results()
        self._speak(known, seen, region, now)
        self._act(known)
        self.logs.look()
        hints.publish(*(f"log.{gang}" for gang in sorted(self.logs.news())))
        self._sweep(region)
        return True

    def _knows_cluster(self) -> bool:
        """Learn which cluster this is: a host is refused to a controller of another one."""
        if self._machine is None:
            try:
                self._machine = str(self._calls.get("/api/v1/namespaces/kube-system")["metadata"]["uid"])
            except Refused:
                self._machine = ""  # not allowed to look
            except Away:
                return False
        return True

    def _where(self) -> Region:
        if self._region is None:
            self._region = hosts.region(self.options.region)
        return self._region

    def _gather(self, known: Mapping[str, Host], seen: Mapping[str, NodeSeen]) -> None:
        """Give each host its pods; those of none are ended."""
        mine = {host.pk: host for host in known.values()}
        self._posts = {pk: self._posts.get(pk) or Post(pk) for pk in mine}
        for post in self._posts.values():
            post.pods, post.on_node = {}, mine[post.host].node in seen
        shown = set()
        for pod in self._pods.objects():
            pk = instance_of(pod)
            host = names.labels_of(pod).get(names.HOST, "")
            if pk is None or not host.isdecimal() or int(host) not in mine:
                log.warning(
                    "the pod %s belongs to no host of this region: it is ended", pod["metadata"]["name"]
                )
                self._end_stray(pk or uuid.UUID(pod["metadata"]["uid"]), pod)
                continue
            shown.add(pk)
            self._posts[int(host)].pods[pk] = pod
            self.logs.follow(pk, pod)
        self._confirm(shown)
        self.logs.keep(shown)
        self._troubles.keep(shown | self._made.keys())

    def _end_stray(self, pk: uuid.UUID, pod: JSON) -> None:
        if not pods_seen.is_leaving(pod):
            self._work.begin(pk, partial(self._orders.stop, pod))
        elif pods_seen.is_gone(pod):
            self._work.begin(pk, partial(self._orders.forget, pod))

    def _confirm(self, shown: set[uuid.UUID]) -> None:
        """Count pods that we made as there until the watch shows them, or it is certain that they are no more."""
        for pk, (made_at, pod) in list(self._made.items()):
            if pk in shown:
                del self._made[pk]
                continue
            host = int(names.labels_of(pod)[names.HOST])
            if host in self._posts:
                self._posts[host].pods[pk] = pod
            if time.monotonic() - made_at > CONFIRM_S:
                self._work.begin(pk, partial(self._orders.look_up, pod))

    def _take_results(self) -> None:
        by_pod = {pk: post for post in self._posts.values() for pk in post.pods}
        for done in self._work.done():
            match done.result:
                case ("made", host, pod):
                    self._made[done.instance] = (time.monotonic(), pod)
                    if host in self._posts:
                        self._posts[host].pods.setdefault(done.instance, pod)
                case ("missing", _):
                    self._made.pop(done.instance, None)
                    if post := by_pod.get(done.instance):
                        post.pods.pop(done.instance, None)
                case ("refused", host, sentence) if host in self._posts:
                    self._posts[host].refuse(done.instance, sentence)
                case _:
                    if done.refused is not None:
                        log.warning("instance %s: %s", done.instance, done.refused)

    def _speak(
        self, known: Mapping[str, Host], seen: Mapping[str, NodeSeen], region: Region, now: datetime
    ) -> None:
        """Report each host that has something new to say, or to be told; note of the others that they are heard."""
        live = hosts.wanted(region)
        marks = hosts.marks(live.values())
        outside = nodes.outside_use(self._others.objects())
        cards = hosts.known_cards(host.pk for host in known.values())
        placed = hosts.placed(live.values())
        quiet = []
        for name, host in known.items():
            post, node, mark = self._posts[host.pk], seen.get(name), marks.get(host.pk, ())
            post.placed = placed.get(host.pk, frozenset())
            if not self._is_heard(host, node, post, mark):
                continue
            content = self._content(post, node, outside.get(name, {}), cards.get(host.pk, []))
            if content != post.content or mark != post.marks or host.lost_since is not None:
                post.marks = mark
                self._report_alone(host, post, content, now)
            elif node:
                quiet.append(host.pk)
        if time.monotonic() - self._heard_at >= HEARD_EVERY_S:
            hosts.heard(quiet, now)
            self._heard_at = time.monotonic()

    def _is_heard(self, host: Host, node: NodeSeen | None, post: Post, mark: tuple[object, ...]) -> bool:
        """Say whether anybody knows what runs on a host, and see to what its cluster wants of it."""
        if node is None:
            hosts.remove(host)
            return bool(post.pods or post.ended or mark)
        hosts.restore(host)
        hosts.close(host, node.closed)
        return node.ready  # else it is lost after a while, as any host

    def _content(
        self, post: Post, node: NodeSeen | None, outside: Mapping[str, int], known: list[nodes.KnownCard]
    ) -> Content:
        return Content(
            address=node.address if node else "",
            trouble=node.trouble[:255] if node else "",
            offers=self.options.offers,
            cards=posts.card_reports(nodes.cards(node, outside, known)) if node else (),
            instances=post.instances(),
        )

    def _report_alone(self, host: Host, post: Post, content: Content, now: datetime) -> None:
        """Report, and let a fault in one host not keep the others from theirs."""
        try:
            self._report(host, post, content, now)
        except DatabaseError:
            raise
        except Exception:
            log.exception("host %s was left as it is", host.name)
            post.content = None

    def _written(self, content: Content, now: datetime) -> Report:
        """Return the report that an agent would write."""
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
            machine=self._machine or "",
            seat="kubernetes",
        )

    def _report(self, host: Host, post: Post, content: Content, now: datetime) -> None:
        report = self._written(content, now)
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
        self.wake.set()

    def _act(self, known: Mapping[str, Host]) -> None:
        """Begin what there is to do."""
        busy, doubtful = self._work.busy(), self._work.doubtful()
        node_of = {host.pk: host.node for host in known.values()}
        for post in self._posts.values():
            if post.desired is None:
                continue
            steps = post.steps(busy)
            self._start(post, node_of[post.host], steps.start)
            for pk in map(uuid.UUID, steps.stop):
                if not pods_seen.is_leaving(post.pods[pk]):
                    self._work.begin(pk, partial(self._stop, post.pods[pk]))
            for pk in map(uuid.UUID, steps.void):
                if pk not in doubtful:
                    post.void(pk, came=post.came(pk))
                    self.wake.set()
            for pk in map(uuid.UUID, steps.forget):
                self._forget(post, pk)
            for pod, told in post.notes():
                self._work.begin(_id(pod), partial(self._orders.annotate, pod, told))
            self._give_up(post, busy)

    def _start(self, post: Post, node: str, start: tuple[str, ...]) -> None:
        if not start or post.desired is None:
            return
        orders = {str(pk): (spec, sealed) for pk, _, _, spec, sealed in post.desired.instances}
        places = hosts.places([uuid.UUID(pk) for pk in start])
        for pk in start:
            place = places.get(uuid.UUID(pk))
            if place is None:
                continue
            spec, sealed = orders[pk]
            if spec.get("mpijob") and self._brought:
                nodes = nodes_of(place.gang)
                self._work.begin(place.id, partial(self._brought.start, place, spec, nodes))
                continue
            member = member_of(place, node, spec, sealed, self.options)
            if member is None:
                post.refuse(place.id, posts.UNREADABLE)
                continue
            self._work.begin(place.id, partial(self._orders.launch, member))

    def _stop(self, pod: Mapping[str, Any]) -> None:
        orders = self._brought if names.BROUGHT in names.labels_of(pod) else self._orders
        if orders is not None:
            orders.stop(pod)

    def _forget(self, post: Post, pk: uuid.UUID) -> None:
        pod = post.pods.get(pk)
        if pod is None or names.BROUGHT in names.labels_of(pod):
            post.ended.pop(pk, None)
            return
        if self.logs.is_whole(pk):
            post.ended.pop(pk, None)
            self._work.begin(pk, partial(self._orders.forget, pod))

    def _give_up(self, post: Post, busy: set[uuid.UUID]) -> None:
        for pk, pod in post.pods.items():
            trouble, words, is_over = self._troubles.look(pk, pod, time.monotonic())
            if words:
                self.logs.say(pk, int(names.labels_of(pod)[names.GANG]), words)
            if is_over and trouble is not None and pk not in busy:
                cause = "image" if trouble.kind == "image" else ""
                self._work.begin(pk, partial(self._orders.give_up, pod, cause, trouble.sentence))

    def _sweep(self, region: Region) -> None:
        """Now and then remove what a start left that broke off."""
        if time.monotonic() - self._swept_at < SWEEP_EVERY_S:
            return
        self._swept_at = time.monotonic()
        live: dict[str, None] = {}
        for row in hosts.wanted(region).values():
            live |= {str(row.id): None, f"gang {row.gang}": None}
        self._work.begin(uuid.uuid4(), partial(self._orders.sweep, set(live)))


def _with_cards(pod: JSON) -> JSON | None:
    """Keep of others' pods what they hold of cards; None for those that hold none."""
    if not nodes.use(pod):
        return None
    parts = ("containers", "initContainers")
    spec = {
        name: [{"resources": one.get("resources")} for one in pod["spec"].get(name) or ()] for name in parts
    }
    metadata = {name: pod["metadata"].get(name) for name in ("name", "namespace", "resourceVersion")}
    return {"metadata": metadata, "spec": {**spec, "nodeName": pod["spec"]["nodeName"]}}


def _id(pod: Mapping[str, Any]) -> uuid.UUID:
    return uuid.UUID(names.labels_of(pod)[names.INSTANCE])
