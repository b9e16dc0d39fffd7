"""Auto tasks: high where their quota has room, else elastic, and promoted later."""

from tests.scheduling.build import decide_on, host, quota, task

NOW = 100_000.0


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
