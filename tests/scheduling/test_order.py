"""Who goes first: gates, priorities, aging, fair share and slices."""

import pytest

from tests.scheduling.build import (
    Row,
    claim,
    decide_on,
    host,
    policy,
    quota,
    snapshot_of,
    task,
    used,
)

NOW = 100_000.0


def one_card(*tasks: task) -> list[Row]:
    """Return one free card and the tasks that want it."""
    return [host("h1").cards("P40", 1), *tasks]


class TestGates:
    """What keeps a task from starting before cards and quota are looked at."""

    def test_a_held_or_blocked_task_waits_for_as_long_as_it_is_so(self) -> None:
        plan = decide_on(host("h1"), task("a").with_(gate="hold"), task("b").with_(gate="dependency"))

        assert plan.waits == {"a": "hold", "b": "dependency"}
        assert plan.plan.wake_at is None

    @pytest.mark.parametrize("gate", ["not_before", "backoff"])
    def test_a_time_gate_opens_by_itself(self, gate: str) -> None:
        later = task("a").with_(gate=gate, ready_at=50.0)

        waiting = decide_on(host("h1"), later, now=10)
        assert waiting.waits == {"a": gate}
        assert waiting.plan.wake_at == 50
        assert decide_on(host("h1"), later, now=50).starts.keys() == {"a"}

    def test_a_gated_task_is_never_the_head_of_its_line(self) -> None:
        rows = one_card(task("a").high().with_(gate="hold").at(0), task("b").high().at(1))

        assert decide_on(*rows, head_of_line="strict").starts.keys() == {"b"}

    def test_nor_is_a_task_without_quota(self) -> None:
        rows = one_card(task("a").high().of("B").at(0), task("b").high().at(1), quota("A", "P40", 8))  # type: ignore[arg-type]

        assert decide_on(*rows, head_of_line="strict").starts.keys() == {"b"}


class TestHighOrder:
    """High tasks go by priority inside their business, then by time."""

    def test_the_earlier_goes_first(self) -> None:
        assert decide_on(*one_card(task("late").high().at(2), task("early").high().at(1))).starts.keys() == {
            "early"
        }

    def test_priority_goes_before_time_inside_a_business(self) -> None:
        rows = one_card(
            task("a").high().at(1), task("b").high().at(2), task("urgent").high().at(3).with_(priority=2)
        )
        assert decide_on(*rows, now=10).starts.keys() == {"urgent"}
        assert decide_on(*rows, now=10, high_order="fifo").starts.keys() == {"a"}

    def test_priority_does_not_pass_another_business(self) -> None:
        rows = one_card(
            task("theirs").high().of("B").at(1),
            task("mine").high().at(2),
            task("urgent").high().at(3).with_(priority=2),
        )
        assert decide_on(*rows, now=10).starts.keys() == {"theirs"}

    def test_waiting_is_worth_a_level(self) -> None:
        rows = one_card(task("low").high().at(0).with_(priority=0), task("medium").high().at(5000))

        assert decide_on(*rows, now=7199, aging_s=7200).starts.keys() == {"medium"}
        assert decide_on(*rows, now=7200, aging_s=7200).starts.keys() == {"low"}
        assert decide_on(*rows, now=99_999, aging_s=0).starts.keys() == {"medium"}

    def test_what_a_task_waited_behind_a_gate_gains_it_no_level(self) -> None:
        low = task("low").high().at(0).with_(priority=0, ready_at=5000.0)
        rows = one_card(low, task("medium").high().at(9000))

        assert decide_on(*rows, now=12_199, aging_s=7200).starts.keys() == {"medium"}
        assert decide_on(*rows, now=12_200, aging_s=7200).starts.keys() == {"low"}

    def test_the_pass_wakes_when_a_level_is_gained(self) -> None:
        rows = one_card(
            task("x").high().on(h1=1), task("low").high().with_(priority=0), task("mid").high().at(10)
        )
        assert decide_on(*rows, now=100, aging_s=7200, head_of_line="skip").plan.wake_at == 7200

    def test_the_shortest_goes_first_by_its_time_limit(self) -> None:
        rows = one_card(
            task("long").high().at(0).with_(time_limit=600.0),
            task("short").high().at(1).with_(time_limit=60.0),
            task("endless").high().at(0),
        )
        assert decide_on(*rows, high_order="shortest_first").starts.keys() == {"short"}

    def test_whoever_waited_too_long_goes_before_the_shortest(self) -> None:
        rows = one_card(
            task("long").high().at(0).with_(time_limit=600.0),
            task("short").high().at(90).with_(time_limit=60.0),
        )
        assert decide_on(*rows, now=100, high_order="shortest_first", aging_s=100).starts.keys() == {"long"}
        assert decide_on(*rows, now=100, high_order="shortest_first", aging_s=101).starts.keys() == {"short"}


class TestFairShare:
    """Elastic cards go to the business, and in it the user, that used the least."""

    def test_the_business_with_less_use_goes_first(self) -> None:
        rows = one_card(task("a").of("A", "ann").at(0), task("b").of("B", "bob").at(1))

        assert decide_on(*rows, used("A", "ann", 100.0)).starts.keys() == {"b"}
        assert decide_on(*rows, used("A", "ann", 100.0), elastic_order="fifo").starts.keys() == {"a"}

    def test_inside_a_business_the_user_with_less_use_goes_first(self) -> None:
        rows = one_card(task("ann1").of("A", "ann").at(0), task("bob1").of("A", "bob").at(1))

        assert decide_on(*rows, used("A", "ann", 100.0)).starts.keys() == {"bob1"}

    def test_a_burst_does_not_win_before_its_use_is_counted(self) -> None:
        burst = [task(f"a{n}").of("A", "ann").at(n) for n in range(8)]
        others = [task(f"b{n}").of("B", "bob").at(100 + n) for n in range(8)]

        plan = decide_on(host("h1"), *burst, *others, now=200)

        assert sorted(plan.starts) == ["a0", "a1", "a2", "a3", "b0", "b1", "b2", "b3"]

    def test_what_runs_counts_as_use(self) -> None:
        rows = [
            host("h1").cards("P40", 5),
            task("runs").of("A", "ann").on(h1=4).since(NOW - 3600),
            task("a").of("A", "ann").at(0),
            task("b").of("B", "bob").at(1),
        ]
        assert decide_on(*rows, now=NOW, aging_s=0).starts.keys() == {"b"}

    def test_a_task_that_turns_high_gives_its_deposit_back(self) -> None:
        rows = [
            host("h1"),
            task("turns").auto().of("A", "ann").on(h1=7).since(NOW),
            task("ann").of("A", "ann").at(1),
            task("bob").of("A", "bob").at(0),
            used("A", "bob", 100.0),
        ]
        assert decide_on(*rows, now=NOW, aging_s=0).starts.keys() == {"ann"}
        assert decide_on(*rows, quota("A", "P40", 0), now=NOW, aging_s=0).starts.keys() == {"bob"}

    def test_old_use_fades(self) -> None:
        rows = [
            host("h1").cards("P40", 11),
            task("long ago").of("A", "ann").on(h1=2).since(NOW - 70_000),
            task("just now").of("B", "bob").on(h1=8).since(NOW - 10_000),
            task("a").of("A", "ann").at(NOW - 10),
            task("b").of("B", "bob").at(NOW - 10),
        ]
        assert decide_on(*rows, now=NOW).starts.keys() == {"b"}
        assert decide_on(*rows, now=NOW, fair_half_life_s=10_000).starts.keys() == {"a"}

    def test_whoever_waited_too_long_goes_first(self) -> None:
        rows = one_card(task("a").of("A", "ann").at(0), task("b").of("B", "bob").at(90))

        plan = decide_on(*rows, used("A", "ann", 1e9), now=100, aging_s=100)

        assert plan.starts.keys() == {"a"}


class TestRoundRobin:
    """Slices end when others wait."""

    def test_the_longest_runner_past_its_slice_makes_room(self) -> None:
        rows = [
            host("h1").cards("P40", 3),
            task("longest").on(h1=1).since(0).with_(pull_up=True),
            task("long").on(h1=1).since(5).with_(pull_up=True),
            task("stubborn").on(h1=1).since(-9),
            task("waits").of("B").at(NOW - 50),
        ]
        plan = decide_on(*rows, now=NOW, elastic_order="round_robin")

        assert plan.evicted == {"longest": "slice"}
        assert plan.claims == {"waits": {"h1": 1}}
        assert decide_on(*rows, now=NOW).evicted == {}

    def test_nobody_makes_room_before_its_slice_is_over(self) -> None:
        rows = [host("h1"), task("r").on(h1=8).since(0).with_(pull_up=True), task("w").asks(8).at(10)]

        plan = decide_on(*rows, now=100, elastic_order="round_robin", head_of_line="skip", aging_s=0)

        assert plan.evicted == {}
        assert plan.plan.wake_at == 3600

    def test_as_few_slices_end_as_it_takes(self) -> None:
        rows = [
            host("h1"),
            host("h2"),
            task("r1").on(h1=4).since(0).with_(pull_up=True),
            task("r2").on(h2=8).since(1).with_(pull_up=True),
            task("x").high().on(h1=4),
            task("w").asks(8).at(NOW - 10),
        ]
        assert decide_on(*rows, now=NOW, elastic_order="round_robin").evicted == {"r2": "slice"}

    def test_a_slice_of_another_region_does_not_end(self) -> None:
        rows = [
            host("h1"),
            host("g1").at("GZ"),
            task("longest").on(h1=8).since(0).with_(pull_up=True),
            task("long").on(g1=8).since(5).with_(pull_up=True),
            task("w").asks(8).within("GZ").at(NOW - 10),
        ]
        plan = decide_on(*rows, now=NOW, elastic_order="round_robin")

        assert plan.evicted == {"long": "slice"}
        assert plan.claims == {"w": {"g1": 8}}

    def test_where_the_slice_of_a_gang_ends_no_other_does_that_it_makes_needless(self) -> None:
        rows = [
            host("h1").cards("P40", 9),
            host("h2").cards("P40", 10),
            task("x").high().on(h1=1),
            task("gang").gang(2, 6).on(h1=6, h2=6).since(0).with_(pull_up=True),
            task("one").on(h1=2).since(-1).with_(pull_up=True),
            task("w").asks(8).at(NOW - 10),
        ]
        assert decide_on(*rows, now=NOW, elastic_order="round_robin").evicted == {"gang": "slice"}

    def test_no_slice_ends_where_cards_are_coming(self) -> None:
        rows = [
            host("h1"),
            host("h2"),
            task("leaves").on(h1=8).with_(leaving_since=NOW - 10),
            task("runs").on(h2=8).since(0).with_(pull_up=True),
            task("w").asks(8).at(NOW - 10),
        ]
        assert decide_on(*rows, now=NOW, elastic_order="round_robin").evicted == {}

    def test_the_slice_of_a_gang_ends_for_one_host_of_it(self) -> None:
        rows = [
            host("h1"),
            host("h2"),
            task("gang").gang(2, 6).on(h1=6, h2=6).since(0).with_(pull_up=True),
            task("one").on(h2=1).since(1).with_(pull_up=True),
            task("x").high().on(h1=1),
            task("w").asks(8).at(NOW - 10),
        ]
        plan = decide_on(*rows, now=NOW, elastic_order="round_robin")

        assert plan.evicted == {"gang": "slice", "one": "slice"}
        assert plan.claims == {"w": {"h2": 8}}

    def test_the_cards_of_an_ended_slice_are_held_for_whom_it_ended(self) -> None:
        held = claim("w", h1=8, made_at=NOW)
        held.values["task_class"] = "elastic"
        rows = [host("h1"), task("w").asks(8).at(1), held, task("other").asks(1).at(0)]

        plan = decide_on(*rows, now=NOW + 1, elastic_order="round_robin")

        assert plan.starts.keys() == {"w"}

    def test_a_slice_that_ended_for_a_task_does_not_let_it_start_and_be_evicted_at_once(self) -> None:
        held = claim("w", h1=8, made_at=NOW)
        held.values["task_class"] = "elastic"
        rows = [host("h1"), task("w").asks(8).at(1), held, task("a").high().asks(8).at(0)]

        plan = decide_on(*rows, now=NOW + 1, elastic_order="round_robin")

        assert plan.starts.keys() == {"w"}
        assert plan.evicted == {}
        assert plan.waits == {"a": "no_room"}
        assert plan.plan.wake_at == NOW + 1

    def test_whoever_made_room_last_stands_last(self) -> None:
        rows = one_card(task("evicted").at(0).with_(queued=50.0), task("new").at(40))

        assert decide_on(*rows, now=60, elastic_order="round_robin").starts.keys() == {"new"}


def test_the_order_of_the_rows_changes_nothing() -> None:
    rows = [
        *(host(f"h{n}") for n in range(4)),
        *(task(f"e{n}").of("B", f"u{n % 3}").on({f"h{n}": 3}).since(0.0) for n in range(4)),
        *(task(f"w{n}").of("B", f"u{n % 3}").asks(1 + n % 3) for n in range(9)),
        *(task(f"a{n}").high().asks(2 + n).with_(priority=n % 3) for n in range(5)),
        *(task(f"o{n}").auto().asks(2) for n in range(3)),
        claim("a0", h0=2, made_at=NOW),
        quota("A", "P40", 12),
        quota("B", "P40", 4),
    ]
    plain = decide_on(*rows, now=NOW)

    for seed in range(20):
        shuffled = decide_on(*rows, now=NOW, shuffle=seed)
        assert repr(shuffled.plan) == repr(plain.plan)


def test_every_waiting_task_gets_exactly_one_verdict() -> None:
    rows = [host("h1"), *(task(f"w{n}").asks(3).auto() for n in range(9)), quota("A", "P40", 3)]
    snapshot, _ = snapshot_of(*rows)
    plan = decide_on(*rows)

    assert sorted([*plan.starts, *plan.waits]) == [f"w{n}" for n in range(9)]
    assert len(snapshot.waiting) == 9
    assert policy().elastic_order == "fair_share"
