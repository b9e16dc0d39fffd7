"""Who goes first: gates, priorities, aging, fair share, slices, and the head of a line."""

import pytest

from tests.scheduling.build import (
    Row,
    claim,
    decide_on,
    host,
    policy,
    quota,
    reservation,
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


class TestHeadOfLine:
    """The first task that cannot start: it gets a reservation, is passed over, or stops its line."""

    ROWS = (
        host("h1"),
        host("h2"),
        task("x").high().of("B").on(h1=4),
        task("y").high().of("B").on(h2=6),
        task("big").high().asks(8).at(NOW - 1800),
        task("small").high().asks(2).at(NOW - 10),
    )

    def test_strict_stops_the_line(self) -> None:
        plan = decide_on(*self.ROWS, now=NOW, head_of_line="strict")

        assert plan.starts == {}
        assert plan.waits == {"big": "no_room", "small": "behind"}

    def test_strict_does_not_stop_another_line(self) -> None:
        rows = [
            *self.ROWS,
            task("other").high().asks(2).on_type("P40,M40").at(NOW),
            task("e").asks(2).at(NOW),
        ]

        assert decide_on(*rows, now=NOW, head_of_line="strict").starts.keys() == {"other", "e"}

    def test_skip_passes_it_over(self) -> None:
        assert list(decide_on(*self.ROWS, now=NOW, head_of_line="skip").starts["small"]) == ["h2"]

    def test_reserve_gathers_the_host_with_the_fewest_cards_that_never_end(self) -> None:
        rows = [*self.ROWS, task("another").high().asks(4).at(NOW)]
        plan = decide_on(*rows, now=NOW)

        assert list(plan.starts["small"]) == ["h2"]
        assert plan.waits["another"] == "kept_for_head"
        assert decide_on(*rows, now=NOW, head_of_line="skip").starts.keys() == {"small", "another"}

    def test_nothing_is_reserved_before_the_head_waited_long_enough(self) -> None:
        rows = [*self.ROWS, task("another").high().asks(4).at(NOW)]

        plan = decide_on(*rows, now=NOW - 1)

        assert list(plan.starts["another"]) == ["h1"]
        assert plan.plan.wake_at == NOW

    def test_a_task_that_ends_before_may_run_on_reserved_hosts(self) -> None:
        rows = [
            host("h1"),
            task("x").high().of("B").on(h1=4).since(0).with_(time_limit=NOW + 100),
            task("big").high().asks(8).at(0),
            task("short").high().asks(2).at(1).with_(time_limit=100.0),
            task("long").high().asks(2).at(2).with_(time_limit=101.0),
        ]
        plan = decide_on(*rows, now=NOW)

        assert plan.starts.keys() == {"short"}
        assert plan.waits == {"big": "no_room", "long": "kept_for_head"}

    def test_a_longer_task_before_it_does_not_keep_a_short_one_out(self) -> None:
        rows = [
            host("h1"),
            task("x").high().of("B").on(h1=4).since(0).with_(time_limit=NOW + 100),
            task("big").high().asks(8).at(0),
            task("long").high().asks(2).at(1).with_(time_limit=101.0),
            task("short").high().asks(2).at(2).with_(time_limit=100.0),
        ]
        assert decide_on(*rows, now=NOW).starts.keys() == {"short"}

    def test_the_host_where_it_can_start_soonest_is_reserved(self) -> None:
        rows = [
            host("h1"),
            host("h2"),
            task("x").high().of("B").on(h1=4).since(0).with_(time_limit=NOW + 500),
            task("y").high().of("B").on(h2=6).since(0).with_(time_limit=NOW + 100),
            task("big").high().asks(8).at(0),
            task("small").high().asks(2).at(1),
        ]
        assert list(decide_on(*rows, now=NOW).starts["small"]) == ["h1"]

    def test_cards_of_those_who_end_some_day_are_not_among_those_that_never_come_free(self) -> None:
        rows = [
            *(host("h1"), host("h2"), task("x").high().of("B").on(h1=5)),
            task("ends").high().of("B").on(h1=1).with_(time_limit=2 * NOW),
            *(task("big").high().asks(8).at(0), task("small").high().asks(2).at(1)),
        ]
        for endless, other in ((6, "h2"), (4, "h1")):
            plan = decide_on(*rows, task("y").high().of("B").on(h2=endless), now=NOW)
            assert list(plan.starts["small"]) == [other]

    def test_the_cards_of_one_who_leaves_are_counted_once_whatever_its_limit(self) -> None:
        leaves = task("leaves").high().of("B").on(h1=4).with_(time_limit=NOW + 100, leaving_since=NOW)
        rows = [
            *(host("h1"), leaves, task("x").high().of("B").on(h1=3), task("big").high().asks(8).at(0)),
            task("small").high().asks(1).at(1).with_(time_limit=101.0),
        ]
        assert decide_on(*rows, now=NOW).starts.keys() == {"small"}

    def test_of_types_that_never_come_free_the_one_with_the_fewest_such_cards_is_reserved(self) -> None:
        rows = [
            host("p1"),
            host("m1").cards("M40", 8),
            task("x").high().of("B").on(p1=6),
            task("y").high().of("B").on_type("M40").on(m1=2),
            task("big").high().asks(8).on_type("P40,M40").at(0),
            task("small").high().asks(2).on_type("M40,P40").at(1),
        ]
        assert list(decide_on(*rows, now=NOW).starts["small"]) == ["p1"]

    def test_the_head_of_an_elastic_line_never_binds_high_tasks(self) -> None:
        rows = [
            host("h1"),
            task("x").high().of("B").on(h1=4),
            task("big").asks(8).at(0),
            task("e").asks(2).at(1),
            task("a").high().asks(2).at(NOW),
        ]
        plan = decide_on(*rows, now=NOW)

        assert plan.starts.keys() == {"a"}
        assert plan.waits == {"big": "no_cards", "e": "kept_for_head"}


class TestAutos:
    """High where quota lasts, else elastic, and turned high in place when quota frees."""

    def test_an_auto_is_high_where_quota_lasts_and_elastic_beyond(self) -> None:
        rows = [
            host("h1"),
            quota("A", "P40", 4),
            task("a").auto().asks(4).at(0),
            task("b").auto().asks(4).at(1),
        ]

        assert decide_on(*rows).classes == {"a": "high", "b": "elastic"}

    def test_it_evicts_as_a_high_task_before_it_runs_elastic(self) -> None:
        rows = [
            host("m1").cards("M40", 4),
            host("p1").cards("P40", 4),
            quota("A", "M40", 4),
            task("e").of("B").on_type("M40").on(m1=4),
            task("a").auto().asks(4).on_type("M40,P40").at(0),
        ]
        plan = decide_on(*rows, now=NOW)

        assert plan.evicted == {"e": "victim"}
        assert plan.starts == {}

    def test_a_running_auto_turns_high_when_quota_frees(self) -> None:
        rows = [host("h1"), task("a").auto().on(h1=4), quota("A", "P40", 4)]

        assert decide_on(*rows).promoted == {"a"}
        assert decide_on(*rows, task("x").high().on(h1=1)).promoted == set()

    def test_waiting_high_tasks_take_freed_quota_before_autos(self) -> None:
        rows = [
            host("h1"),
            task("a").auto().on(h1=4),
            task("x").high().of("B").on(h1=4),
            quota("A", "P40", 8),
            quota("B", "P40", 8),
            task("waits").high().asks(8).at(5),
        ]
        assert decide_on(*rows, now=NOW).promoted == set()

    def test_a_waiting_auto_leaves_freed_quota_to_a_waiting_high_task(self) -> None:
        rows = [
            host("h1"),
            task("x").high().on(h1=4),
            quota("A", "P40", 8),
            task("high").high().asks(8).at(5),
            task("auto").auto().asks(4).at(1),
        ]
        assert decide_on(*rows, now=NOW).classes == {"auto": "elastic"}

    def test_autos_turn_high_by_first_submission_waiting_ones_included(self) -> None:
        rows = [
            host("h1"),
            task("late").auto().on(h1=4).at(9),
            task("early").auto().at(1).asks(4),
            quota("A", "P40", 4),
        ]
        plan = decide_on(*rows, now=NOW)

        assert plan.promoted == set()
        assert plan.classes == {"early": "high"}

    def test_a_promoted_auto_is_no_victim(self) -> None:
        rows = [
            host("h1"),
            task("a").auto().on(h1=8),
            quota("A", "P40", 8),
            quota("B", "P40", 8),
        ]
        assert decide_on(*rows, now=NOW).promoted == {"a"}
        assert decide_on(*rows, task("b").high().of("B"), now=NOW).evicted == {"a": "victim"}
        kept = task("a").auto().on(h1=8).with_(task_class="high")
        assert decide_on(host("h1"), kept, *rows[2:], task("b").high().of("B"), now=NOW).evicted == {}


class TestReservations:
    """Cards kept for a business bind other businesses' high tasks, and grant no quota."""

    def test_a_reservation_goes_before_other_businesses_guarantee(self) -> None:
        rows = [host("h1"), reservation("A", "P40", 6, 0, 1000)]

        plan = decide_on(
            *rows, task("b").high().of("B").asks(4).at(0), task("a").high().asks(6).at(1), now=10
        )

        assert plan.starts.keys() == {"a"}
        assert plan.waits == {"b": "no_room"}
        assert decide_on(*rows, task("b").high().of("B").asks(4), now=10).waits == {"b": "reserved"}

    def test_work_that_is_gone_in_time_may_start_there(self) -> None:
        rows = [host("h1"), reservation("A", "P40", 8, 1000, 2000)]
        other = task("b").high().of("B").asks(4)

        assert decide_on(*rows, other, now=10).starts == {}
        assert decide_on(*rows, other.with_(time_limit=991.0), now=10).starts == {}
        assert decide_on(*rows, other.with_(time_limit=990.0), now=10).starts.keys() == {"b"}

    def test_elastic_tasks_may_use_reserved_cards_until_they_are_needed(self) -> None:
        rows = [host("h1"), reservation("A", "P40", 8, 0, 2000)]

        assert decide_on(*rows, task("e").of("B").asks(8), now=10).starts.keys() == {"e"}
        running = task("e").of("B").on(h1=8).since(-5000)
        assert decide_on(*rows, running, task("a").high().asks(8), now=10).evicted == {"e": "victim"}

    def test_a_reservation_grants_no_quota(self) -> None:
        rows = [host("h1"), reservation("A", "P40", 8, 0, 2000), quota("A", "P40", 2)]

        assert decide_on(*rows, task("a").high().asks(4), now=10).waits == {"a": "quota"}

    def test_what_the_business_holds_counts_as_had(self) -> None:
        rows = [host("h1"), host("h2"), reservation("A", "P40", 8, 0, 2000), task("x").high().on(h1=8)]

        assert decide_on(*rows, task("b").high().of("B").asks(8), now=10).starts.keys() == {"b"}

    def test_a_running_auto_turns_high_only_beside_reserved_cards(self) -> None:
        running = task("a").auto().of("B").on(h1=4)

        for cards, promoted in ((4, {"a"}), (5, set())):
            plan = decide_on(host("h1"), running, reservation("A", "P40", cards, 0, 2000), now=10)
            assert plan.promoted == promoted

    def test_what_the_business_gets_in_this_pass_counts_as_had(self) -> None:
        rows = [host("h1"), host("h2"), reservation("A", "P40", 8, 0, 2000)]
        other = task("b").high().of("B").asks(8).at(2)

        ours = task("a").high().asks(8).at(1).with_(avoid=["h1"])
        assert decide_on(*rows, ours, other, now=10).starts.keys() == {"a", "b"}

        leaves = task("x").high().of("B").on(h2=8).with_(leaving_since=9.0)
        held = [leaves, ours, claim("a", h2=8, made_at=9)]
        assert decide_on(*rows, *held, other, now=10).starts.keys() == {"b"}

        autos = [task("ours").auto().on(h2=8).at(1), task("theirs").auto().of("B").on(h1=8).at(2)]
        assert decide_on(*rows, *autos, now=10).promoted == {"ours", "theirs"}

    def test_no_two_of_them_take_the_same_cards(self) -> None:
        rows = [
            host("h1"),
            host("h2"),
            reservation("A", "P40", 8, 0, 2000),
            reservation("C", "P40", 8, 0, 2000),
        ]

        assert decide_on(*rows, task("b").high().of("B").asks(8), now=10).waits == {"b": "reserved"}

    def test_who_is_gone_before_it_opens_stands_in_no_way(self) -> None:
        rows = [host("h1"), host("h2"), reservation("A", "P40", 8, 1000, 2000)]
        runs = [
            task("gone").high().of("B").on(h1=8).with_(time_limit=900.0),
            task("x").high().of("B").on(h2=1),
        ]

        plan = decide_on(*rows, *runs, task("b").high().of("B").asks(7), now=10)

        assert list(plan.starts["b"]) == ["h2"]

    def test_it_is_over_at_its_end(self) -> None:
        rows = [host("h1"), reservation("A", "P40", 8, 0, 2000), task("b").high().of("B").asks(8)]

        assert decide_on(*rows, now=1999).plan.wake_at == 2000
        assert decide_on(*rows, now=2000).starts.keys() == {"b"}


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
