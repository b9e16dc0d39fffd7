"""The states of a host: which moves are legal, and that each is made once, with who and why."""

from datetime import UTC, datetime, timedelta

import pytest

from cluster import host_events, host_moves, inventory
from cluster.host_states import MOVES, QUARANTINE, VERBS, State, target, verbs
from cluster.models import Host, HostEvent
from tests.world import World

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def test_the_table_and_the_rows_know_the_same_states() -> None:
    assert set(MOVES) == set(State)
    assert [state.value for state in State] == Host.State.values
    assert {new for after in MOVES.values() for new in after} == set(State)


def test_every_verb_leads_to_one_state_from_wherever_it_is_legal() -> None:
    found = {
        verb: {new for after in MOVES.values() for new, name in after.items() if name == verb}
        for verb in VERBS
    }
    assert {verb: [state.value for state in states] for verb, states in found.items()} == {
        "cordon": ["cordoned"],
        "uncordon": ["ready"],
        "drain": ["draining"],
        "remove": ["removed"],
        "restore": ["ready"],
    }


@pytest.mark.parametrize(
    ("state", "offered"),
    [
        (State.READY, ["cordon", "drain", "remove"]),
        (State.CORDONED, ["uncordon", "drain", "remove"]),
        (State.DRAINING, ["cordon", "uncordon", "remove"]),
        (State.QUARANTINED, ["cordon", "uncordon", "drain", "remove"]),
        (State.REMOVED, ["restore"]),
    ],
)
def test_operators_are_offered_what_is_legal(state: State, offered: list[str]) -> None:
    assert verbs(state) == offered


def test_nobody_asks_for_quarantine_and_only_a_ready_host_gets_it() -> None:
    assert QUARANTINE not in VERBS
    assert [state for state in State if target(state, QUARANTINE)] == [State.READY]


def test_a_move_says_who_when_and_why(world: World) -> None:
    host, root = world.host("h1"), world.operator()
    before = host.state_changed_at
    host_moves.act(host, "drain", actor_id=root.pk, reason="fan is loud")
    host.refresh_from_db()
    assert (host.state, host.state_reason) == ("draining", "fan is loud")
    event = HostEvent.objects.get()
    assert (event.code, event.old_state, event.new_state) == ("drain", "ready", "draining")
    assert (event.actor, event.reason, event.at) == (root, "fan is loud", host.state_changed_at)
    assert event.at > before


def test_of_two_operators_who_see_the_same_host_the_second_is_told(world: World) -> None:
    host, root = world.host("h1"), world.operator()
    stale = Host.objects.get(pk=host.pk)
    host_moves.act(host, "cordon", actor_id=root.pk, reason="a")
    with pytest.raises(host_moves.Refused) as refused:
        host_moves.act(stale, "drain", actor_id=root.pk, reason="b")
    assert refused.value.code == "changed"
    assert HostEvent.objects.count() == 1


def test_what_the_state_forbids_says_what_can_be_done(world: World) -> None:
    host = world.host("h1")
    with pytest.raises(host_moves.Refused) as refused:
        host_moves.act(host, "uncordon", actor_id=world.operator().pk, reason="")
    assert (refused.value.code, refused.value.message) == (
        "state",
        "h1 is ready: what can be done is cordon, drain, remove.",
    )


def test_a_move_that_the_table_does_not_know_is_refused(world: World) -> None:
    host = world.host("h1")
    with pytest.raises(host_moves.IllegalMove):
        host_moves.move(host.pk, State.CORDONED, State.QUARANTINED)
    assert not HostEvent.objects.exists()


def test_a_host_that_becomes_lost_has_an_event(world: World) -> None:
    host = world.host("h1")
    Host.objects.update(last_seen_at=NOW - timedelta(seconds=100))
    inventory.sweep(NOW, 90)
    inventory.sweep(NOW, 90)
    event = HostEvent.objects.get(host=host)
    assert host_events.sentence(event.code, event.args) == "Lost: not heard for 100 s"


class AnyArgument(dict[str, object]):
    """Has every argument that a sentence may name."""

    def get(self, key: str, default: object = None) -> object:
        return [3] if key == "failed" else "x"

    def __missing__(self, key: str) -> str:
        return "x"


def test_every_event_has_a_sentence() -> None:
    args = AnyArgument()
    for code in [*host_events.SENTENCES, *VERBS, QUARANTINE, "spared", "calls_fail"]:
        assert not host_events.sentence(code, args).startswith(code), code
    assert host_events.sentence("of-a-newer-version", {"a": 1}) == "of-a-newer-version {'a': 1}"
    assert host_events.sentence("lost", {}) == "lost"


def test_what_is_told_again_and_again_is_noted_once_an_hour(world: World) -> None:
    host = world.host("h1")
    for minutes in (0, 1, 59, 61, 62):
        host_events.note_once(
            host.pk, "second_agent", {"address": "10.0.0.1"}, NOW + timedelta(minutes=minutes)
        )
    assert HostEvent.objects.count() == 2


def facts(**more: object) -> host_events.Facts:
    """Return the facts of a host that is well."""
    well = {"agent_protocol": None, "clock_offset_s": 1.0, "last_seen_at": NOW, "lost_since": None}
    return host_events.Facts(**(well | more))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({}, []),
        ({"clock_offset_s": 420.4}, ["Its clock is off by 420 s; the platform goes by its own"]),
        ({"clock_offset_s": -3600.0}, ["Its clock is off by -3600 s; the platform goes by its own"]),
        ({"last_seen_at": NOW - timedelta(seconds=60)}, ["It was not heard for 60 s"]),
        ({"last_seen_at": NOW - timedelta(seconds=60), "lost_since": NOW}, []),  # its state says so
        ({"last_seen_at": None}, []),
        (
            {"agent_protocol": 1},
            ["Its agent speaks protocol 1, the platform 2: install a newer agent"],
        ),
        (
            {"agent_protocol": 0},
            ["Its agent speaks protocol 0 and is refused: install the agent of the platform's version"],
        ),
    ],
)
def test_operators_are_warned(more: dict[str, object], said: list[str]) -> None:
    assert host_events.warnings(facts(**more), NOW) == said
