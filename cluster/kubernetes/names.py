"""What things of ours are called in a Kubernetes cluster: all from ids, so that doing one twice is seen."""

import hashlib
import re
from collections.abc import Mapping
from typing import Any

from cluster.mpijob_asks import AFTER as AFTER
from cluster.mpijob_asks import ATTEMPT as ATTEMPT
from cluster.mpijob_asks import BUSINESS as BUSINESS
from cluster.mpijob_asks import GATE as GATE
from cluster.mpijob_asks import GROUP as GROUP
from cluster.mpijob_asks import OWNER as OWNER

REGION = f"{GROUP}/region"  # whose it is: one controller per region
INSTANCE = f"{GROUP}/instance"
GANG = f"{GROUP}/gang"
RANK = f"{GROUP}/rank"
HOST = f"{GROUP}/host"  # the id of the row
IDLE = f"{GROUP}/idle"  # a member that only keeps its place
WAITS = f"{GROUP}/waits"  # a member that starts its command when all are ready
LABEL = f"{GROUP}/label"  # for people
GO = f"{GROUP}/go"  # an annotation that says: all are ready
COMMIT = f"{GROUP}/commit"  # an annotation: what the first member runs
VERDICT = f"{GROUP}/verdict"  # an annotation: why it was given up, a cause and a sentence
# Of MPIJobs that people bring, and of their pods.
BROUGHT = f"{GROUP}/mpijob"  # uid of the MPIJob that a pod is of; "yes" of what stands in for pods
ROLE = f"{GROUP}/mpi-role"  # of the pods of our own MPIJobs, too
# What the MPI operator calls its jobs, and where the API server has them.
JOB_API, JOB_KIND = "kubeflow.org/v2beta1", "MPIJob"
JOBS = f"/apis/{JOB_API}"
# Labels of the MPI operator, on all pods of its jobs.
JOB_NAME, JOB_ROLE = "training.kubeflow.org/job-name", "training.kubeflow.org/job-role"
GPU_TYPE = f"{GROUP}/gpu-type"  # a node's own word for its cards, before any other

# An MPIJob of ours, and each pod, is kept until its end was received, as exit records are on hosts with an agent.
FINALIZER = f"{GROUP}/report"
MAIN, CODE = "main", "code"  # containers
# The reason of a pod that is not there yet since the operator took no notice of its MPIJob: a word of ours alone.
NO_OPERATOR = "NoOperator"
LAUNCHER, WORKER = "launcher", "worker"  # roles of the pods of an MPIJob

# What Kubernetes takes as the value of a label, as the name of most objects (DNS-1123 subdomain), of a namespace, and
# as the key of a label or a taint.
_LABEL = r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?"
SUBDOMAIN = r"[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*"
NAMESPACE = r"[a-z0-9]([a-z0-9-]*[a-z0-9])?"
QUALIFIED = rf"({SUBDOMAIN}/)?{_LABEL}"


def pod_name(gang: int, rank: int) -> str:
    """Return the name of a member's pod, and of the Secret that belongs to it."""
    return f"taiji-{gang}-{rank}"


def service_name(gang: int) -> str:
    """Return the name of the headless service through which the members of a gang find each other."""
    return f"taiji-{gang}"


def job_name(gang: int) -> str:
    """Return the name of the MPIJob that runs a gang, and of the service that the operator makes for it."""
    return service_name(gang)


def job_folder(namespace: str) -> str:
    """Return the path of the MPIJobs of a namespace."""
    return f"{JOBS}/namespaces/{namespace}/mpijobs"


def job_path(namespace: str, name: str) -> str:
    """Return the path of an MPIJob."""
    return f"{job_folder(namespace)}/{name}"


def address(gang: int, rank: int, namespace: str) -> str:
    """Return the name under which a member of a gang is reached."""
    return f"{pod_name(gang, rank)}.{service_name(gang)}.{namespace}.svc"


def region_label(region: str) -> str:
    """Return the value of the label that names a region: itself where that may be, else one that no other has."""
    if re.fullmatch(_LABEL, region):
        return region
    return _with_digest(re.sub(r"[^A-Za-z0-9._-]", "-", region), region)


def lease_name(region: str) -> str:
    """Return the name of the Lease of who acts for a region."""
    label = region_label(region).lower()
    return f"taiji-{label}" if re.fullmatch(SUBDOMAIN, label) else f"taiji-{_with_digest(label, region)}"


def _with_digest(text: str, of: str) -> str:
    """Return what is readable of `text`, as a name may hold it, with a digest of `of`."""
    readable = re.sub(r"[^A-Za-z0-9]+", "-", text)[:40].strip("-")
    digest = hashlib.sha256(of.encode()).hexdigest()[:10]
    return f"{readable}-{digest}" if readable else digest


def labels_of(thing: Mapping[str, Any]) -> Mapping[str, str]:
    """Return the labels of an object, none where it has none."""
    return thing["metadata"].get("labels") or {}


def annotations_of(thing: Mapping[str, Any]) -> Mapping[str, str]:
    """Return the annotations of an object, none where it has none."""
    return thing["metadata"].get("annotations") or {}
