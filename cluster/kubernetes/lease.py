"""One controller per region: who holds the cluster's Lease, judged by nobody's clock but our own."""

import logging
import threading
import time
from datetime import UTC, datetime
from typing import Any

from cluster.kubernetes.calls import Away, Calls, Conflict, Missing, Refused

log = logging.getLogger(__name__)
JSON = dict[str, Any]
LASTS_S = 30.0  # a holder that does not renew for so long may be replaced …
STOPS_S = 15.0  # … and stops long before: a call that it began meanwhile takes CALL_S at most
RENEW_S = 4.0


class NotHolder(Exception):
    """Another controller is at work, or nobody knows: nothing may be changed."""


class Lease:
    """The Lease `name`, as one process sees it."""

    def __init__(self, calls: Calls, namespace: str, name: str, holder: str) -> None:
        """Hold it, if possible, as `holder`, which no other process is called."""
        self._calls, self._holder = calls, holder
        self._folder = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"
        self._name = name
        self._until = 0.0  # on our clock: until then it is certainly ours
        self._seen: tuple[object, ...] = ()  # what another's said, and since when on our clock
        self._seen_at = 0.0
        self._ended = threading.Event()
        self._lock = threading.Lock()  # nothing is taken once it was given back
        self.heard_at = 0.0  # when the API server last answered
        self.trouble = ""  # why it cannot be asked for, in a sentence; blank: it can

    def check(self) -> None:
        """Raise NotHolder where it is not certainly ours."""
        if time.monotonic() >= self._until:
            raise NotHolder(f"the lease {self._name} is not held")

    def is_held(self) -> bool:
        """Say whether it is certainly ours."""
        return time.monotonic() < self._until

    def run(self) -> None:
        """Take and renew it until `stop`, in a thread of its own."""
        while not self._ended.wait(RENEW_S if self.tend() else RENEW_S / 2):
            pass

    def stop(self) -> None:
        """Give it back, so that another need not wait; what is under way must have ended."""
        self._ended.set()
        with self._lock:
            if not self.is_held():
                return
            self._until = 0.0
            try:
                self._give_back()
            except (Away, Refused) as error:
                log.info("the lease %s was not given back: %s", self._name, error)

    def _give_back(self) -> None:
        path = f"{self._folder}/{self._name}"
        found = self._calls.get(path)
        if found["spec"].get("holderIdentity") == self._holder:
            self._calls.replace(path, {**found, "spec": {**found["spec"], "holderIdentity": ""}})

    def tend(self) -> bool:
        """Take or renew it once; return whether it is ours now."""
        with self._lock:
            return not self._ended.is_set() and self._tend()

    def _tend(self) -> bool:
        began, held = time.monotonic(), self.is_held()
        try:
            mine = self._try()
            self.heard_at = time.monotonic()
            self.trouble = ""
            if mine:
                self._until = began + STOPS_S
        except (Conflict, Missing, Away) as error:  # another was first; or nobody knows, and time goes on
            log.debug("the lease %s: %s", self._name, error)
        except Refused as refused:  # such as rights that are not there yet
            self.trouble = f"The API server refuses the lease {self._name}: {refused}"
        except Exception as error:
            # Said, and tried again: a thread that only died would leave nobody to act, and say nothing.
            log.exception("the lease %s could not be tended", self._name)
            self.trouble = f"The lease {self._name} could not be tended: {error!r}"
        if held != self.is_held():
            log.info("the lease %s is %s", self._name, "ours" if self.is_held() else "not ours any more")
        return self.is_held()

    def _try(self) -> bool:
        try:
            found = self._calls.get(f"{self._folder}/{self._name}")
        except Missing:
            self._calls.create(self._folder, self._document({}, {}))
            return True
        spec = found.get("spec") or {}
        if spec.get("holderIdentity") not in {"", None, self._holder} and not self._is_stale(spec):
            self._until = 0.0
            return False
        # With the version that was read: of two who find it stale at once, one is told of a conflict.
        self._calls.replace(f"{self._folder}/{self._name}", self._document(found["metadata"], spec))
        return True

    def _is_stale(self, spec: JSON) -> bool:
        said = (spec.get("holderIdentity"), spec.get("renewTime"), spec.get("leaseTransitions"))
        if said != self._seen:
            self._seen, self._seen_at = said, time.monotonic()
        return time.monotonic() - self._seen_at >= float(spec.get("leaseDurationSeconds") or LASTS_S)

    def _document(self, metadata: JSON, spec: JSON) -> JSON:
        now = datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
        is_ours = spec.get("holderIdentity") == self._holder
        transitions = int(spec.get("leaseTransitions") or 0) + (not is_ours)
        return {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {**metadata, "name": self._name},
            "spec": {
                **spec,
                "holderIdentity": self._holder,
                "leaseDurationSeconds": round(LASTS_S),
                "renewTime": now,
                "leaseTransitions": transitions,
                **({} if is_ours else {"acquireTime": now}),
            },
        }
