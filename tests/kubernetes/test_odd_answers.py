"""Answers that an API server seldom gives: none of them ends what listens, holds the Lease, or starts tasks."""

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from aiohttp import web

from cluster import host_moves
from cluster.kubernetes import calls, lease, watch
from cluster.kubernetes.calls import Away, Calls
from cluster.models import BroughtJob, Card, Host
from tests.kubernetes import server as servers
from tests.kubernetes.conftest import Kube, connect, node
from tests.kubernetes.desk import Desk, mpijob
from tests.kubernetes.server import Server
from tests.kubernetes.test_faults import COUNT, SLEEP, ready, starts
from tests.patience import WITHIN_S
from tests.world import World

__all__ = ["ready"]
JSON = dict[str, Any]


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server()
    yield server
    server.close()


def until(met: Callable[[], object]) -> None:
    deadline = time.monotonic() + WITHIN_S
    while not met():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.mark.parametrize(
    ("status", "trouble"),
    [(401, ""), (403, "The API server refuses the lease taiji-sz: injected by the test"), (422, "refuses")],
)
def test_a_lease_that_is_refused_for_a_while_says_so_and_is_tended_again(
    server: Server, status: int, trouble: str
) -> None:
    held = lease.Lease(Calls(connect(server.url)), "tasks", "taiji-sz", "a")
    assert held.tend()
    server.fail(status, path="leases")
    held.tend()
    assert server.faults[0].times == 0
    assert trouble in held.trouble
    assert held.tend()
    assert held.trouble == ""


def test_a_lease_that_cannot_be_read_is_said_and_tended_again(server: Server) -> None:
    api = Calls(connect(server.url))
    path = "/apis/coordination.k8s.io/v1/namespaces/tasks/leases"
    about = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "taiji-sz"}}
    api.create(path, about | {"spec": {"holderIdentity": "x", "leaseDurationSeconds": "long"}})
    held = lease.Lease(api, "tasks", "taiji-sz", "a")
    assert not held.tend()
    assert held.trouble.startswith("The lease taiji-sz could not be tended: ValueError")
    api.delete(f"{path}/taiji-sz")
    assert held.tend()


def test_a_lease_that_somebody_removes_at_this_very_moment_is_made_again(server: Server) -> None:
    api = Calls(connect(server.url))
    held = lease.Lease(api, "tasks", "taiji-sz", "a")
    assert held.tend()
    path = "/apis/coordination.k8s.io/v1/namespaces/tasks/leases/taiji-sz"
    removed = server.meanwhile(lambda: api.delete(path), "PUT", "leases")
    held.tend()
    assert removed.done()
    assert held.tend()


@pytest.mark.parametrize("said", [b"<html>", b"{}", b"null", b"[]", b'{"metadata": {}}'])
def test_a_list_that_is_none_is_asked_for_again(
    server: Server, monkeypatch: pytest.MonkeyPatch, said: bytes
) -> None:
    route, odd = server._route, [said]

    async def first_odd(request: web.Request) -> web.StreamResponse:
        return web.Response(body=odd.pop()) if odd else await route(request)

    monkeypatch.setattr(server, "_route", first_odd)
    mirror = watch.Mirror(Calls(connect(server.url)), "/api/v1/namespaces", lambda: None).start()
    until(lambda: mirror.synced.is_set() or mirror.trouble)
    assert "/api/v1/namespaces is not heard" in mirror.trouble
    until(lambda: mirror.synced.is_set() and not mirror.trouble)
    mirror.stop()
    assert [one["metadata"]["name"] for one in mirror.objects()] == ["kube-system"]


@pytest.mark.parametrize("said", [b"<html>", b"null", b'{"object": {}}', b'{"type": "ADDED", "object": {}}'])
def test_news_that_are_none_have_all_listed_or_watched_again(
    server: Server, monkeypatch: pytest.MonkeyPatch, said: bytes
) -> None:
    line, odd = servers._line, [said]

    async def first_odd(response: web.StreamResponse, event: JSON) -> None:
        await response.write(odd.pop() + b"\n") if odd else await line(response, event)

    monkeypatch.setattr(servers, "_line", first_odd)
    api = Calls(connect(server.url))
    mirror = watch.Mirror(api, "/api/v1/namespaces", lambda: None).start()
    until(lambda: not odd)
    api.create("/api/v1/namespaces", {"metadata": {"name": "later"}})
    until(lambda: len(mirror.objects()) == 2 and not mirror.trouble)
    mirror.stop()


def test_all_is_listed_anew_now_and_then(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "RESYNC_S", 0.0)
    mirror = watch.Mirror(Calls(connect(server.url)), "/api/v1/namespaces", lambda: None).start()
    until(mirror.synced.is_set)
    before = mirror.lists

    def listed_anew() -> bool:
        server.cut()  # again and again: the first may come before the watch
        return mirror.lists > before

    until(listed_anew)
    mirror.stop()


def test_a_pause_that_is_longer_than_a_call_may_take_is_kept_by_all_without_a_call(server: Server) -> None:
    api = Calls(connect(server.url))
    server.fail(429, path="namespaces", Retry_After="30")
    began = time.monotonic()
    with pytest.raises(Away, match=r"injected|pause of"):
        api.get("/api/v1/namespaces/kube-system")
    asked = len(server.calls)
    with pytest.raises(Away, match=r"pause of (29|30) s more"):
        api.create("/api/v1/namespaces", {"metadata": {"name": "x"}})
    with pytest.raises(Away, match="pause of"), api.stream("/api/v1/namespaces", 1.0, watch="true"):
        pass
    assert time.monotonic() - began < calls.TRY_S
    assert len(server.calls) == asked


def test_a_log_that_one_node_cannot_give_has_nothing_else_wait(server: Server) -> None:
    api = Calls(connect(server.url))
    server.fail(503, path="/log", Retry_After="30")
    with pytest.raises(Away, match="injected"):
        api.get("/api/v1/namespaces/tasks/pods/p/log")
    assert api.get("/api/v1/namespaces/kube-system")["metadata"]["name"] == "kube-system"


def test_a_watch_that_is_throttled_waits_as_asked(server: Server) -> None:
    api = Calls(connect(server.url))
    server.fail(429, path="namespaces", Retry_After="1")
    with pytest.raises(Away), api.stream("/api/v1/namespaces", 1.0, watch="true"):
        pass
    began = time.monotonic()
    api.get("/api/v1/namespaces/kube-system")
    assert time.monotonic() - began > 0.9


def test_characters_that_no_row_takes_are_marked_and_all_others_as_they_were(server: Server) -> None:
    api = Calls(connect(server.url))
    text = "a\0b \\u0000 \U0001f600 中"
    api.create("/api/v1/namespaces", {"metadata": {"name": "odd", "annotations": {"k\0": text}}})
    found = api.get("/api/v1/namespaces/odd")
    assert found["metadata"]["annotations"] == {"k\ufffd": "a\ufffdb \\u0000 \U0001f600 中"}
    assert calls._document(b'{"half": ["\\ud83d", "\\ud83d\\ude00"]}') == {"half": ["\ufffd", "\U0001f600"]}


@pytest.mark.parametrize(("status", "times"), [(401, 2), (409, 2)])
def test_a_creation_that_is_refused_for_a_reason_that_passes_is_made_once(
    world: World, ready: Kube, status: int, times: int
) -> None:
    """401: a token ran out, or a new server cannot check it yet; 409: of a quota that others changed at that moment."""
    ready.server.fail(status, method="POST", path="/pods", times=times)
    task = world.task(config=COUNT)
    ready.state(task, "succeeded", 30)
    assert starts(ready, task) == 1


@pytest.mark.parametrize("cards", [8, 4])
def test_a_node_that_is_back_has_the_cards_that_it_comes_with(world: World, ready: Kube, cards: int) -> None:
    task = world.task(config=SLEEP)
    ready.state(task, "running")
    ready.remove("gpu-1")
    ready.until(lambda: Host.objects.get().state == "removed")
    ready.state(task, "failed", 30)
    ready.settle()
    for _ in range(5):
        ready.step()
    ready.add(node("gpu-1", cards=cards))
    ready.until(lambda: Card.objects.filter(state="ok").count() == cards)
    assert Host.objects.get().state == "ready"
    assert task.attempts.get().outcome == "lost"


def test_a_host_that_an_operator_restores_has_what_its_node_said_meanwhile(world: World, ready: Kube) -> None:
    admin, host = world.operator(), Host.objects.get()
    host_moves.act(host, "remove", actor_id=admin.pk, reason="sold")
    ready.change("gpu-1", lambda one: one["status"]["capacity"].update({"nvidia.com/gpu": "4"}))
    [post] = ready.controllers[0]._posts.values()
    ready.until(lambda: post.content is not None and len(post.content.cards) == 4)
    assert Card.objects.filter(state="ok").count() == 8  # nobody asks a host that was removed
    host.refresh_from_db()
    host_moves.act(host, "restore", actor_id=admin.pk, reason="")
    ready.until(lambda: Card.objects.filter(state="ok").count() == 4)


def test_a_pod_that_says_no_gang_is_ended_and_ends_no_controller(world: World, ready: Kube) -> None:
    task = world.task(config=SLEEP)
    ready.state(task, "running")
    [pod] = ready.pods()
    path = f"{ready._folder}/pods/{pod['metadata']['name']}"
    ready.calls.patch(path, {"metadata": {"labels": {"taiji.io/gang": None}}})
    ready.settle()
    ready.state(task, "failed")


def test_what_no_row_takes_is_told_to_its_owner_and_keeps_nobody_waiting(world: World, kube: Kube) -> None:
    world.business("ads", P40=16)
    world.user("ann", "ads")
    desk = Desk(kube, "gpu-1")
    for name in ("priority", "gpu-type", "time-limit", "owner"):
        odd = mpijob(f"odd-{name}")
        odd["metadata"]["annotations"][f"taiji.io/{name}"] = "a\0b"
        desk.apply(odd)
    desk.apply(mpijob("good"))
    desk.state(desk.task("good"), "succeeded")
    desk.until(lambda: BroughtJob.objects.filter(state=BroughtJob.REFUSED).count() == 4)


def test_what_a_kubelet_says_with_a_character_that_no_row_takes_is_kept(world: World, ready: Kube) -> None:
    ready.fleet.refusing["gpu-1"] = "no\0room"
    task = world.task(config=SLEEP)
    ready.state(task, "failed", 30)
    assert "no\ufffdroom" in str(task.attempts.get().outcome_args)


def test_a_thread_for_news_that_stumbles_goes_on(monkeypatch: pytest.MonkeyPatch, server: Server) -> None:
    """Over whatever it may be: what was seen last would else stand for ever, and nobody would know."""
    mirror = watch.Mirror(Calls(connect(server.url)), "/api/v1/namespaces", lambda: None)
    take, odd = mirror._take, threading.Event()

    def once_odd(event: JSON) -> None:
        if not odd.is_set():
            odd.set()
            raise KeyError("type")
        take(event)

    monkeypatch.setattr(mirror, "_take", once_odd)
    mirror.start()
    assert odd.wait(WITHIN_S)
    until(lambda: mirror.lists >= 2 and not mirror.trouble)
    mirror.stop()
