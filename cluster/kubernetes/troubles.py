"""Pods that do not start: said once in their log, and given up when waiting has been long enough; no I/O."""

import uuid
from collections.abc import Mapping, Set
from dataclasses import dataclass
from typing import Any

from cluster.kubernetes.options import Options
from cluster.kubernetes.seen import Trouble, trouble

CONTAINER_S = 60.0  # what it waits for may be on its way
DATA_S = 60.0  # after the first time that its data could not be had


@dataclass(frozen=True, slots=True)
class _Since:
    kind: str
    at: float
    said: str


class Troubles:
    """What keeps which pod, and since when on this process's clock: another one gives them their time anew."""

    def __init__(self, options: Options, pull_s: float) -> None:
        """Give up an image that cannot be had after `pull_s` seconds."""
        self._limits = {"image": pull_s, "place": options.unschedulable_s, "container": CONTAINER_S}
        self._limits |= {"data": DATA_S, "data_away": DATA_S}
        self._since: dict[uuid.UUID, _Since] = {}

    def keep(self, there: Set[uuid.UUID]) -> None:
        """Remember nothing of pods that are not there."""
        self._since = {pk: since for pk, since in self._since.items() if pk in there}

    def look(
        self, pk: uuid.UUID, pod: Mapping[str, Any], now: float, beside: Trouble | None = None
    ) -> tuple[Trouble | None, str, bool]:
        """Return what keeps a pod, a sentence that was not said yet, and whether it is to be given up.

        `beside`: what is known of that which the pod does not say itself.
        """
        found = trouble(pod) or beside
        if found is None:
            self._since.pop(pk, None)
            return None, "", False
        before = self._since.get(pk)
        at = before.at if before and before.kind == found.kind else now
        self._since[pk] = _Since(found.kind, at, found.sentence)
        news = found.sentence if before is None or before.kind != found.kind else ""
        return found, news, found.for_good or now - at >= self._limits[found.kind]
