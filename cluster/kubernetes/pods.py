"""The pod of one instance, from its spec: pure, and the same each time it is asked for."""

import math
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from cluster.kubernetes import ceph, code, names, script
from cluster.kubernetes.options import POD_FOLDER, RUN_FOLDER, WORK_FOLDER, Options

JSON = dict[str, Any]
# The node is only unreachable, or its kubelet is started anew: whether what runs there is over is for us to say.
STAY = [
    {"key": f"node.kubernetes.io/{what}", "operator": "Exists", "effect": "NoExecute"}
    for what in ("not-ready", "unreachable")
]
WRITABLE = ("/tmp", "/var/tmp", "/run")  # of a container that else may not write


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """One instance as its pod needs it."""

    id: uuid.UUID
    gang: int
    rank: int
    host_id: int
    node: str
    spec: Mapping[str, Any]  # as in cluster/agent/protocol.py, without secrets
    # What the device plugin calls its cards, such as nvidia.com/gpu, and how many of each.
    resources: Mapping[str, int]
    secret_env: Mapping[str, str] = field(default_factory=dict)
    code_token: str = ""  # for the git host
    pod_token: str = ""  # for the platform
    data_keys: Mapping[str, str] = field(default_factory=dict)  # of private ceph, by number
    registry: Mapping[str, str] = field(default_factory=dict)  # username, password and the registry's name

    @property
    def name(self) -> str:
        """Return the name of its pod."""
        return names.pod_name(self.gang, self.rank)

    @property
    def image(self) -> str:
        """Return the image that its task names; blank: none."""
        return str((self.spec.get("container") or {}).get("image", ""))

    @property
    def members(self) -> int:
        """Return how many its gang has."""
        return len(self.spec["hosts"])

    @property
    def has_secret(self) -> bool:
        """Say whether a Secret goes with it."""
        return bool(self.secret_env or self.code_token or self.pod_token)


def pod(member: Member, options: Options) -> JSON:
    """Return the manifest of the pod."""
    spec, container = member.spec, member.spec.get("container") or {}
    body: JSON = {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": math.ceil(float(spec.get("grace_s", 30))),
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "affinity": _pinned(member.node),
        "tolerations": [*STAY, *({"key": key, "operator": "Exists"} for key in options.tolerations)],
        "containers": [_main(member, options)],
        "volumes": _volumes(member, options),
        "securityContext": _user(str(container.get("user") or options.user)),
    }
    if spec.get("code"):
        body["initContainers"] = [code.container(spec, options, secret=member.has_secret and member.name)]
    if member.members > 1:
        body |= {"hostname": member.name, "subdomain": names.service_name(member.gang)}
    if pulls := [*options.pull_secrets, *([f"{member.name}-image"] if member.registry else [])]:
        body["imagePullSecrets"] = [{"name": name} for name in pulls]
    chosen = {
        "priorityClassName": options.priority_class,
        "serviceAccountName": options.service_account,
        "runtimeClassName": options.runtime_class,
    }
    body |= {name: value for name, value in chosen.items() if value}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": _metadata(member, options), "spec": body}


def service(gang: int, options: Options) -> JSON:
    """Return the headless service of a gang: its members are found from the moment they have an address."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": names.service_name(gang),
            "namespace": options.namespace,
            "labels": {names.REGION: names.region_label(options.region), names.GANG: str(gang)},
        },
        "spec": {
            "clusterIP": "None",
            "publishNotReadyAddresses": True,
            "selector": {names.GANG: str(gang), names.REGION: names.region_label(options.region)},
        },
    }


def secrets(member: Member, options: Options) -> list[JSON]:
    """Return the Secrets that go with the pod: what its processes may read, and what the kubelet pulls with."""
    found = []
    if member.has_secret:
        tokens = {code.CODE_TOKEN: member.code_token, code.POD_TOKEN: member.pod_token}
        values = {**member.secret_env, **{name: value for name, value in tokens.items() if value}}
        found.append(_secret(member, options, "", "Opaque", values))
    if member.registry:
        auths = code.docker_config(member.registry)
        kind = "kubernetes.io/dockerconfigjson"
        found.append(_secret(member, options, "-image", kind, {".dockerconfigjson": auths}))
    return found


def owner(pod_object: Mapping[str, Any]) -> JSON:
    """Return what makes an object go with the pod."""
    metadata = pod_object["metadata"]
    return {"apiVersion": "v1", "kind": "Pod", "name": metadata["name"], "uid": metadata["uid"]}


def _secret(member: Member, options: Options, ending: str, kind: str, values: Mapping[str, str]) -> JSON:
    metadata = {**_metadata(member, options), "name": member.name + ending}
    del metadata["finalizers"], metadata["annotations"]
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": metadata,
        "type": kind,
        "stringData": dict(values),
    }


def _metadata(member: Member, options: Options) -> JSON:
    marks = {names.WAITS: member.spec.get("wait_for_go"), names.IDLE: member.spec["command"] is None}
    return {
        "name": member.name,
        "namespace": options.namespace,
        "labels": {
            "app.kubernetes.io/managed-by": "taiji",
            names.REGION: names.region_label(options.region),
            names.INSTANCE: str(member.id),
            names.GANG: str(member.gang),
            names.RANK: str(member.rank),
            names.HOST: str(member.host_id),
            **{name: "yes" for name, is_so in marks.items() if is_so},
        },
        "annotations": {names.LABEL: str(member.spec.get("label", ""))},
        "finalizers": [names.FINALIZER],
    }


def _pinned(node: str) -> JSON:
    """Return the affinity that leaves the scheduler this one node: it still checks that the pod fits."""
    terms = [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}]
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}


def _main(member: Member, options: Options) -> JSON:
    spec, container = member.spec, member.spec.get("container") or {}
    command = script.IDLE if spec["command"] is None else str(spec["command"])
    found: JSON = {
        "name": names.MAIN,
        "image": member.image or options.default_image,
        "command": [script.SHELL, "-c", escaped(script.FIRST), "taiji", escaped(command)],
        "workingDir": WORK_FOLDER,
        "env": _env(member, options),
        "resources": {"limits": _limits(member)},
        "volumeMounts": _mounts(member, options),
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": bool(container.get("read_only")),
            "seccompProfile": {"type": "RuntimeDefault"},
        },
    }
    if spec.get("exit_command"):
        # Counted within the grace, as the kubelet counts it; it sees the variables, but the kubelet expands none here.
        hook = {"exec": {"command": [script.SHELL, "-c", str(spec["exit_command"])]}}
        found["lifecycle"] = {"preStop": hook}
    return found


def escaped(text: str) -> str:
    """Return a text that comes out as it is from the expansion of `$(NAME)` in commands and values."""
    return text.replace("$", "$$")


def _env(member: Member, options: Options) -> list[JSON]:
    spec, members = member.spec, member.members
    storage = storage_of(spec, options)
    addresses = [names.address(member.gang, rank, options.namespace) for rank in range(members)]
    if members == 1:
        addresses = ["127.0.0.1"]
    hosts = [f"{name} slots={host['cards']}" for name, host in zip(addresses, spec["hosts"], strict=True)]
    ours = {
        "TAIJI_STORAGE": storage,
        "TAIJI_TASK_DIR": f"{storage}/{spec['task_dir']}",
        "TAIJI_INSTANCE_ID": str(member.id),
        "TAIJI_CARDS": str(len(spec["cards"])),
        "TAIJI_HOSTFILE": f"{RUN_FOLDER}/hosts",
        "TAIJI_HOSTS": "\n".join(hosts),
        "TAIJI_WAITS": "yes" if spec.get("wait_for_go") else "",
        "RANK": str(member.rank),
        "NODE_RANK": str(member.rank),
        "WORLD_SIZE": str(members),
        "NNODES": str(members),
        "LOCAL_RANK": "0",
        "LOCAL_WORLD_SIZE": "1",
        "MASTER_ADDR": addresses[0],
        "MASTER_PORT": str(spec["master_port"]),
    }
    given = {name: value for name, value in spec.get("env", {}).items() if name not in ours}
    hidden = [name for name in member.secret_env if name not in ours]
    return [
        *({"name": name, "value": escaped(value)} for name, value in given.items()),
        *({"name": name, "valueFrom": code.from_secret(member.name, name)} for name in hidden),
        *({"name": name, "value": escaped(value)} for name, value in ours.items()),
    ]


def storage_of(spec: Mapping[str, Any], options: Options) -> str:
    """Return where the task sees its business's folder."""
    return f"{options.storage_path.rstrip('/')}/{spec['storage']}"


def _limits(member: Member) -> JSON:
    """Return what it may use; the request of each follows from its limit."""
    asked = member.spec.get("container") or member.spec.get("limits") or {}
    found: JSON = {name: str(number) for name, number in sorted(member.resources.items())}
    if asked.get("memory_mib"):
        found["memory"] = f"{int(asked['memory_mib'])}Mi"
    if asked.get("cpus"):
        found["cpu"] = f"{round(float(asked['cpus']) * 1000)}m"
    return found


def _volumes(member: Member, options: Options) -> list[JSON]:
    container = member.spec.get("container") or {}
    told = [
        {"path": name, "fieldRef": {"fieldPath": f"metadata.annotations['{key}']"}}
        for name, key in (("go", names.GO), ("commit", names.COMMIT))
    ]
    found: list[JSON] = [
        {"name": "work", "emptyDir": {}},
        {"name": "run", "emptyDir": {}},
        {"name": "pod", "downwardAPI": {"items": told}},
        {"name": "storage", "persistentVolumeClaim": {"claimName": options.storage_claim}},
        *ceph.volumes(member.spec, member.gang),
    ]
    if container.get("shm_mib"):
        memory = {"medium": "Memory", "sizeLimit": f"{int(container['shm_mib'])}Mi"}
        found.append({"name": "shm", "emptyDir": memory})
    if container.get("read_only"):
        found.append({"name": "scratch", "emptyDir": {}})
    return found


def _mounts(member: Member, options: Options) -> list[JSON]:
    container = member.spec.get("container") or {}
    found: list[JSON] = [
        {"name": "work", "mountPath": WORK_FOLDER},
        {"name": "run", "mountPath": RUN_FOLDER},
        {"name": "pod", "mountPath": POD_FOLDER, "readOnly": True},
        {
            "name": "storage",
            "mountPath": storage_of(member.spec, options),
            "subPath": str(member.spec["storage"]),
        },
        *ceph.places(member.spec),
    ]
    if container.get("shm_mib"):
        found.append({"name": "shm", "mountPath": "/dev/shm"})
    if container.get("read_only"):
        scratch = ((path, path.strip("/").replace("/", "-")) for path in WRITABLE)
        found += [{"name": "scratch", "mountPath": path, "subPath": name} for path, name in scratch]
    return found


def _user(user: str) -> JSON:
    """Return the security context of a UID:GID, whose group may write what volumes hold; blank: the image's user."""
    if not user:
        return {}
    uid, _, gid = user.partition(":")
    group = int(gid or uid)
    return {"runAsUser": int(uid), "runAsGroup": group, "fsGroup": group}
