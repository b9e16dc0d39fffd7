"""What becomes of the tasks on a host that takes no more of them, by the pass itself."""

from typing import Any

from jobs.simulation.clearing import Effect, clear
from jobs.simulation.forecast import INVENTED
from jobs.simulation.lengths import Finished, Lengths
from tests.scheduling.build import Row, host, policy, quota, snapshot_of, task

HOUR = 3600.0


class Seen:
    """An effect, read by names."""

    def __init__(self, effect: Effect, names: Any) -> None:
        self.effect = effect
        tasks, hosts = names.all("task"), names.all("host")
        self.leavers = {tasks[row.task]: row for row in effect.leavers}
        self.back_on = {
            tasks[row.task]: {hosts[where]: cards for where, cards in row.where.items()}
            for row in effect.leavers
        }
        self.stayers = {tasks[row.task]: row for row in effect.stayers}
        self.elsewhere = {tasks[evict.task] for evict in effect.elsewhere}
        self.put_off = {tasks[pk] for pk in effect.put_off}
        self.moved = {tasks[pk] for pk in effect.moved}


def cleared(*rows: Row, state: Any = "draining", lengths: Lengths | None = None, now: float = HOUR) -> Seen:
    snapshot, names = snapshot_of(*rows, now=now)
    return Seen(clear(snapshot, policy(), lengths or Lengths(), names.id("host", "h1"), state), names)


def test_elastic_tasks_leave_a_drained_host_and_come_back_where_there_is_room() -> None:
    seen = cleared(host("h1"), host("h2"), task("e").asks(4).with_(pull_up=True).on(h1=4))
    assert list(seen.leavers) == ["e"]
    assert seen.back_on == {"e": {"h2": 4}}
    back = seen.leavers["e"].back
    assert back is not None
    assert back.start is not None
    assert HOUR < back.start < HOUR + 600
    assert not seen.stayers


def test_one_that_does_not_accept_to_be_pulled_up_does_not_come_back() -> None:
    seen = cleared(host("h1"), host("h2"), task("e").asks(4).on(h1=4))
    assert seen.leavers["e"].back is None
    assert seen.back_on == {"e": {}}


def test_one_for_which_no_room_will_be_does_not_come_back_as_far_as_can_be_seen() -> None:
    seen = cleared(host("h1"), host("h2").cards("P40", 2), task("e").asks(4).with_(pull_up=True).on(h1=4))
    assert seen.leavers["e"].back is None


def test_one_for_which_room_will_be_comes_back_when_the_task_there_has_ended() -> None:
    seen = cleared(
        host("h1"),
        host("h2"),
        quota("A", "P40", 8),
        task("e").asks(8).with_(pull_up=True).on(h1=8),
        task("h").high().asks(8).with_(time_limit=3 * HOUR).on(h2=8),
    )
    back = seen.leavers["e"].back
    assert back is not None
    assert back.start is not None
    assert 3 * HOUR <= back.start < 3 * HOUR + 600
    assert seen.back_on["e"] == {"h2": 8}


def test_high_tasks_stay_until_their_time_limit_or_as_long_as_earlier_ones_ran_or_nobody_knows() -> None:
    lengths = Lengths(Finished(user=2, cards=2, seconds=2 * HOUR) for _ in range(3))
    seen = cleared(
        host("h1"),
        quota("A", "P40", 8),
        task("a").high().of("A", "ann").asks(2).with_(time_limit=4 * HOUR).on(h1=2),
        task("b").high().of("A", "ben").asks(2).on(h1=2),
        task("c").high().of("A", "cid").asks(2).on(h1=2),
        lengths=lengths,
    )
    ends = {name: (row.ends_at, row.source) for name, row in seen.stayers.items()}
    assert ends == {"a": (4 * HOUR, "limit"), "b": (2 * HOUR, "past"), "c": (None, "")}
    assert not seen.leavers


def test_a_cordoned_host_keeps_all_that_runs_there() -> None:
    seen = cleared(host("h1"), host("h2"), task("e").asks(4).on(h1=4), state="cordoned")
    assert not seen.leavers
    assert list(seen.stayers) == ["e"]


def test_tasks_that_would_start_there_now_start_elsewhere_or_wait() -> None:
    rows = [host("h1"), host("h2").cards("P40", 4), task("big").asks(8), task("small").asks(4).at(1)]
    seen = cleared(*rows, state="cordoned")
    assert seen.put_off == {"big"}
    seen = cleared(host("h1").cards("P40", 4), host("h2"), task("small").asks(4), state="cordoned")
    assert seen.moved == {"small"}


def test_a_high_task_that_would_have_started_there_evicts_elsewhere() -> None:
    seen = cleared(
        host("h1"),
        host("h2"),
        quota("A", "P40", 8),
        task("e").of("B").asks(8).on(h2=8),
        task("h").high().of("A").asks(8),
        state="cordoned",
    )
    assert seen.elsewhere == {"e"}


def test_nothing_of_the_snapshot_is_changed() -> None:
    rows = (host("h1"), host("h2"), task("e").asks(4).with_(pull_up=True).on(h1=4))
    snapshot, names = snapshot_of(*rows, now=HOUR)
    before = repr(snapshot)
    clear(snapshot, policy(), Lengths(), names.id("host", "h1"), "draining")
    assert repr(snapshot) == before
    assert str(INVENTED) not in before
