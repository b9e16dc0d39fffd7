"""The log of a pod comes into our store whole and once, however its parts are cut and whoever is restarted."""

import json
import uuid
from collections.abc import Callable
from typing import Any

import pytest

from cluster import logs
from cluster.kubernetes import pod_logs
from cluster.kubernetes.calls import Away, Refused
from cluster.kubernetes.pod_logs import PodLog, Source

ID = uuid.UUID(int=9)
Lines = list[tuple[str, bytes]]


class Kubelet:
    """Answers as the API server does for a container's log."""

    def __init__(self) -> None:
        """Have printed nothing."""
        self.lines: dict[str, Lines] = {"main": []}
        self.calls = 0
        self.fault: Exception | None = None

    def print(self, text: bytes, at: str, container: str = "main") -> None:
        """Print at a second and its parts, such as 03.25."""
        whole, _, part = at.partition(".")
        stamp = f"2026-01-01T00:00:{whole}.{part:0<9}Z"
        self.lines.setdefault(container, []).append((stamp, text))

    def text(
        self, _path: str, *, container: str, limitBytes: int, sinceTime: str = "", **_more: Any
    ) -> bytes:
        """Return what was printed from the beginning of a second on."""
        self.calls += 1
        if self.fault:
            raise self.fault
        found = (at.encode() + b" " + text for at, text in self.lines[container] if at[:19] >= sinceTime[:19])
        return b"".join(found)[:limitBytes]


def pod(phase: str = "Running", node: str = "gpu-1", **states: str) -> dict[str, Any]:
    """Return a pod whose containers are `running` or `terminated`."""
    found = [{"name": name, "state": {state: {}}} for name, state in states.items()]
    kinds = {"initContainerStatuses": found[:-1], "containerStatuses": found[-1:]}
    metadata = {"name": "p", "namespace": "n", "resourceVersion": "1"}
    return {"metadata": metadata, "spec": {"nodeName": node}, "status": {"phase": phase, **kinds}}


RUNS, OVER = pod(main="running"), pod("Succeeded", main="terminated")


def looked(kubelet: Kubelet, thing: dict[str, Any], log: PodLog | None = None) -> PodLog:
    """Look once, as a process that just started, or with what one has."""
    log = log or PodLog(ID, 1)
    log.follow((Source(pod=thing),))
    log.look(kubelet)  # type: ignore[arg-type]  # it asks only for text
    return log


def kept() -> bytes:
    """Return what our store has."""
    return logs.read(ID, 0, 10**7)[0]


def test_what_was_printed_since_is_added_and_nothing_twice() -> None:
    kubelet = Kubelet()
    kubelet.print(b"a\n", "01.5")
    log = looked(kubelet, RUNS)
    kubelet.print(b"b\n", "01.5")  # within the very same moment
    kubelet.print(b"c\n", "01.75")
    looked(kubelet, RUNS, log)
    looked(kubelet, RUNS, log)
    assert (kept(), log.done) == (b"a\nb\nc\n", False)
    looked(kubelet, OVER, log)
    assert (kept(), log.done) == (b"a\nb\nc\n", True)


def test_another_process_goes_on_where_the_last_was() -> None:
    kubelet = Kubelet()
    for number in range(50):
        kubelet.print(b"line %d\n" % number, f"{number:02}.1")
        looked(kubelet, RUNS)
    looked(kubelet, OVER)
    assert kept() == b"".join(b"line %d\n" % number for number in range(50))


def test_a_process_that_died_before_it_noted_how_far_it_was_doubles_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kubelet = Kubelet()
    kubelet.print(b"a\n", "01.1")
    looked(kubelet, RUNS)
    kubelet.print(b"b\n", "02.1")
    with monkeypatch.context() as patched:
        patched.setattr(pod_logs, "_write", lambda *_: None)
        looked(kubelet, RUNS)
    kubelet.print(b"c\n", "03.1")
    looked(kubelet, OVER)
    assert kept() == b"a\nb\nc\n"


def test_a_long_log_comes_in_parts_whatever_they_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pod_logs, "PART", 300)
    kubelet = Kubelet()
    for number in range(200):
        kubelet.print(b"%d\n" % number, f"{number // 4:02}.{number % 4}")
    looked(kubelet, OVER)
    assert kept() == b"".join(b"%d\n" % number for number in range(200))


def test_a_second_that_is_longer_than_a_part_is_taken_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pod_logs, "PART", 300)
    kubelet = Kubelet()
    for number in range(400):
        kubelet.print(b"%d\n" % number, f"01.{number:03}")
    looked(kubelet, OVER)
    assert kept() == b"".join(b"%d\n" % number for number in range(400))


def test_a_line_that_is_not_whole_yet_waits_until_it_is_or_nothing_comes_any_more() -> None:
    kubelet = Kubelet()
    kubelet.print(b"a\n", "01.1")
    kubelet.print(b"half", "02.1")
    log = looked(kubelet, RUNS)
    assert kept() == b"a\n"
    kubelet.lines["main"][-1] = (kubelet.lines["main"][-1][0], b"half and half")
    looked(kubelet, OVER, log)
    assert kept() == b"a\nhalf and half"


def test_what_brought_the_code_stands_before_what_the_task_printed() -> None:
    kubelet = Kubelet()
    kubelet.print(b"[taiji] fetching\n", "01.1", "code")
    log = looked(kubelet, pod("Pending", code="running", main="waiting"))
    kubelet.print(b"[taiji] done\n", "02.1", "code")
    kubelet.print(b"hello\n", "03.1")
    looked(kubelet, pod(code="terminated", main="running"), log)
    looked(kubelet, pod("Succeeded", code="terminated", main="terminated"))
    assert kept() == b"[taiji] fetching\n[taiji] done\nhello\n"


def test_a_pod_that_has_no_place_yet_is_not_over() -> None:
    log = looked(Kubelet(), pod("Pending", node=""))
    assert not log.done


def test_our_own_words_stand_between_and_cost_no_line_of_the_task() -> None:
    kubelet = Kubelet()
    log = PodLog(ID, 1)
    log.say("The image x cannot be had: no.")
    looked(kubelet, pod("Pending", node=""), log)
    kubelet.print(b"a\n", "01.1")
    looked(kubelet, RUNS)
    looked(kubelet, OVER)
    assert kept() == b"[taiji] The image x cannot be had: no.\na\n"


@pytest.mark.parametrize(
    ("fault", "times", "done"),
    [
        (Away("connection refused"), 1, False),
        (Refused(400, "BadRequest", "waiting to start"), 1, False),
        (Refused(404, "NotFound", "no such pod"), 1, True),
        (Away("connection refused"), 2, True),
    ],
)
def test_a_log_that_its_node_does_not_give_is_waited_for_and_then_said_to_be_missing(
    fault: Exception, times: int, done: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    kubelet = Kubelet()
    kubelet.fault = fault
    now = 100.0
    clock: Callable[[], float] = lambda: now  # noqa: E731  # one line
    monkeypatch.setattr("cluster.kubernetes.pod_logs.time.monotonic", clock)
    log = PodLog(ID, 1)
    for _ in range(times):
        looked(kubelet, OVER, log)
        now += pod_logs.GIVE_UP_S
    assert log.done is done
    assert (b"the rest of the log could not be had" in kept()) is (times == 2)


def test_what_it_kept_to_go_on_is_gone_once_the_log_is_whole() -> None:
    kubelet = Kubelet()
    kubelet.print(b"a\n", "01.1")
    log = looked(kubelet, RUNS)
    place = logs.path_of(ID).with_suffix(".place")
    assert json.loads(place.read_text())["end"] == 2
    looked(kubelet, OVER, log)
    assert not place.exists()
