"""What a real API server refuses of pods, as far as it was seen to."""

import re
from collections.abc import Mapping
from typing import Any

from tests.kubernetes.objects import Failure

NATIVE = frozenset({"cpu", "memory", "ephemeral-storage"})
NAME = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?")
LABEL = re.compile(r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?")


def check_metadata(metadata: Mapping[str, Any]) -> None:
    """Raise Failure where an object of any kind would be refused for its name or a label."""
    name = metadata.get("name", "")
    if not NAME.fullmatch(name) or len(name) > 253:
        raise _invalid(f"metadata.name: Invalid value: {name!r}")
    for label, value in (metadata.get("labels") or {}).items():
        if not LABEL.fullmatch(value) or len(value) > 63:
            raise _invalid(f"metadata.labels: Invalid value: {label}: {value!r}")


def check_pod(pod: Mapping[str, Any], classes: frozenset[str]) -> None:
    """Raise Failure where the pod would be refused; fill in the requests that follow from limits."""
    spec = pod.get("spec") or {}
    if not spec.get("containers"):
        raise _invalid("spec.containers: Required value")
    for container in [*spec["containers"], *(spec.get("initContainers") or ())]:
        if not container.get("image"):
            raise _invalid("spec.containers[0].image: Required value")
        _check_resources(container.setdefault("resources", {}))
    chosen = spec.get("priorityClassName", "")
    if spec.get("priority") or (chosen and chosen not in classes):
        raise Failure(403, "Forbidden", f"no PriorityClass with name {chosen} was found")


def _check_resources(resources: dict[str, Any]) -> None:
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    for name in {**limits, **requests}:
        if name in NATIVE:
            continue
        if "/" not in name:
            raise _invalid(f"spec.containers[0].resources: {name}: must be a standard resource type")
        if name not in limits:
            raise _invalid(f"spec.containers[0].resources.limits: Limit must be set for {name}")
        if requests.get(name, limits[name]) != limits[name]:
            raise _invalid(f"spec.containers[0].resources.requests: must be equal to {name} limit")
        if not str(limits[name]).isdecimal():
            raise _invalid(f"spec.containers[0].resources: {name}: must be an integer")
    if limits:
        resources["requests"] = {**limits, **requests}


def check_pod_change(old: Mapping[str, Any], new: Mapping[str, Any]) -> None:
    """Raise Failure where what cannot be changed of a pod would be."""
    if _without_gates(old["spec"]) != _without_gates(new["spec"]):
        raise _invalid("spec: Forbidden: pod updates may not change fields other than a few")

    gates = [gate["name"] for gate in new["spec"].get("schedulingGates") or ()]
    if set(gates) - {gate["name"] for gate in old["spec"].get("schedulingGates") or ()}:
        raise _invalid("spec.schedulingGates: Forbidden: only deletion is allowed")


def _without_gates(spec: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in spec.items() if name != "schedulingGates"}


def _invalid(message: str) -> Failure:
    return Failure(422, "Invalid", f"is invalid: {message}")
