"""The two worlds in which instances run, alike for a test: a host with a real agent, a cluster with its controller."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import pytest

from cluster.kubernetes import calls, work
from cluster.models import Card, Host
from tests.kubernetes.conftest import Kube, node
from tests.kubernetes.server import CUT, TWICE, UNHEARD, Fault
from tests.patience import WITHIN_S

__all__ = ["CUT", "TWICE", "UNHEARD", "ClusterSite", "Site", "host", "until"]


class Site(Protocol):
    """A host of the platform with 8 cards, on which instances really run.

    Who speaks for it is its agent, which calls the platform, or the controller of its cluster, which calls the API
    server: whatever fails on a line fails on that one.
    """

    storage: Path

    def step(self) -> None:
        """Let a moment pass in which everybody may do something."""

    def restart(self) -> None:
        """Kill who speaks for the host, and start it anew; what runs runs on."""

    def fail(self, status: int, times: int) -> None:
        """Have the next calls of who speaks for the host answered so: with a status, or CUT, UNHEARD or TWICE."""

    def failed(self) -> int:
        """Return how many calls were answered so."""

    def cut(self) -> None:
        """Cut the line on which who speaks for the host waits for news, in the middle."""

    def forget_place(self) -> None:
        """Have the place in the news be lost up to which who speaks for the host has heard them."""

    def places_lost(self) -> int:
        """Return how often all had to be told anew so far."""

    def refuse(self) -> dict[str, Any]:
        """Have the next start be refused for good; return what its spec is to say for that."""

    def unheard(self, order: Callable[[], object]) -> None:
        """Give an order, and let it be carried out without that the platform hears of it: nobody steps on."""

    def close(self) -> None:
        """End it all."""


def until(site: Site, met: Callable[[], Any], within_s: float = WITHIN_S) -> Any:
    """Let moments pass until `met` is true, and return what it says."""
    deadline = time.monotonic() + within_s
    while not (found := met()):
        assert time.monotonic() < deadline, "not within its time"
        site.step()
    return found


def host(site: Site) -> Host:
    """Return the site's host once all its cards are known."""
    until(site, lambda: Card.objects.filter(state="ok").count() == 8)
    return Host.objects.get()


class ClusterSite:
    """A node of a cluster."""

    def __init__(self, kube: Kube, patch: pytest.MonkeyPatch) -> None:
        """Add the node; where the API is played, pauses that are asked for are short."""
        self.kube = kube
        self.storage = kube.storage
        self._faults: list[tuple[int, Fault]] = []  # how often each was to be
        if kube.played_alone:
            patch.setattr(work, "RETRY_S", 0.1)
            patch.setattr(calls, "LONGEST_PAUSE_S", 0.2)
        kube.add(node("gpu-1"))
        kube.control()

    def step(self) -> None:
        """Let the controller make a round."""
        for controller in self.kube.controllers:
            controller.round()
        time.sleep(0.02)

    def restart(self) -> None:
        """Kill the controller as far as a thread can be: it does nothing more, nor gives anything back."""
        dead = self.kube.controllers.pop()
        dead.lease._ended.set()
        dead.stop()
        dead.lease.stop()
        self.kube.control()

    def fail(self, status: int, times: int) -> None:
        """Have calls about pods fail; to look twice, or to look and not hear, would be nothing."""
        for method in ("POST", "PATCH", "DELETE") if status < 0 else ("",):
            self._fail(status, times, method)

    def _fail(self, status: int, times: int, method: str) -> None:
        def fits(called: str, path: str) -> bool:
            is_kubelets = path.endswith(("/status", "/binding"))
            return "/pods" in path and not is_kubelets and method in {"", called}

        self._faults.append((times, Fault(fits=fits, status=status, times=times)))
        self.kube.server.faults.append(self._faults[-1][1])

    def failed(self) -> int:
        """Return how many calls were answered so."""
        return sum(times - fault.times for times, fault in self._faults)

    def cut(self) -> None:
        """Cut every watch."""
        self.kube.server.cut()

    def forget_place(self) -> None:
        """Have the API server forget its history and cut every watch: who goes on from before is told 410."""
        self.kube.server.store.compact()
        self.kube.server.cut()

    def places_lost(self) -> int:
        """Return how often something was listed again."""
        [controller] = self.kube.controllers
        return sum(mirror.lists - 1 for mirror in (controller._nodes, controller._pods, controller._others))

    def refuse(self) -> dict[str, Any]:
        """Have the API server refuse the next pod: 422."""
        self._fail(422, 1, "POST")
        return {}

    def unheard(self, order: Callable[[], object]) -> None:
        """Give an order and make rounds until it is carried out: what came of it is told in the round after."""

        def pods() -> set[tuple[str, bool]]:
            every = (pod["metadata"] for pod in self.kube.pods())
            return {(about["uid"], "deletionTimestamp" in about) for about in every}

        before = pods()
        order()
        deadline = time.monotonic() + WITHIN_S
        while pods() == before:
            assert time.monotonic() < deadline, "not within its time"
            [controller] = self.kube.controllers
            controller.round()
            soon = time.monotonic() + 1.0
            while pods() == before and time.monotonic() < soon:
                time.sleep(0.02)

    def close(self) -> None:
        """Nothing: the fixture of the cluster ends it."""
