"""The agent of all nodes of one cluster: reports what their pods do, and makes pods of what should run."""

import logging
import threading
import time
import uuid
from collections import Counter
from collections.abc import Mapping
from functools import partial
from typing import Any

from django.conf import settings
from kubernetes import client

from cluster import clock, hints
from cluster.agent.protocol import CAUSES
from cluster.kubernetes import ceph, gang_seats, hosts, names, nodes
from cluster.kubernetes import seen as pods_seen
from cluster.kubernetes.brought import Brought
from cluster.kubernetes.calls import Away, Calls, Refused
from cluster.kubernetes.gang_orders import GangOrders
from cluster.kubernetes.lease import RENEW_S, Lease
from cluster.kubernetes.log_keeper import LogKeeper
from cluster.kubernetes.mount_troubles import MountTroubles
from cluster.kubernetes.nodes import NodeSeen
from cluster.kubernetes.options import Options
from cluster.kubernetes.orders import Orders, instance_of
from cluster.kubernetes.outcomes import Made, NotTaken, NotThere
from cluster.kubernetes.posts import Post
from cluster.kubernetes.reporter import Reporter, Round
from cluster.kubernetes.starts import Starts
from cluster.kubernetes.troubles import Troubles
from cluster.kubernetes.unseen import Unseen
from cluster.kubernetes.watch import Mirror
from cluster.kubernetes.work import Work
from cluster.models import Host, Region

log = logging.getLogger(__name__)
JSON = dict[str, Any]
SWEEP_EVERY_S = 300.0
UNFINISHED = "status.phase!=Succeeded,status.phase!=Failed"


class Controller:
    """One round after the other, all of them in one thread; calls of the API are made in others."""

    def __init__(self, api: client.ApiClient, options: Options) -> None:
        """Speak for the nodes of the cluster behind `api`."""
        self.options = options
        self.wake = threading.Event()
        boot = str(uuid.uuid4())
        self.lease = Lease(Calls(api), options.namespace, names.lease_name(options.region), boot)
        self._calls = Calls(api, self.lease.check)
        self._orders = Orders(self._calls, options)
        self._work = Work(self.wake.set)
        self.logs = LogKeeper(self._calls)
        limits: dict[str, Any] = dict(settings.CONTAINER)
        self._troubles = Troubles(options, float(limits["pull_timeout_s"]))
        self._mounts = MountTroubles(self._calls, options)
        self._nodes, self._pods, self._others = self._mirrors()
        self._gangs = GangOrders(self._calls, options, self._orders, self.wake.set, self.logs.say)
        self._brought = Brought(self._calls, options, self.wake.set) if options.mpijobs else None
        of_jobs = self._brought.mirrors if self._brought else ()
        self._drivers = Mirror(
            self._calls,
            ceph.DRIVERS,
            self.wake.set,
            optional=True,
            fieldSelector=f"metadata.name={ceph.DRIVER}",
        )
        of_ceph = (self._drivers,) if options.ceph else ()
        self._heard = (self._nodes, self._pods, self._others, *self._gangs.mirrors, *of_jobs, *of_ceph)
        self._starts = Starts(self._orders, self._gangs, self._brought, options, self._work)
        self._reporter = Reporter(boot, self._offers, self.wake.set)
        self._region: Region | None = None
        self._machine: str | None = None
        self._posts: dict[int, Post] = {}
        self._in_pods: set[int] = set()  # gangs of which members run as pods of their own
        self._made = Unseen[uuid.UUID]()  # pods by instance
        self._swept_at = 0.0

    def _mirrors(self) -> tuple[Mirror, Mirror, Mirror]:
        changed, options = self.wake.set, self.options
        ours = f"{names.REGION}={names.region_label(options.region)}"
        pods = f"/api/v1/namespaces/{options.namespace}/pods"
        return (
            Mirror(self._calls, "/api/v1/nodes", changed, labelSelector=options.node_selector),
            Mirror(self._calls, pods, changed, labelSelector=ours),
            Mirror(
                self._calls,
                "/api/v1/pods",
                changed,
                keep=self._of_others,
                fieldSelector=f"spec.nodeName!=,{UNFINISHED}",
            ),
        )

    def _of_others(self, pod: JSON) -> JSON | None:
        """Keep of a pod what it holds of cards; None for those that hold none, and those that we made.

        Where a pod is tells ours from others': labels like ours have those of another platform on the cluster, too.
        """
        is_here = pod["metadata"].get("namespace") == self.options.namespace
        if is_here and names.labels_of(pod).get(names.REGION) == names.region_label(self.options.region):
            return None
        return _with_cards(pod)

    def _outside(self) -> dict[str, Counter[str]]:
        """Return what others use, by node and resource: not the pods of MPIJobs that run as tasks."""
        brought, every = self._brought, self._others.objects()
        return nodes.outside_use(pod for pod in every if brought is None or not brought.runs(pod))

    def _offers(self) -> tuple[str, ...]:
        """Return the kinds of instance that its nodes run now: with private ceph only while its driver is there."""
        return (*self.options.offers, *(self.options.ceph_offers if self._drivers.objects() else ()))

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
        if self._brought:
            self._brought.close()
        self.lease.stop()

    def hosts(self) -> frozenset[int]:
        """Return the hosts that it speaks for."""
        return frozenset(self._posts)

    def trouble(self) -> str:
        """Return why nothing is done at the moment, in a sentence; blank: all is well."""
        if not self.lease.is_held():
            others = (
                "The lease is not held: another controller is at work, or the API server does not answer."
            )
            return self.lease.trouble or others
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
        clock.follow()
        now, region = clock.now(), self._where()
        seen = {node.name: node for node in (nodes.seen(one, self.options) for one in self._nodes.objects())}
        known = hosts.rows(region)
        known = hosts.enter(region, (name for name, node in seen.items() if node.resources), known)
        self._gather(known, seen)
        if self._brought:
            self._brought.gather(self._posts, region, self._work)
        self._take_results()
        heard = Round(region=region, known=known, seen=seen, outside=self._outside(), now=now)
        self._reporter.speak(heard, self._machine or "", self._posts)
        self._act()
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
        every = self._pods.objects()
        shown, strays = self._gangs.gather(self._posts, filter(gang_seats.is_ours, every), self._work)
        for pod in every:
            if gang_seats.is_ours(pod):
                continue
            pk = instance_of(pod)
            labels = names.labels_of(pod)
            host, gang = labels.get(names.HOST, ""), labels.get(names.GANG, "")
            if pk is None or not host.isdecimal() or int(host) not in mine or not gang.isdecimal():
                strays.append(pod)
                continue
            shown.add(pk)
            self._posts[int(host)].pods[pk] = pod
        for pod in strays:
            self._end_stray(pod)
        self._confirm(shown)
        self._follow(shown)

    def _follow(self, shown: set[uuid.UUID]) -> None:
        """Follow the logs of the pods that are there, and what keeps them; count the gangs that they are of."""
        self._in_pods = set()
        for post in self._posts.values():
            for pk, pod in post.pods.items():
                if pk in shown:
                    self.logs.follow(pk, pod)
                if not names.labels_of(pod).keys() & {names.ROLE, names.BROUGHT}:
                    self._in_pods.add(int(names.labels_of(pod)[names.GANG]))
        self.logs.keep(shown)
        self._troubles.keep(shown | self._made.all_but(shown).keys())
        self._mounts.keep(shown)

    def _end_stray(self, pod: JSON) -> None:
        name, pk = pod["metadata"]["name"], instance_of(pod) or uuid.UUID(pod["metadata"]["uid"])
        if not pods_seen.is_leaving(pod):
            log.warning("the pod %s belongs to no instance of this region: it is ended", name)
            self._work.begin(pk, partial(self._orders.stop, pod))
        elif pods_seen.is_gone(pod):
            self._work.begin(pk, partial(self._orders.forget, pod))

    def _confirm(self, shown: set[uuid.UUID]) -> None:
        """Count pods that we made as there until the watch shows them, or it is certain that they are no more."""
        for pk, pod in self._made.all_but(shown).items():
            host = int(names.labels_of(pod)[names.HOST])
            if host in self._posts:
                self._posts[host].pods[pk] = pod
            if self._made.is_late(pk):
                self._work.begin(pk, partial(self._orders.look_up, pod))

    def _take_results(self) -> None:
        by_pod = {pk: post for post in self._posts.values() for pk in post.pods}
        for done in self._work.done():
            match done.result:
                case Made(host=host, pod=pod):
                    self._made.note(done.instance, pod)
                    if host in self._posts:
                        self._posts[host].pods.setdefault(done.instance, pod)
                case NotThere():
                    self._made.forget(done.instance)
                    if post := by_pod.get(done.instance):
                        post.pods.pop(done.instance, None)
                case NotTaken(hosts=hosts_of, sentence=sentence):
                    for pk, host in hosts_of.items():
                        if host in self._posts:
                            self._posts[host].refuse(pk, sentence)
                case _:
                    if done.refused is not None:
                        log.warning("instance %s: %s", done.instance, done.refused)

    def _act(self) -> None:
        """Begin what there is to do."""
        busy, doubtful = self._work.busy(), self._work.doubtful()
        asked: dict[uuid.UUID, Post] = {}
        for post in self._posts.values():
            if post.desired is None:
                continue
            steps = post.steps(busy)
            asked |= dict.fromkeys(map(uuid.UUID, steps.start), post)
            for pk in map(uuid.UUID, steps.stop):
                if not pods_seen.is_leaving(post.pods[pk]):
                    self._work.begin(pk, partial(self._stop, post.pods[pk]))
            for pk in map(uuid.UUID, steps.void):
                if pk not in doubtful:
                    post.void(pk, came=post.came(pk))
                    self.wake.set()
            for pk in map(uuid.UUID, steps.forget):
                self._forget(post, pk)
            for pod, told in post.notes(self._gangs.hosts):
                self._work.begin(_id(pod), partial(self._orders.annotate, pod, told))
            self._give_up(post, busy)
        self._starts.begin(asked, self._in_pods)

    def _stop(self, pod: Mapping[str, Any]) -> None:
        if names.BROUGHT in names.labels_of(pod):
            if self._brought:
                self._brought.stop(pod)
        elif gang_seats.is_ours(pod):
            self._gangs.stop(pod)
        else:
            self._orders.stop(pod)

    def _forget(self, post: Post, pk: uuid.UUID) -> None:
        pod = post.pods.get(pk)
        if pod is None or not gang_seats.is_there(pod) or names.BROUGHT in names.labels_of(pod):
            post.ended.pop(pk, None)
            return
        if self.logs.is_whole(pk):
            post.ended.pop(pk, None)
            self._work.begin(pk, partial(self._orders.forget, pod))

    def _give_up(self, post: Post, busy: set[uuid.UUID]) -> None:
        for pk, pod in post.pods.items():
            unmounted = self._mounts.look(pk, pod, self._work)
            trouble, words, is_over = self._troubles.look(pk, pod, time.monotonic(), unmounted)
            if words:
                self.logs.say(pk, int(names.labels_of(pod)[names.GANG]), words)
            # One that was made by others goes with its reason, unless it is held by then.
            is_held = names.FINALIZER in (pod["metadata"].get("finalizers") or ())
            if is_over and trouble is not None and is_held and pk not in busy:
                cause = trouble.kind if trouble.kind in CAUSES else ""
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
    marks = (names.ATTEMPT, names.BROUGHT)
    metadata["labels"] = {name: said for name, said in names.labels_of(pod).items() if name in marks}
    return {"metadata": metadata, "spec": {**spec, "nodeName": pod["spec"]["nodeName"]}}


def _id(pod: Mapping[str, Any]) -> uuid.UUID:
    return uuid.UUID(names.labels_of(pod)[names.INSTANCE])
