"""The MPIJob of a gang whose first member alone runs the command, for the MPI operator to make its pods; pure.

The launcher is the first member, with cards of its own, and the workers are the others: a template for each of the two,
so that what differs from worker to worker follows from the node that it comes to (script.SEAT).
"""

import copy
from collections.abc import Mapping, Sequence
from typing import Any

from cluster.kubernetes import names, pods, script
from cluster.kubernetes.affinity import one_on_each
from cluster.kubernetes.options import Options
from cluster.kubernetes.pods import Member

JSON = dict[str, Any]


def folder(options: Options) -> str:
    """Return the path of the MPIJobs that are made for gangs."""
    return names.job_folder(options.namespace)


def fits(members: Sequence[Member]) -> bool:
    """Say whether one template does for all workers: what the device plugins call their cards is the same."""
    return all(member.resources == members[0].resources for member in members)


def job(members: Sequence[Member], options: Options) -> JSON:
    """Return the manifest; `members` are all of the gang, in the order of rank."""
    first, others = members[0], members[1:]
    return {
        "apiVersion": names.JOB_API,
        "kind": names.JOB_KIND,
        "metadata": {
            "name": names.job_name(first.gang),
            "namespace": options.namespace,
            "labels": _marks(first, options),
            "annotations": {names.LABEL: str(first.spec.get("label", ""))},
            "finalizers": [names.FINALIZER],
        },
        "spec": {
            # Nothing of it is repeated or removed but by us: an end is an end, and has to be seen.
            "runPolicy": {"backoffLimit": 0, "cleanPodPolicy": "None", "suspend": False},
            "runLauncherAsWorker": True,
            # All at once: the workers wait for the commit that the launcher finds, and it for our word to start.
            "launcherCreationPolicy": "AtStartup",
            "slotsPerWorker": max(1, len(first.spec["cards"])),
            "sshAuthMountPath": options.ssh_folder,
            "mpiReplicaSpecs": {
                "Launcher": _replicas(1, _launcher(first, options)),
                "Worker": _replicas(len(others), _worker(others, options)),
            },
        },
    }


def owner(job_object: Mapping[str, Any]) -> JSON:
    """Return what makes an object go with the MPIJob."""
    metadata = job_object["metadata"]
    about = {"apiVersion": names.JOB_API, "kind": names.JOB_KIND}
    return about | {name: metadata[name] for name in ("name", "uid")}


def _marks(member: Member, options: Options) -> dict[str, str]:
    return {
        "app.kubernetes.io/managed-by": "taiji",
        names.REGION: names.region_label(options.region),
        names.GANG: str(member.gang),
    }


def _replicas(number: int, template: JSON) -> JSON:
    return {"replicas": number, "restartPolicy": "Never", "template": template}


def _launcher(member: Member, options: Options) -> JSON:
    return _template(member, names.LAUNCHER, options)


def _worker(members: Sequence[Member], options: Options) -> JSON:
    """Return the template of all workers, made from what the first of them would be alone."""
    found = _template(members[0], names.WORKER, options)
    body, main = found["spec"], found["spec"]["containers"][0]
    mates = {names.GANG: str(members[0].gang), names.ROLE: names.WORKER}
    body["affinity"] = one_on_each([member.node for member in members], mates)
    main["command"][-1] = pods.escaped(script.LET_IN)
    seats = " ".join(f"{member.node}/{member.rank}/{member.id}" for member in members)
    main["env"] = [
        *(one for one in main["env"] if one["name"] not in {"RANK", "NODE_RANK", "TAIJI_INSTANCE_ID"}),
        {"name": "TAIJI_NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
        {"name": "TAIJI_SEATS", "value": seats},
    ]
    if hook := main.get("lifecycle"):
        command = hook["preStop"]["exec"]["command"]
        command[-1] = script.SEAT + command[-1]
    return found


def _template(member: Member, role: str, options: Options) -> JSON:
    """Return the template of a member's pod; what it is called, and whose, the operator says."""
    alone = copy.deepcopy(pods.pod(member, options))
    metadata, body = alone["metadata"], alone["spec"]
    for name in ("restartPolicy", "hostname", "subdomain"):
        body.pop(name, None)
    told = {"MASTER_ADDR": _launcher_address(member.gang, options), "TAIJI_HOSTS": ""}
    for one in body["containers"][0]["env"]:
        if one["name"] in told and "value" in one:
            one["value"] = told[one["name"]]
    kept = {names.WAITS, names.IDLE} & metadata["labels"].keys()
    labels = _marks(member, options) | {names.ROLE: role} | {name: metadata["labels"][name] for name in kept}
    return {"metadata": {"labels": labels, "annotations": metadata["annotations"]}, "spec": body}


def _launcher_address(gang: int, options: Options) -> str:
    name = names.job_name(gang)
    return f"{name}-{names.LAUNCHER}.{name}.{options.namespace}.svc"
