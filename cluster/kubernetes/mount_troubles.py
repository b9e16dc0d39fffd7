"""Private ceph that cannot be mounted: a pod says only that it waits, so the events about it are asked why."""

import re
import threading
import time
import uuid
from collections.abc import Mapping, Set
from functools import partial
from typing import Any

from cluster.agent.mounts import REFUSED
from cluster.kubernetes.calls import Calls
from cluster.kubernetes.options import Options
from cluster.kubernetes.seen import Trouble, is_leaving
from cluster.kubernetes.work import Work

JSON = dict[str, Any]
Pod = Mapping[str, Any]
QUIET_S = 10.0  # what is well is mounted by then
AGAIN_S = 15.0
MESSAGE_AT_MOST = 300


class MountTroubles:
    """Why pods that wait for private ceph do so, as their kubelets said last."""

    def __init__(self, calls: Calls, options: Options) -> None:
        """Ask through `calls`."""
        self._calls = calls
        self._folder = f"/api/v1/namespaces/{options.namespace}/events"
        self._lock = threading.Lock()
        self._ask_at: dict[uuid.UUID, float] = {}
        self._said: dict[uuid.UUID, Trouble] = {}

    def keep(self, there: Set[uuid.UUID]) -> None:
        """Remember nothing of pods that are not there."""
        with self._lock:
            self._ask_at = {pk: at for pk, at in self._ask_at.items() if pk in there}
            self._said = {pk: said for pk, said in self._said.items() if pk in there}

    def look(self, pk: uuid.UUID, pod: Pod, work: Work) -> Trouble | None:
        """Return what keeps a pod from its data, as far as is known, and begin to ask where it is time."""
        if not _waits(pod):
            return None
        now = time.monotonic()
        with self._lock:
            due = self._ask_at.setdefault(pk, now + QUIET_S) <= now
            if due:
                self._ask_at[pk] = now + AGAIN_S
            said = self._said.get(pk)
        if due:
            work.begin(uuid.uuid5(pk, "mounts"), partial(self._ask, pk, pod))
        return said

    def _ask(self, pk: uuid.UUID, pod: Pod) -> None:
        about = f"involvedObject.uid={pod['metadata']['uid']},reason=FailedMount"
        events, _ = self._calls.list(self._folder, fieldSelector=about)
        if not events:
            return
        last = max(events, key=lambda event: str(event.get("lastTimestamp") or event.get("eventTime") or ""))
        message = " ".join(str(last.get("message") or "").split())[-MESSAGE_AT_MOST:]
        kind = "data" if re.search(REFUSED, message) else "data_away"
        with self._lock:
            self._said[pk] = Trouble(kind=kind, sentence=f"Private ceph could not be mounted: {message}.")


def _waits(pod: Pod) -> bool:
    """Say whether a pod that has a place and private ceph has started nothing yet."""
    status, spec = pod.get("status") or {}, pod["spec"]
    has_ceph = any(volume["name"].startswith("ceph-") for volume in spec.get("volumes") or ())
    states = (each.get("state") or {} for each in status.get("containerStatuses") or ())
    began = any("running" in state or "terminated" in state for state in states)
    waits = bool(spec.get("nodeName")) and status.get("phase") == "Pending" and not began
    return has_ceph and waits and not is_leaving(pod)
