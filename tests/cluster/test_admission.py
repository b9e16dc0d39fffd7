"""Who may speak for a host, and what of its agent operators should know."""

import json
import time
import uuid
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from cluster import fencing, inventory
from cluster.agent import machine
from cluster.executors import agents
from cluster.fencing import Speaker
from cluster.models import Host, HostEvent
from tests.cluster.words import Agent, instance, launch, row
from tests.world import World

RECORDED = Path(__file__).parent / "recorded"


def here(**more: object) -> dict[str, Any]:
    """Return what an agent of this version says of itself, at its place."""
    place = {"protocol": 2, "name": "h1", "machine": "m1.b1", "seat": "s1", "clock": time.time()}
    return place | more


@pytest.fixture
def host(world: World) -> Host:
    """Return a host of two cards."""
    return world.host("h1", 2)


@pytest.fixture
def agent(host: Host) -> Agent:
    """Return its agent, which has reported from machine m1 and seat s1."""
    agent = Agent(host)
    agent.sync(**here())
    return agent


def codes() -> list[str]:
    return list(HostEvent.objects.order_by("id").values_list("code", flat=True))


def speaker(boot: str = "two", machine: str = "m1.b1", seat: str = "s1") -> Speaker:
    return Speaker(boot=boot, machine=machine, seat=seat)


@pytest.mark.parametrize(
    ("known", "told", "heard_s"),
    [
        (speaker("two", seat="s0"), speaker(), 1.0),  # the same process: it cannot have moved
        (speaker("", "", ""), speaker(), None),  # the first ever
        (speaker("one"), speaker(), 1.0),  # the lock of the folder says that `one` is dead
        (speaker("one", seat="s0"), speaker(), fencing.QUIET_S),  # the machine started again
        (speaker("one", seat="s0"), speaker(), None),
        (speaker("one", "", ""), speaker(), 1.0),  # an older agent said nothing of it
        (speaker("one", "m1."), speaker(), 1.0),  # of an ordinary user before, of root now
    ],
)
def test_an_agent_takes_over_from_one_that_is_dead(
    known: Speaker, told: Speaker, heard_s: float | None
) -> None:
    fencing.check(known, told, heard_s)


@pytest.mark.parametrize(
    ("told", "heard_s", "refusal"),
    [
        (speaker(seat="s2"), 44.0, fencing.Second),
        (speaker(machine="m2.b1"), 1.0, fencing.Elsewhere),
        (speaker(machine="m1.b2"), 1e9, fencing.Elsewhere),  # however long the other is silent
        (speaker(machine="", seat=""), 1.0, fencing.Second),  # an older agent may be a copy
    ],
)
def test_a_second_agent_is_refused(told: Speaker, heard_s: float, refusal: type[Exception]) -> None:
    with pytest.raises(refusal):
        fencing.check(speaker("one"), told, heard_s)


def test_a_machine_and_a_folder_have_marks_that_tell_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    marks = machine.machine()
    assert marks == machine.machine()
    assert len(marks) <= 64
    if machine.MACHINE_ID.exists() and (known := machine.MACHINE_ID.read_text().strip()):
        assert known not in marks
    assert machine.seat(tmp_path / "a") == machine.seat(tmp_path / "a") != machine.seat(tmp_path / "b")


def test_a_copy_of_a_host_is_refused_with_the_way_out_and_harms_no_task_of_it(
    agent: Agent, host: Host
) -> None:
    pk = launch(host)
    agent.sync(**here(), instances=[instance(pk)])
    copy = Agent(host)
    for elsewhere, code, way_out in (
        ({"seat": "s2"}, "second_agent", "silent for 45 s"),
        ({"machine": "m2.b1"}, "another_machine", "Let another machine speak for it"),
    ):
        answer = copy.sync(409, **here(**elsewhere), boot=str(uuid.uuid4()), address="10.0.0.9")
        assert answer["errors"][0]["code"] == code
        assert way_out in answer["errors"][0]["message"]
    assert (row(pk).phase, row(pk).wanted) == ("running", True)
    [kept] = agent.sync(**here(), instances=[instance(pk)])["instances"]
    assert kept["run"]
    assert codes() == ["second_agent", "another_machine"]
    assert HostEvent.objects.filter(args__address="10.0.0.9").count() == 2


def test_a_machine_that_started_again_is_let_in_once_its_old_agent_is_silent(
    agent: Agent, host: Host
) -> None:
    again = here(seat="s2", boot=str(uuid.uuid4()))
    new = Agent(host)
    new.sync(409, **again)
    Host.objects.update(last_seen_at=timezone.now() - timedelta(seconds=46))
    new.sync(**again)
    agent.sync(409, **here())  # the old one, if it lives after all


@pytest.mark.parametrize("way", ["accepted", "registered"])
def test_another_machine_is_let_in_where_an_operator_says_so(agent: Agent, host: Host, way: str) -> None:
    moved = here(machine="m2.b2", seat="s2", boot=str(uuid.uuid4()))
    new = Agent(host)
    new.sync(409, **moved)
    if way == "accepted":
        Host.objects.update(machine="", seat="")
    else:
        Host.objects.update(token_hash="")
        _, token = inventory.register("h1", "SZ", "")
        new.headers = {"authorization": f"Bearer {token}"}
    new.sync(**moved)


def test_a_host_that_calls_itself_otherwise_is_renamed(agent: Agent, host: Host) -> None:
    agent.seq = 0
    agent.sync(**here(name="gpu-7", boot=str(uuid.uuid4())))
    assert list(Host.objects.values_list("pk", "name")) == [(host.pk, "gpu-7")]
    event = HostEvent.objects.get()
    assert (event.code, event.args) == ("renamed", {"old": "h1", "new": "gpu-7"})


def test_a_name_that_another_host_has_is_left_to_it(agent: Agent, host: Host, world: World) -> None:
    world.host("h2")
    renamed = here(name="h2", boot=str(uuid.uuid4()))
    agent.seq = 0
    agent.sync(**renamed)
    agent.sync(**renamed)
    assert Host.objects.get(pk=host.pk).name == "h1"
    assert codes() == ["name_taken"]


@pytest.mark.parametrize("offset_s", [420, -420, 86400 * 30])
def test_a_clock_that_is_off_is_noted_once_and_nothing_goes_by_it(
    agent: Agent, host: Host, offset_s: int
) -> None:
    pk = launch(host)
    for phase in ("running", "ending"):
        agent.sync(**here(clock=time.time() + offset_s), instances=[instance(pk, phase)])
    host.refresh_from_db()
    assert host.clock_offset_s == pytest.approx(offset_s, abs=5)
    assert host.last_seen_at is not None
    running_at = row(pk).running_at
    assert running_at is not None
    assert abs((running_at - timezone.now()).total_seconds()) < 5
    agent.sync(**here(clock=time.time()), instances=[instance(pk, "gone")])
    assert [code for code in codes() if code.startswith("clock")] == ["clock_off", "clock_right"]


def test_a_clock_that_wavers_about_the_limit_is_told_once_until_it_is_clearly_right(agent: Agent) -> None:
    for offset_s in (25, 35, 25, 35, 25, 15, 25, 15, -35):
        Host.objects.update(last_seen_at=None)  # else it is not written down each time
        agent.sync(**here(clock=time.time() + offset_s))
    assert codes() == ["clock_off", "clock_right", "clock_off"]


def test_a_host_that_is_back_has_an_event(agent: Agent, host: Host) -> None:
    Host.objects.update(lost_since=timezone.now())
    agent.sync(**here())
    assert codes() == ["back"]


# Agents of an older version


def recorded(name: str, **more: object) -> dict[str, Any]:
    """Return what an agent of that version really said."""
    document: dict[str, Any] = json.loads((RECORDED / f"{name}.json").read_text())
    return document | more


def post(document: dict[str, Any], headers: dict[str, str]) -> Any:
    return Client().post("/api/agent/sync/", json.dumps(document), "application/json", headers=headers)


def test_an_agent_one_version_back_is_served_and_told(world: World) -> None:
    host = world.host("h1", 8)
    pk = launch(host)
    said = recorded(
        "sync_protocol_1", instances=[{**recorded("sync_protocol_1")["instances"][0], "id": str(pk)}]
    )
    answer = post({**said, "wait_s": 0, "clock": time.time()}, Agent(host).headers)
    assert answer.status_code == 200
    assert [one["run"] for one in answer.json()["instances"]] == [True]
    assert "protocol 1" in answer.json()["notice"]
    assert row(pk).phase == "running"
    host.refresh_from_db()
    assert (host.agent_protocol, codes()) == (1, ["agent_old"])


@pytest.mark.parametrize("protocol", [-1, -(10**30), 1.0, True, "2", None, [], {}])
def test_a_protocol_that_is_none_is_refused_with_its_field(
    agent: Agent, host: Host, protocol: object
) -> None:
    [fault] = agent.sync(400, **here(protocol=protocol))["errors"]
    assert (fault["field"], fault["code"]) == ("protocol", "required")
    assert codes() == []


def test_an_agent_of_a_later_protocol_is_served(agent: Agent, host: Host) -> None:
    agent.sync(**here(protocol=10**30))
    assert codes() == []


def test_an_agent_that_is_too_old_is_refused_and_operators_see_why(agent: Agent, host: Host) -> None:
    pk = launch(host)
    for _ in range(2):
        answer = agent.sync(426, **here(protocol=0))
    assert answer["errors"][0]["code"] == "too_old"
    assert "install a newer agent" in answer["errors"][0]["message"]
    assert (row(pk).phase, row(pk).wanted) == ("pending", True)
    host.refresh_from_db()
    assert (host.agent_protocol, codes()) == (0, ["agent_too_old"])
    agent.sync(**here())
    host.refresh_from_db()
    assert host.agent_protocol == 2


def test_an_agent_of_this_version_is_told_nothing(agent: Agent) -> None:
    assert agent.sync(**here())["notice"] == ""


# Removed hosts


def test_what_runs_on_a_removed_host_that_was_given_up_is_ended_when_it_comes_back(
    agent: Agent, host: Host
) -> None:
    pk = launch(host)
    agent.sync(**here(), instances=[instance(pk)])
    Host.objects.update(state="removed", lost_since=timezone.now())
    agents.abandon([host.pk], "host lost")
    answer = agent.sync(**here(), instances=[instance(pk)])
    assert (answer["instances"], answer["forget"]) == ([], [])  # so the agent ends it
    assert Host.objects.get().lost_since is not None
    agent.sync(401, **here(), instances=[instance(pk, "gone")])
