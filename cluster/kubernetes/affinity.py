"""Where the workers of an MPIJob may run, which a scheduler places: on the planned nodes alone, one on each; pure."""

from collections.abc import Mapping, Sequence
from typing import Any

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def one_on_each(nodes: Sequence[str], mates: Mapping[str, str]) -> dict[str, Any]:
    """Return the affinity of workers whose labels are `mates`: a term for each node, as a field takes one value."""
    terms = [
        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]} for node in nodes
    ]
    apart = {"labelSelector": {"matchLabels": dict(mates)}, "topologyKey": "kubernetes.io/hostname"}
    return {
        "nodeAffinity": {REQUIRED: {"nodeSelectorTerms": terms}},
        "podAntiAffinity": {REQUIRED: [apart]},
    }
