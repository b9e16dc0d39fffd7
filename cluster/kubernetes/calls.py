"""Calls of the Kubernetes API: the official client connects and signs, documents go and come as they are."""

import json
import random
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import urllib3
from kubernetes import client, config
from kubernetes.config.config_exception import ConfigException
from yaml import YAMLError

JSON = dict[str, Any]
THREADS = 16
CALL_S = 10.0  # of one try: less than a holder of the lease has left when it stops
TRY_S = 8.0  # how long a call that is throttled is tried again
SHORTEST_PAUSE_S, LONGEST_PAUSE_S = 0.1, 60.0  # between two tries, whatever a server asks for
PAGE = 500
# Characters that no row takes, as JSON writes them and as they are read: NUL, and halves of a pair.
UNTAKEN, UNTAKEN_IN_JSON = re.compile("[\0\ud800-\udfff]"), re.compile(rb"\\u(?:0000|[dD][89a-fA-F])")
MERGE = "application/merge-patch+json"
APPLY = "application/apply-patch+yaml"  # of which JSON is a part


class Refused(Exception):
    """The API server understood the call and says no; `status`, `reason` and `message` are its own."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        """Keep what it said."""
        super().__init__(message or reason or str(status))
        self.status, self.reason, self.message = status, reason, message


class Missing(Refused):
    """There is no such object (404)."""


class Conflict(Refused):
    """The name is taken, or the object is another by now (409)."""


class Expired(Refused):
    """What was asked to go on from is too long ago (410)."""


class Away(Exception):
    """The API server cannot be reached, is not well, too busy, or does not know us: nobody knows what was done."""


KINDS: Mapping[int, type[Refused]] = {404: Missing, 409: Conflict, 410: Expired}

# What reading a kubeconfig raises where it is none: the library looks into it as if it were one.
UNUSABLE = (ConfigException, YAMLError, OSError, ValueError, TypeError, LookupError, AttributeError)


def connect(kubeconfig: Path | None = None, context: str | None = None) -> client.ApiClient:
    """Return a client for the cluster of `kubeconfig`, else of the pod that this runs in, else of the user's file.

    Raises ValueError with a sentence where there is none.
    """
    settings = client.Configuration()
    load: Any = config  # without types
    try:
        if kubeconfig is None and context is None:
            try:
                load.load_incluster_config(client_configuration=settings)
            except ConfigException:
                load.load_kube_config(client_configuration=settings)
        else:
            place = str(kubeconfig) if kubeconfig else None
            load.load_kube_config(place, context=context, client_configuration=settings)
        if not settings.host:
            raise ConfigException("it names no server of the cluster")
    except UNUSABLE as error:
        place = f"--kubeconfig {kubeconfig}" if kubeconfig else "this is no pod, and the kubeconfig"
        why = " ".join(str(error).split()).rstrip(".")
        raise ValueError(f"No cluster is configured: {place} cannot be used: {why}.") from error
    settings.connection_pool_maxsize = 2 * THREADS  # else connections beyond it are closed after each call
    settings.retries = False  # the client's own would try a creation again without our knowing
    return client.ApiClient(settings)


class Calls:
    """The API server of one cluster."""

    def __init__(self, api: client.ApiClient, guard: Callable[[], None] = lambda: None) -> None:
        """Call through `api`; `guard` is asked before each try of a change, and raises where none may be made."""
        self._api = api
        self.guard = guard
        self._lock = threading.Lock()
        self._not_before = 0.0  # the server asked for a pause

    def get(self, path: str, **query: object) -> JSON:
        """Return one object, or one page of a list."""
        return _document(self._call("GET", path, query=query))

    def list(self, path: str, **query: object) -> tuple[list[JSON], str]:
        """Return all objects and the version at which they are such; raises Expired where that took too long."""
        items: list[JSON] = []
        more = ""
        while True:
            page = self.get(path, limit=PAGE, **query, **({"continue": more} if more else {}))
            about = page.get("metadata") or {}
            if "resourceVersion" not in about:
                raise Away(f"no list was answered to {path}")
            items += page.get("items") or []
            more = about.get("continue", "")
            if not more:
                return items, about["resourceVersion"]

    def create(self, path: str, body: Mapping[str, Any]) -> JSON:
        """Create an object and return it; raises Conflict where its name is taken."""
        return _document(self._call("POST", path, body=body))

    def replace(self, path: str, body: Mapping[str, Any]) -> JSON:
        """Put an object in the place of the one that it was made from; raises Conflict where that is no more."""
        return _document(self._call("PUT", path, body=body))

    def patch(self, path: str, body: Mapping[str, Any]) -> JSON:
        """Merge `body` into an object."""
        return _document(self._call("PATCH", path, body=body, kind=MERGE))

    def apply(self, path: str, body: Mapping[str, Any], manager: str) -> JSON:
        """Have what `body` says of an object be so, and belong to `manager`; what others said of it stays theirs."""
        query = {"fieldManager": manager, "force": "true"}
        return _document(self._call("PATCH", path, query=query, body=body, kind=APPLY))

    def delete(self, path: str, uid: str = "", grace_s: int | None = None) -> None:
        """Delete an object, only the one with this `uid` where it is given; one that is not there is none to delete."""
        options: JSON = {"apiVersion": "v1", "kind": "DeleteOptions"}
        if uid:
            options["preconditions"] = {"uid": uid}
        if grace_s is not None:
            options["gracePeriodSeconds"] = grace_s
        try:
            self._call("DELETE", path, body=options)
        except Missing:
            return

    def text(self, path: str, **query: object) -> bytes:
        """Return what is no document, such as a log."""
        return self._call("GET", path, query=query)

    @contextmanager
    def stream(self, path: str, quiet_s: float, **query: object) -> Iterator[Iterator[JSON]]:
        """Give the documents of a watch, a line each, until it ends or says nothing for so long."""
        self._pause(CALL_S)
        raw = self._send("GET", path, query, None, "", (CALL_S, quiet_s))
        try:
            if raw.status != 200:
                self._note_pause(path, raw)
                raise _refusal(raw.status, _body(raw))
            yield _documents(raw)
        finally:
            raw.close()

    def _call(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, object] | None = None,
        body: Mapping[str, Any] | None = None,
        kind: str = "application/json",
    ) -> bytes:
        until = time.monotonic() + TRY_S
        while True:
            self._pause(until - time.monotonic())
            if method != "GET":
                self.guard()
            raw = self._send(method, path, query or {}, body, kind, CALL_S)
            data = _body(raw)
            if raw.status < 300:
                return data
            self._note_pause(path, raw)
            if raw.status != 429 or time.monotonic() >= until:
                raise _refusal(raw.status, data)

    def _send(
        self,
        method: str,
        path: str,
        query: Mapping[str, object],
        body: Mapping[str, Any] | None,
        kind: str,
        timeout: float | tuple[float, float],
    ) -> urllib3.BaseHTTPResponse:
        headers = {"Accept": "application/json"} | ({"Content-Type": kind} if body is not None else {})
        pairs = [(name, value) for name, value in query.items() if value not in (None, "")]
        prepared = self._api.param_serialize(
            method, path, query_params=pairs, header_params=headers, body=body, auth_settings=["BearerToken"]
        )
        try:
            answer = self._api.call_api(*prepared, _request_timeout=timeout)
        except (urllib3.exceptions.HTTPError, client.ApiException, OSError) as error:
            raise Away(str(error)) from error
        found: urllib3.BaseHTTPResponse = answer.response
        return found

    def _pause(self, at_most_s: float) -> None:
        """Wait as long as the server asked for; raises Away where that is longer than the caller has."""
        with self._lock:
            wait_s = self._not_before - time.monotonic()
        if wait_s > max(at_most_s, 0.0):
            raise Away(f"the API server asks for a pause of {wait_s:.0f} s more")
        if wait_s > 0:
            time.sleep(wait_s * random.uniform(1.0, 1.3))

    def _note_pause(self, path: str, raw: urllib3.BaseHTTPResponse) -> None:
        """Have all threads pause as the server asks: who is throttled is so as a whole.

        What a kubelet asks for, through which a log is fetched, is about one node.
        """
        if raw.status != 429 and path.endswith("/log"):
            return
        asked = raw.headers.get("Retry-After", "1" if raw.status == 429 else "")
        if not asked.isdecimal():
            return
        wait_s = min(max(float(asked), SHORTEST_PAUSE_S), LONGEST_PAUSE_S)
        with self._lock:
            self._not_before = max(self._not_before, time.monotonic() + wait_s)


def _body(raw: urllib3.BaseHTTPResponse) -> bytes:
    """Return all of an answer, so that its connection can be used again."""
    try:
        data: bytes = raw.data
    except urllib3.exceptions.HTTPError as error:
        raise Away(str(error)) from error
    return data


def _refusal(status: int, data: bytes) -> Refused | Away:
    try:
        said = json.loads(data)
        reason, message = str(said.get("reason", "")), str(said.get("message", ""))
    except (ValueError, AttributeError):
        reason, message = "", data[:200].decode(errors="replace")
    refused = KINDS.get(status, Refused)(status, reason, message)
    # A token that is not taken (401) is one that ran out, or that a new server cannot check yet.
    return Away(str(refused)) if status in {401, 429} or status >= 500 else refused


def _document(data: bytes) -> JSON:
    """Return the object that an answer is; raises Away where it is none: something else answered instead."""
    try:
        found = json.loads(data)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise Away(f"no object was answered, but {data[:200].decode(errors='replace')!r}")
    return _takable(found) if UNTAKEN_IN_JSON.search(data) else found


def _takable(found: Any) -> Any:
    """Return what was read with a mark in the place of each character that no row takes."""
    if isinstance(found, dict):
        return {_takable(name): _takable(value) for name, value in found.items()}
    if isinstance(found, list):
        return [_takable(each) for each in found]
    return UNTAKEN.sub("\ufffd", found) if isinstance(found, str) else found


def _documents(raw: urllib3.BaseHTTPResponse) -> Iterator[JSON]:
    rest = b""
    try:
        for part in raw.stream(2**16, decode_content=True):
            *lines, rest = (rest + part).split(b"\n")
            yield from (_document(line) for line in lines if line)
    except (urllib3.exceptions.HTTPError, OSError) as error:
        raise Away(str(error)) from error
