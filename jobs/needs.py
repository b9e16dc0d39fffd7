"""What kind of instance a task needs, in the words that hosts offer (see cluster/agent/protocol.py)."""

from collections.abc import Mapping
from typing import Any


def kind_of(document: Mapping[str, Any]) -> str:
    """Return what a host has to offer to run a normalised document: a container where it names an image."""
    kind = "container" if document.get("image_full_name") else "process"
    data = document.get("dataset_id") or (document.get("dataset_params") or {}).get("ceph_info")
    return f"{kind}_ceph" if data else kind
