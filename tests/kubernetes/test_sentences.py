"""What is said of pods and nodes is shown in the reader's language."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from django.utils import translation

from cluster import host_events, host_sentences
from cluster.kubernetes import brought, ceph, hosts, nodes, posts
from cluster.kubernetes.seen import seen, trouble
from tests.kubernetes import test_nodes
from tests.kubernetes.test_seen import LATER, ended, pod


def sentences() -> Iterator[str]:
    """Give one of each kind that can be said."""
    evicted: dict[str, Any] = {"reason": "Evicted", "message": "low on memory"}
    preempted = {"conditions": [{"type": "DisruptionTarget", "status": "True", "message": "preempted"}]}
    for thing in (
        pod("Failed", ended(137), status=evicted),
        pod("Failed", ended(143), status=preempted),
        pod("Failed", status={"reason": "NodeAffinity"}),
        pod("Failed"),
        pod("Pending", node="", deleted=LATER),
        pod("Failed", {"waiting": {}}, ended(1)),
    ):
        yield seen(thing).detail
    for reason in ("ErrImagePull", "CreateContainerError"):
        found = trouble(pod("Pending", {"waiting": {"reason": reason, "message": "no"}}))
        yield found.sentence if found else ""
    place = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes"}
    found = trouble(pod("Pending", node="", status={"conditions": [place]}))
    yield found.sentence if found else ""
    yield test_nodes.seen(spec={"unschedulable": True}).closed
    yield test_nodes.seen(spec={"taints": [{"key": "a/b", "effect": "NoExecute"}]}).closed
    yield test_nodes.seen(metadata__labels={}).trouble
    node = replace(test_nodes.seen(), resources={nodes.GPU: (3, 2)})
    yield from (card.reason for card in nodes.cards(node, {nodes.GPU: 2}, []))
    yield from (hosts.GONE_NODE, posts.UNREADABLE, "The cluster does not take the pod: exceeded quota")
    yield "The cluster does not take the MPIJob: exceeded quota"
    yield from (brought.GONE, "The cluster does not take the change of the MPIJob: no")
    yield "It asks for nvidia.com/mig-1g.5gb, and was planned on nvidia.com/gpu."
    yield ceph.clash({"data": [{"kind": "ceph", "dst": "/taiji/data"}]}, "/taiji/storage")
    yield "Private ceph could not be mounted: mount error 13 = Permission denied."


@pytest.mark.parametrize("said", sorted(set(sentences())))
def test_every_sentence_of_a_cluster_is_shown_in_chinese(said: str) -> None:
    assert said
    with translation.override("zh-hans"):
        assert host_sentences.shown(said) != said


def test_why_a_node_takes_no_starts_is_told_in_one_language() -> None:
    with translation.override("zh-hans"):
        assert host_events.reason("", {"node": hosts.GONE_NODE}) != hosts.GONE_NODE
