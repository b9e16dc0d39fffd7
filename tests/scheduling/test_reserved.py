"""Cards that are reserved: what a pass leaves free, for whom, and when."""

from tests.scheduling.build import claim, decide_on, host, quota, reservation, task


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
