"""A stand-in for kube-scheduler, as far as it was seen: it binds pods to nodes where they fit, or says why to none."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

from cluster.kubernetes.calls import Calls, Refused

JSON = dict[str, Any]
OVER = {"Succeeded", "Failed"}


class Scheduler:
    """It looks at pods and nodes as a watch showed them, which may be a moment ago."""

    def __init__(self, calls: Calls) -> None:
        """Know the cluster by its API."""
        self._calls = calls
        self._bound: dict[str, str] = {}  # node by uid of a pod, as long as no watch shows it

    def place(self, pods: list[JSON], nodes: list[JSON]) -> None:
        """Give a place to each pod that has none and fits somewhere."""
        waiting = [pod for pod in pods if not pod["spec"].get("nodeName")]
        unseen = {pod["metadata"]["uid"] for pod in waiting}
        self._bound = {uid: node for uid, node in self._bound.items() if uid in unseen}
        used: dict[str, Counter[str]] = {}
        bound: list[tuple[JSON, str]] = []
        for pod in pods:
            node = pod["spec"].get("nodeName") or self._bound.get(pod["metadata"]["uid"])
            if node and pod["status"].get("phase") not in OVER:
                used.setdefault(node, Counter()).update(_asked(pod))
                bound.append((pod, node))
        for pod in waiting:
            is_over = pod["metadata"].get("deletionTimestamp") or pod["status"].get("phase") in OVER
            if is_over or pod["spec"].get("schedulingGates") or pod["metadata"]["uid"] in self._bound:
                continue
            if node := self._place_one(pod, nodes, used, _kept_from(pod, bound)):
                self._bound[pod["metadata"]["uid"]] = node
                used.setdefault(node, Counter()).update(_asked(pod))
                bound.append((pod, node))

    def _place_one(
        self, pod: JSON, nodes: list[JSON], used: dict[str, Counter[str]], kept_from: set[str]
    ) -> str:
        whys = Counter[str]()
        for node in nodes:
            name: str = node["metadata"]["name"]
            why = _why_not(pod, node, used.get(name, Counter()))
            if name in kept_from:
                why = why or "node(s) didn't match pod anti-affinity rules"
            if why:
                whys[why] += 1
                continue
            body = {"metadata": {"name": pod["metadata"]["name"]}, "target": {"kind": "Node", "name": name}}
            try:
                self._calls.create(f"{path_of(pod)}/binding", body)
            except Refused:
                return ""  # it is gone: the watch will show it
            return name
        said = ", ".join(f"{number} {why}" for why, number in sorted(whys.items()))
        condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
        condition["message"] = f"0/{len(nodes)} nodes are available: {said}."
        if [condition] != pod["status"].get("conditions"):
            self._calls.patch(f"{path_of(pod)}/status", {"status": {"conditions": [condition]}})
        return ""


def path_of(pod: Mapping[str, Any]) -> str:
    """Return where a pod is."""
    metadata = pod["metadata"]
    return f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}"


def _why_not(pod: JSON, node: JSON, used: Counter[str]) -> str:
    affinity = (pod["spec"].get("affinity") or {}).get("nodeAffinity") or {}
    terms = affinity.get("requiredDuringSchedulingIgnoredDuringExecution", {}).get("nodeSelectorTerms", ())
    names = [one["values"] for term in terms for one in term.get("matchFields", ())]
    if terms and not any(node["metadata"]["name"] in values for values in names):
        return "node(s) didn't match Pod's node affinity/selector"
    if node["spec"].get("unschedulable"):
        return "node(s) were unschedulable"
    tolerated = {one["key"] for one in pod["spec"].get("tolerations") or () if "effect" not in one}
    for taint in node["spec"].get("taints") or ():
        if taint["effect"] == "NoSchedule" and taint["key"] not in tolerated:
            return f"node(s) had untolerated taint {{{taint['key']}}}"
    room = node["status"].get("allocatable") or {}
    for name, number in _asked(pod).items():
        if used[name] + number > int(room.get(name, 0)):
            return f"Insufficient {name}"
    return ""


def _kept_from(pod: JSON, bound: list[tuple[JSON, str]]) -> set[str]:
    """Return the nodes on which pods are bound that this one keeps away from."""
    rules = (pod["spec"].get("affinity") or {}).get("podAntiAffinity") or {}
    terms = rules.get("requiredDuringSchedulingIgnoredDuringExecution", ())
    wanted = [term["labelSelector"]["matchLabels"].items() for term in terms]
    return {
        node for other, node in bound if any(one <= other["metadata"]["labels"].items() for one in wanted)
    }


def _asked(pod: JSON) -> Counter[str]:
    found = Counter[str]()
    for container in pod["spec"]["containers"]:
        limits = (container.get("resources") or {}).get("limits") or {}
        found.update({name: int(number) for name, number in limits.items() if "/" in name})
    return found
