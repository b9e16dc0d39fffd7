"""Hosts that are cut off, stopped, copied, renamed, or whose clock is wrong: nothing is lost, nothing runs twice."""

import os
import shutil
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

import pytest
from django.utils import timezone

from cluster import host_calls, host_events, inventory
from cluster.models import CardLease, Host, HostEvent
from jobs import services
from jobs.models import Task, TaskEvent
from quotas.models import UsageRow
from tests.agent.conftest import marked
from tests.chaos.clock import Clock, build
from tests.chaos.proxy import Line, Lines
from tests.life.house import House, RealHost

STAY = 'echo up; while ! test -e "$TAIJI_TASK_DIR/enough"; do sleep 0.05; done'
ELASTIC = {"is_elasticity": True, "enable_evicted_pulled_up": True}


@pytest.fixture
def line(house: House) -> Iterator[Line]:
    """Return a line from h1 to the platform."""
    lines = Lines(["h1"], int(house.url.rsplit(":", 1)[1]))
    line = lines.by_name["h1"]
    yield line
    line.be("refuse")  # the platform's ends of it close too, else its server would wait for them
    time.sleep(0.2)
    lines.close()


@pytest.fixture
def h1(house: House, line: Line) -> RealHost:
    """Return a host of one card behind that line, which is alone at first."""
    house.policy(pull_up_backoff_s=0.1, exit_grace_s=2.0, restart_lost_s=0)
    return house.host("h1", 1, url=f"http://127.0.0.1:{line.port}")


def enough(house: House, task: Task) -> None:
    """Let the task end well."""
    (house.storage / f"business-{task.business_id}/task-{task.pk}/enough").touch()


def be_lost(house: House, host: RealHost) -> None:
    """Let so much time pass since the host was heard last that it is lost."""
    silent = Host.objects.filter(name=host.name)

    def lost() -> bool:
        silent.update(last_seen_at=timezone.now() - timedelta(seconds=100))  # a last report may be on its way
        return silent.exclude(lost_since=None).exists()

    house.until(lost)


def free() -> int:
    return sum(one.free for one in inventory.free_cards(timezone.now()))


def outcomes(task: Task) -> list[str]:
    return [attempt.outcome for attempt in task.attempts.order_by("number")]


def test_a_task_on_a_host_that_is_cut_off_is_restarted_only_as_the_policy_says_and_its_orphan_is_ended(
    house: House, h1: RealHost, line: Line
) -> None:
    task = house.submit(STAY, retry_limit=1)
    house.reach(task, "running")
    old = house.member(task)
    house.host("h2", 1)
    line.be("refuse")
    be_lost(house, h1)
    time.sleep(0.5)
    house.reach(task, "running")
    assert (free(), CardLease.objects.filter(released_at=None).count()) == (1, 1)  # h2's alone
    house.policy(pull_up_backoff_s=0.1, exit_grace_s=2.0, restart_lost_s=1)
    house.until(lambda: task.attempts.count() == 2)
    house.reach(task, "running")
    assert (outcomes(task), house.member(task).host.name) == (["lost", ""], "h2")
    assert marked(str(old.pk))  # nobody could end it yet
    waits = house.submit("echo next")
    time.sleep(0.3)
    house.reach(waits, "queued")
    line.be("pass")
    house.reach(waits, "succeeded")
    assert house.member(waits).host.name == "h1"
    assert not marked(str(old.pk))
    house.reach(task, "running")
    assert task.attempts.count() == 2
    codes = HostEvent.objects.filter(host__name="h1").order_by("id").values_list("code", flat=True)
    assert list(codes) == ["registered", "lost", "back"]


def test_a_host_that_comes_back_ends_what_was_stopped_meanwhile_and_takes_work(
    house: House, h1: RealHost, line: Line
) -> None:
    task = house.submit(STAY)
    house.reach(task, "running")
    line.be("refuse")
    be_lost(house, h1)
    services.stop(task, task.user)
    time.sleep(0.3)
    house.reach(task, "stopping")
    assert (free(), bool(marked(str(house.member(task).pk)))) == (0, True)
    line.be("pass")
    house.reach(task, "stopped")
    assert not marked(str(house.member(task).pk))
    house.reach(house.submit("echo next"), "succeeded")


def test_a_task_that_ended_well_while_nobody_could_hear_it_has_succeeded_and_is_not_run_again(
    house: House, h1: RealHost, line: Line
) -> None:
    """Its end is on the host's disk, whatever happens to the line and the agent."""
    task = house.submit(STAY, **ELASTIC)
    house.reach(task, "running")
    line.be("refuse")
    be_lost(house, h1)
    enough(house, task)
    house.until(lambda: not marked(str(house.member(task).pk)))
    h1.end(signal.SIGKILL)
    h1.start()
    time.sleep(0.5)
    house.reach(task, "running")
    line.be("pass")
    house.reach(task, "succeeded")
    assert outcomes(task) == ["succeeded"]


@pytest.mark.parametrize("first", ["the line", "the scheduler"])
def test_a_task_that_ended_well_while_the_scheduler_too_was_away_has_succeeded_and_is_not_run_again(
    house: House, h1: RealHost, line: Line, first: str
) -> None:
    """Whichever of them comes back first."""
    task = house.submit(STAY, **ELASTIC)
    house.reach(task, "running")
    with house.planning:
        line.be("refuse")
        enough(house, task)
        house.until(lambda: not marked(str(house.member(task).pk)))
        h1.end(signal.SIGKILL)
        h1.start()
        Host.objects.update(last_seen_at=timezone.now() - timedelta(seconds=100))
        if first == "the line":
            line.be("pass")
            house.until(lambda: house.member(task).exit_code == 0)
        house.reach(task, "running")
    if first == "the scheduler":
        be_lost(house, h1)
        house.reach(task, "running")
        line.be("pass")
    house.reach(task, "succeeded")
    house.until(lambda: free() == 1)
    time.sleep(0.5)  # for passes that might pull it up
    house.reach(task, "succeeded")
    assert outcomes(task) == ["succeeded"]
    assert TaskEvent.objects.filter(task=task, new_state="queued").count() == 1


# The agent with seconds in place of minutes: what it counts is forgotten after 6 s, a call waits for 0.4 s.
HASTY = """
from cluster.agent import __main__, agent, calls, pace
calls.WINDOW_S, calls.SLOT_S, agent.HELD_S = 6.0, 0.1, 0.1
pace.wait_s = lambda *, first: 0.4
__main__.main()
"""


def told(*codes: str) -> list[str]:
    """Return which of these things happened to h1, in their order."""
    happened = HostEvent.objects.filter(host__name="h1", code__in=codes).order_by("id")
    return list(happened.values_list("code", flat=True))


def warned() -> list[str]:
    """Return what operators are told to look at on h1."""
    facts = host_events.Facts.of(Host.objects.get(name="h1"))
    return host_events.warnings(facts, timezone.now())


def test_short_silences_restart_nothing_however_many_they_are_and_operators_are_warned_meanwhile(
    house: House, h1: RealHost, line: Line, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only a silence without any success in between counts."""
    monkeypatch.setattr(host_calls, "WELL_S", 5)
    h1.end()
    h1.program = ["-c", HASTY]
    h1.start()
    house.policy(lost_after_s=25, restart_lost_s=1)
    task = house.submit(STAY, **ELASTIC)
    house.reach(task, "running")
    assert warned() == []
    began = time.monotonic()
    while time.monotonic() - began < 32:
        line.be("refuse")
        time.sleep(0.15)
        line.be("pass")
        time.sleep(1.05)
    house.reach(task, "running")
    assert (outcomes(task), Host.objects.get().lost_since) == ([""], None)
    assert told("lost", "calls_fail", "calls_well") == ["calls_fail"]
    [warning] = warned()
    assert warning.startswith("Its calls to the platform fail again and again: ")
    assert f"The last: The platform at http://127.0.0.1:{line.port} does not answer: " in warning
    house.until(lambda: told("calls_well"))
    assert (warned(), told("lost", "calls_fail", "calls_well")) == ([], ["calls_fail", "calls_well"])
    house.reach(task, "running")


def test_stopping_the_agent_ends_no_task_and_completes_none(house: House, h1: RealHost) -> None:
    """What survives is found again; what does not is lost, and pulled up."""
    kept = house.submit(STAY)
    house.reach(kept, "running")
    h2 = house.host("h2", 1)
    gone = house.submit(STAY, **ELASTIC)
    house.reach(gone, "running")
    assert (h1.end(), h2.end()) == (0, 0)
    time.sleep(0.3)
    house.reach(kept, "running")
    house.reach(gone, "running")
    old = house.member(gone)
    for pid in [*keepers(h2), *marked(str(old.pk))]:
        with suppress(ProcessLookupError):  # the loop's last sleep may be over
            os.kill(pid, signal.SIGKILL)
    h1.start()
    h2.start()
    house.until(lambda: gone.attempts.count() == 2)
    house.reach(gone, "running")
    house.reach(kept, "running")
    assert (outcomes(kept), outcomes(gone)) == ([""], ["lost", ""])
    enough(house, kept)
    house.reach(kept, "succeeded")


def keepers(host: RealHost) -> list[int]:
    """Return the keepers of a host whose agent is not running."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if str(host.state / "instances").encode() in entry.read_bytes():
                found.append(int(entry.parent.name))
        except OSError:
            continue  # it ended meanwhile
    return found


def test_a_copy_of_a_host_is_refused_with_a_sentence_and_harms_no_task(house: House, h1: RealHost) -> None:
    task = house.submit(STAY)
    house.reach(task, "running")
    running = marked(str(house.member(task).pk))[0]
    copy = RealHost(house, "copy", {"--name": "h1", "--region": "SZ", "--simulate": "P40:1"})
    shutil.copytree(h1.state, copy.state)
    house.hosts.append(copy)
    copy.start()
    house.until(lambda: "Another agent speaks for h1" in copy.words.read_text())
    time.sleep(1)
    house.reach(task, "running")
    assert outcomes(task) == [""]
    assert running in marked(str(house.member(task).pk))
    assert "Another agent" not in h1.words.read_text()
    assert HostEvent.objects.filter(host__name="h1", code="second_agent").exists()
    copy.end()
    enough(house, task)
    house.reach(task, "succeeded")
    h1.end(signal.SIGKILL)
    h1.start()  # in the same folder: its lock says that the one before is dead
    house.reach(house.submit("echo next"), "succeeded")


def again(house: House, name: str, cards: int) -> RealHost:
    """Start the agent of h1 anew, as another name and with so many cards."""
    host = RealHost(house, "h1", {"--name": name, "--region": "SZ", "--simulate": f"P40:{cards}"})
    house.hosts.append(host)
    host.start()
    return host


def test_a_host_that_comes_back_renamed_and_with_fewer_cards_leaves_no_ghost(house: House) -> None:
    host = house.host("h1", 4)
    task = house.submit(STAY, host_gpu_num=2)
    house.reach(task, "running")
    host.end()
    host = again(house, "gpu-7", 3)
    house.until(lambda: list(Host.objects.values_list("name", flat=True)) == ["gpu-7"])
    house.until(lambda: free() == 1)
    house.reach(task, "running")
    host.end()
    again(house, "gpu-7", 4)
    house.until(lambda: free() == 2)
    assert Host.objects.get().cards.count() == 4
    enough(house, task)
    house.reach(task, "succeeded")
    assert free() == 4


def test_a_clock_that_is_wrong_or_jumps_is_warned_of_and_nothing_goes_by_it(
    house: House, tmp_path: Path
) -> None:
    clock = Clock(build(tmp_path), tmp_path / "clock")
    clock.be_off(420)
    host = house.host("h1", 2, env=clock.env)
    row = Host.objects.filter(name="h1")

    def warned() -> bool:
        facts = host_events.Facts.of(row.get())
        return "Its clock is off by 420 s" in " ".join(host_events.warnings(facts, timezone.now()))

    house.until(warned)
    longest = house.submit(STAY, **ELASTIC)
    house.reach(longest, "running")
    for offset_s in (-420, 86400, -3600):
        clock.be_off(offset_s)
        quick = house.submit("sleep 0.2", time_limit=60)
        house.reach(quick, "succeeded")
    later = house.submit(STAY, **ELASTIC)  # by the host's clock it began an hour before the other
    house.reach(later, "running")
    high = house.submit(STAY)
    house.reach(high, "running")
    assert (outcomes(longest), outcomes(later)) == (["evicted"], [""])
    enough(house, high)
    house.reach(high, "succeeded")
    assert all(0 <= used.seconds < 60 for used in UsageRow.objects.all())
    assert row.get().lost_since is None
    events = HostEvent.objects.filter(code__startswith="clock").values_list("code", flat=True)
    assert set(events) == {"clock_off"}
    clock.be_off(0)
    host.end()
    host.start()
    house.until(lambda: HostEvent.objects.filter(code="clock_right").exists())
