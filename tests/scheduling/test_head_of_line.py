"""The first of a line that finds no cards: what is kept for it, and who may start past it."""

from tests.scheduling.build import decide_on, host, task

NOW = 100_000.0


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
