"""Tasks that run what its owner made in a cluster himself: how they are told from others, and what he is told."""

from collections.abc import Mapping
from typing import Any

from django.utils.translation import gettext as _

MPIJOB = "mpijob"  # what such a task needs of hosts, and the key of its document that says which one it is
NOT_HERE = "not_here"  # the code of `not_here`'s sentence: a fault of a document, a conflict of a task


def named(document: Mapping[str, Any]) -> str:
    """Return the namespace and name of the MPIJob that a task of this document runs; blank: none."""
    job = document.get(MPIJOB)
    return f"{job.get('namespace')}/{job.get('name')}" if isinstance(job, Mapping) else ""


def about(job: str) -> str:
    """Return what people should know of a task that runs this MPIJob; blank where it runs none."""
    message = _(
        "Runs the MPIJob %(job)s of its cluster: to hold or to stop it leaves that suspended there, and to run it "
        "again it is deleted and applied with kubectl."
    )
    return message % {"job": job} if job else ""


def not_here(job: str) -> str:
    """Return why a task that runs this MPIJob can be neither run again nor copied here, and what to do instead."""
    message = _(
        "What it runs is the MPIJob %(job)s of a cluster, and is made again only there: kubectl delete it, "
        "then kubectl apply it once more."
    )
    return message % {"job": job}
