"""A stand-in for the API server of Kubernetes, over real HTTP: what it does, a real one was seen to do."""

import asyncio
import base64
import copy
import json
import re
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field

from aiohttp import ClientSession, web

from tests.kubernetes import discovery
from tests.kubernetes.objects import JSON, Failure, Store, apply_status, merge, selected
from tests.kubernetes.rules import check_metadata, check_pod, check_pod_change

BOOKMARK_S = 0.3
WHO, CONTROLLER = "X-Taiji-Test", "controller"  # a header that says who calls
# How a call may be answered else than with a status: the line is cut before; or when it is done, so that nobody hears
# so; or it is done twice, as by a proxy that heard nothing of the first time, and the second answer is heard.
CUT, UNHEARD, TWICE = 0, -1, -2
KINDS = {"pods": "Pod", "nodes": "Node", "secrets": "Secret", "services": "Service", "leases": "Lease"}


@dataclass(slots=True, kw_only=True)
class Fault:
    """How the next calls that fit are answered."""

    fits: Callable[[str, str], bool]  # method, path
    status: int  # or CUT, UNHEARD, TWICE
    times: int
    headers: dict[str, str] = field(default_factory=dict)


@dataclass(slots=True, kw_only=True)
class Beside:
    """What happens beside the next call that fits, while who made it waits for the answer."""

    method: str
    path: str  # a pattern, found anywhere in the path
    happens: Callable[[], object]
    once_done: bool  # when what was asked for is done, and only nobody heard so; else before
    happened: Future[object] = field(default_factory=Future)

    def fits(self, method: str, path: str) -> bool:
        return method == self.method and re.search(self.path, path) is not None


class Server:
    """One cluster's API."""

    def __init__(self) -> None:
        """Listen on a free port."""
        self.store = Store()
        self.logs_away = False
        self.unserved: set[str] = set()  # groups of which the cluster has no kind
        self.faults: list[Fault] = []
        self.held: set[str] = set()  # parts of paths that get no answer
        self._beside: list[Beside] = []
        self.calls: list[tuple[str, str]] = []
        self.connections: set[int] = set()  # that something was created by
        self.by_controller: set[tuple[str, str]] = (
            set()
        )  # of those; LIST is one that reads, GET one that watches
        self.priority_classes: frozenset[str] = frozenset({"batch"})
        self.port = 0
        self._watches: set[web.StreamResponse] = set()
        self._loop = asyncio.new_event_loop()
        self._news = asyncio.Condition()
        self._runner: web.AppRunner | None = None
        threading.Thread(target=self._loop.run_forever, daemon=True).start()
        self.store.changed = self._tell_soon
        self.store.create("namespaces", "", {"metadata": {"name": "kube-system"}})
        self.open()

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.port}"

    def open(self) -> None:
        """Listen, on the port that it had before."""
        asyncio.run_coroutine_threadsafe(self._open(), self._loop).result(60)

    def close(self) -> None:
        """Go away: nothing answers."""
        asyncio.run_coroutine_threadsafe(self._close(), self._loop).result(60)

    def cut(self) -> None:
        """Cut every watch in the middle."""
        self._loop.call_soon_threadsafe(self._cut)

    def fail(self, status: int, *, method: str = "", path: str = "", times: int = 1, **headers: str) -> None:
        """Answer the next calls so whose method and path hold these."""
        fits: Callable[[str, str], bool] = lambda m, p: method in m and path in p  # noqa: E731  # one line
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        self.faults.append(Fault(fits=fits, status=status, times=times, headers=named))

    def meanwhile(
        self, happens: Callable[[], object], method: str, path: str, *, once_done: bool = False
    ) -> Future[object]:
        """Have something happen, once, while the next call of `method` waits whose path matches the pattern `path`.

        Return what will say that it happened, and with its result how it went.
        """
        beside = Beside(method=method, path=path, happens=happens, once_done=once_done)
        self._beside.append(beside)
        return beside.happened

    def cpu_s(self) -> float:
        """Return how much time of a processor it took so far."""

        async def taken() -> float:
            return time.thread_time()

        return asyncio.run_coroutine_threadsafe(taken(), self._loop).result(60)

    async def _open(self) -> None:
        app = web.Application(client_max_size=2**24)
        app.router.add_route("*", "/{path:.*}", self._answer)
        self._runner = web.AppRunner(app, shutdown_timeout=0.1, access_log=None)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", self.port, reuse_address=True)
        await site.start()
        self.port = self._runner.addresses[0][1]

    async def _close(self) -> None:
        self._cut()
        if self._runner:
            await self._runner.cleanup()

    def _tell_soon(self) -> None:
        self._loop.call_soon_threadsafe(self._tell)

    def _tell(self) -> None:
        self._telling = asyncio.ensure_future(self._notify())  # one that is not kept may be cleared away

    async def _notify(self) -> None:
        async with self._news:
            self._news.notify_all()

    def _cut(self) -> None:
        for response in self._watches:
            transport = response._req and response._req.transport
            if transport:
                transport.abort()

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        self.calls.append((request.method, request.path))
        if request.method == "POST" and request.transport:
            self.connections.add(request.transport.get_extra_info("peername")[1])
        if request.headers.get(WHO) == CONTROLLER:
            is_list = request.method == "GET" and "watch" not in request.query
            self.by_controller.add(("LIST" if is_list else request.method, request.path))
        fault = self._fault(request)
        if fault and fault.status == CUT:
            return self._drop(request)
        if fault and fault.status > 0:
            failure = Failure(fault.status, "Injected", "injected by the test")
            return _failed(failure, fault.headers)
        while any(part in request.path for part in self.held):
            await asyncio.sleep(0.02)
        try:
            await self._happen(request, once_done=False)
            if fault and fault.status == TWICE:
                await self._route(request)
            answer = await self._route(request)
            await self._happen(
                request, once_done=True
            )  # of two that ask for the same, beside the one that got it
        except Failure as failure:
            return _failed(failure)
        return self._drop(request) if fault and fault.status == UNHEARD else answer

    def _taken(self, request: web.Request, *, once_done: bool) -> Beside | None:
        for beside in self._beside:
            if beside.once_done == once_done and beside.fits(request.method, request.path):
                self._beside.remove(beside)
                return beside
        return None

    async def _happen(self, request: web.Request, *, once_done: bool) -> None:
        if beside := self._taken(request, once_done=once_done):
            try:
                beside.happened.set_result(await self._loop.run_in_executor(None, beside.happens))
            except Exception as error:  # it is who waits for it that has to hear
                beside.happened.set_exception(error)

    def _fault(self, request: web.Request) -> Fault | None:
        for fault in self.faults:
            if fault.times > 0 and fault.fits(request.method, request.path):
                fault.times -= 1
                return fault
        return None

    def _drop(self, request: web.Request) -> web.StreamResponse:
        if request.transport:
            request.transport.abort()
        return web.Response()

    async def _route(self, request: web.Request) -> web.StreamResponse:
        if found := discovery.answer(request.path):
            return web.json_response(found)
        parts = request.path.strip("/").split("/")
        if parts[1] in self.unserved:
            raise Failure(404, "NotFound", "the server could not find the requested resource")
        parts = parts[2:] if parts[0] == "api" else parts[3:]
        namespace = ""
        if parts[0] == "namespaces" and len(parts) > 2:
            namespace, parts = parts[1], parts[2:]
        resource, name, sub = (*parts, "", "")[:3]
        if not name:
            if request.method == "POST":
                return self._create(resource, namespace, await request.json())
            if request.query.get("watch") == "true":
                return await self._watch(request, resource, namespace)
            return self._list(request, resource, namespace)
        if sub == "log":
            return await self._log(request, namespace, name)
        body = await request.json() if request.can_read_body else {}
        with self.store.lock:
            return web.json_response(self._one(request, resource, (namespace, name), sub, body))

    def _create(self, resource: str, namespace: str, body: JSON) -> web.Response:
        with self.store.lock:
            check_metadata(body["metadata"])
            if resource == "pods":
                check_pod(body, self.priority_classes)
                body = {**body, "status": {"phase": "Pending"}}
            if resource == "secrets" and "stringData" in body:
                body = {name: value for name, value in body.items() if name != "stringData"} | {
                    "data": {name: _base64(value) for name, value in body["stringData"].items()}
                }
            return web.json_response(self.store.create(resource, namespace, body), status=201)

    def _list(self, request: web.Request, resource: str, namespace: str) -> web.Response:
        with self.store.lock:
            things = self._chosen(request, resource, namespace)
            limit = int(request.query.get("limit", 0)) or len(things) + 1
            at = int(request.query.get("continue", "0").partition("@")[0] or 0)
            page, more = things[at : at + limit], len(things) > at + limit
            metadata = {"resourceVersion": str(self.store.version)}
            if more:
                metadata["continue"] = f"{at + limit}@{self.store.version}"
            return web.json_response({"metadata": metadata, "items": page})

    def _chosen(self, request: web.Request, resource: str, namespace: str) -> list[JSON]:
        labels, fields = request.query.get("labelSelector", ""), request.query.get("fieldSelector", "")
        return [
            thing
            for (where, _), thing in sorted(self.store.objects[resource].items())
            if namespace in {"", where} and selected(thing, labels, fields)
        ]

    def _one(self, request: web.Request, resource: str, key: tuple[str, str], sub: str, body: JSON) -> JSON:
        if request.method == "GET":
            return self.store.get(resource, key)
        if request.method == "DELETE":
            uid = (body.get("preconditions") or {}).get("uid", "")
            return self.store.delete(resource, key, body.get("gracePeriodSeconds"), uid)
        old = self.store.get(resource, key)
        if sub == "binding":
            return self._bind(key, old, body)
        if request.method == "PATCH":
            if "strategic" in request.content_type and resource == "mpijobs":
                raise Failure(415, "UnsupportedMediaType", "strategic merge is not supported")
            applied = "apply-patch" in request.content_type
            if applied and not request.query.get("fieldManager"):
                raise Failure(400, "BadRequest", "fieldManager is required for apply patch")
            new = (apply_status if applied else merge)(copy.deepcopy(old), body)
            sent = body
        else:
            new = sent = body
        self._check(resource, key, old, sent)
        if sub == "status":
            new = {**old, "status": new.get("status")}
        elif "status" in old:
            new = {**new, "status": old["status"]}  # what is said of it here is ignored, without an error
        if resource == "pods":
            check_pod_change(old, new)
        return self.store.update(resource, key, copy.deepcopy(new))

    def _check(self, resource: str, key: tuple[str, str], old: JSON, sent: JSON) -> None:
        said = sent.get("metadata") or {}
        for name in ("resourceVersion", "uid"):
            if said.get(name) and said[name] != old["metadata"][name]:
                raise Failure(409, "Conflict", f'{resource} "{key[1]}": {name} is another by now')

    def _bind(self, key: tuple[str, str], pod: JSON, body: JSON) -> JSON:
        if pod["spec"].get("nodeName"):
            raise Failure(409, "Conflict", f"pod {key[1]} is already assigned to node")
        bound = {**pod, "spec": {**pod["spec"], "nodeName": body["target"]["name"]}}
        self.store.update("pods", key, copy.deepcopy(bound))
        return {"kind": "Status", "status": "Success"}

    async def _watch(self, request: web.Request, resource: str, namespace: str) -> web.StreamResponse:
        at = int(request.query.get("resourceVersion") or self.store.version)
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        response.enable_chunked_encoding()
        await response.prepare(request)
        self._watches.add(response)
        labels, fields = request.query.get("labelSelector", ""), request.query.get("fieldSelector", "")
        ends = self._loop.time() + float(request.query.get("timeoutSeconds", 60))
        try:
            while self._loop.time() < ends:
                with self.store.lock:
                    if at < self.store.oldest[resource]:
                        gone = {"code": 410, "reason": "Expired", "message": "too old resource version"}
                        await _line(response, {"type": "ERROR", "object": gone})
                        break
                    new = [event for event in self.store.history[resource] if event[0] > at]
                    latest = self.store.version
                for _version, kind, thing, before in new:
                    if namespace in {"", thing["metadata"].get("namespace", "")}:
                        is_in = kind != "DELETED" and selected(thing, labels, fields)
                        was_in = before is not None and selected(before, labels, fields)
                        await _show(response, thing, is_in=is_in, was_in=was_in)
                at = latest
                await self._wait_for_news(response, at)
        except (ConnectionError, asyncio.CancelledError):
            return response
        finally:
            self._watches.discard(response)
        await response.write_eof()
        return response

    async def _wait_for_news(self, response: web.StreamResponse, at: int) -> None:
        if self.store.version > at:
            return
        async with self._news:
            try:
                await asyncio.wait_for(self._news.wait(), BOOKMARK_S)
            except TimeoutError:
                bookmark = {"metadata": {"resourceVersion": str(at)}}
                await _line(response, {"type": "BOOKMARK", "object": bookmark})

    async def _log(self, request: web.Request, namespace: str, name: str) -> web.Response:
        """Ask the kubelet of the pod's node, as a real one does."""
        pod = self.store.get("pods", (namespace, name))
        node = self.store.get("nodes", ("", pod["spec"].get("nodeName", "")))["status"]
        port = node["daemonEndpoints"]["kubeletEndpoint"]["Port"]
        address = next(one["address"] for one in node["addresses"] if one["type"] == "InternalIP")
        container = request.query.get("container", "main")
        url = f"https://{address}:{port}/containerLogs/{namespace}/{name}/{container}"
        if self.logs_away:
            raise Failure(500, "InternalError", f"Get {url}: dial tcp: connect: connection refused")
        query = {key: value for key, value in request.query.items() if key != "container"}
        async with ClientSession() as session, session.get(url, params=query, ssl=False) as answer:
            body = await answer.read()
            if answer.status == 404:
                raise Failure(400, "BadRequest", f"container {container!r} is waiting to start")
            return web.Response(body=body)


async def _show(response: web.StreamResponse, thing: JSON, *, is_in: bool, was_in: bool) -> None:
    """Show an event as who selects sees it: what is not selected any more is deleted to him."""
    if is_in:
        await _line(response, {"type": "MODIFIED" if was_in else "ADDED", "object": thing})
    elif was_in:
        await _line(response, {"type": "DELETED", "object": thing})


def _failed(failure: Failure, headers: dict[str, str] | None = None) -> web.Response:
    body = {"kind": "Status", "code": failure.status, "reason": failure.reason, "message": failure.message}
    return web.json_response(body, status=failure.status, headers=headers)


def _base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


async def _line(response: web.StreamResponse, event: JSON) -> None:
    await response.write(json.dumps(event).encode() + b"\n")
