"""What is let into a cluster of MPIJobs that name a business: whole, suspended, signed with who made them; pure."""

import base64
import json
from collections.abc import Mapping
from typing import Any

from cluster import mpijob_asks
from cluster.mpijob_asks import BUSINESS, GATE, OURS, OWNER

JSON = dict[str, Any]
FIXED = (
    "It is a task of Taiji: {what} cannot be changed. Delete it and make another, or stop it in the portal."
)


def answer(review: Mapping[str, Any], prefix: str = "") -> JSON:
    """Return the AdmissionReview that answers one; `prefix`: what the cluster writes before names of people.

    Raises KeyError, TypeError, ValueError, AttributeError or OverflowError where it is none.
    """
    asked = review["request"]
    new, old = {**asked["object"]}, asked.get("oldObject") or {}
    response: JSON = {"uid": asked["uid"], "allowed": True}
    if BUSINESS in _labels(old):
        if what := _changed(new, old):
            response |= _refused(403, FIXED.format(what=what))
    elif faults := mpijob_asks.read(new).faults:
        response |= _refused(422, f"It cannot be a task of Taiji. {' '.join(faults)}")
    else:
        patch = _signed(new, str(asked["userInfo"]["username"]).removeprefix(prefix))
        response |= {"patchType": "JSONPatch", "patch": base64.b64encode(json.dumps(patch).encode()).decode()}
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}


def _refused(code: int, message: str) -> JSON:
    return {"allowed": False, "status": {"code": code, "message": message}}


def _signed(new: Mapping[str, Any], owner: str) -> list[JSON]:
    """Return the patch of a job that is new to us: whole objects, so that none of them need be there before."""
    notes = {name: value for name, value in _annotations(new).items() if name not in OURS}
    policy = {**(new["spec"].get("runPolicy") or {}), "suspend": True}
    return [
        {"op": "add", "path": "/metadata/annotations", "value": {**notes, OWNER: owner}},
        {"op": "add", "path": "/spec/runPolicy", "value": policy},
        {"op": "add", "path": "/spec/launcherCreationPolicy", "value": "WaitForWorkersReady"},
        {"op": "add", "path": "/spec/mpiReplicaSpecs/Launcher", "value": _held(new)},
    ]


def _held(new: Mapping[str, Any]) -> JSON:
    """Return the launcher of a job with our gate before it."""
    launcher: JSON = new["spec"]["mpiReplicaSpecs"]["Launcher"]
    template = launcher.get("template") or {}
    pod = template.get("spec") or {}
    gates = [gate for gate in pod.get("schedulingGates") or () if gate.get("name") != GATE]
    return {
        **launcher,
        "template": {**template, "spec": {**pod, "schedulingGates": [*gates, {"name": GATE}]}},
    }


def _changed(new: Mapping[str, Any], old: Mapping[str, Any]) -> str:
    """Return what was changed of a job of ours that only its controller may change; blank: nothing of that."""
    if _labels(new).get(BUSINESS) != _labels(old)[BUSINESS]:
        return f"the label {BUSINESS}"
    for name in OURS:
        if _annotations(new).get(name) != _annotations(old).get(name):
            return f"the annotation {name}"
    return "its spec" if new.get("spec") != old.get("spec") else ""


def _labels(thing: Mapping[str, Any]) -> Mapping[str, str]:
    return (thing.get("metadata") or {}).get("labels") or {}


def _annotations(thing: Mapping[str, Any]) -> Mapping[str, str]:
    return (thing.get("metadata") or {}).get("annotations") or {}
