"""What elastic caps leave is kept for an elastic task that waited too long for it."""

from tests.scheduling.build import decide_on, host, quota, task


def test_an_elastic_cap_is_kept_for_a_task_that_waited_too_long_for_it() -> None:
    rows = [
        *(host("h1"), host("h2"), quota("A", "P40", 0, elastic=8)),
        task("runs").of("A", "ann").on(h1=4),
        task("large").of("A", "ann").asks(8).at(0),
        task("small").of("A", "ben").asks(2).at(5000),
        task("other").of("B").asks(2).at(6000),
    ]
    young = decide_on(*rows, now=7199, aging_s=7200)
    assert young.starts.keys() == {"small", "other"}

    aged = decide_on(*rows, now=7200, aging_s=7200)
    assert aged.starts.keys() == {"other"}
    assert aged.waits == {"large": "elastic_cap", "small": "cap_kept"}
    assert aged.reason("small").args["head"] == 2
    assert decide_on(*rows, now=99_999, aging_s=0).starts.keys() == {"small", "other"}


def test_a_users_own_cap_is_kept_from_his_own_later_tasks_alone() -> None:
    rows = [
        *(host("h1"), host("h2"), quota("A", "P40", 0, user_elastic=8)),
        task("runs").of("A", "ann").on(h1=4),
        task("large").of("A", "ann").asks(8).at(0),
        task("later").of("A", "ann").asks(2).at(5000),
        task("bens").of("A", "ben").asks(2).at(6000),
    ]
    plan = decide_on(*rows, now=20_000, aging_s=7200)
    assert plan.starts.keys() == {"bens"}
    assert plan.waits == {"large": "elastic_cap", "later": "cap_kept"}


def test_no_cap_is_kept_for_a_task_that_the_whole_of_it_does_not_suffice_for() -> None:
    rows = [
        *(host("h1"), host("h2"), quota("A", "P40", 0, elastic=4)),
        task("large").of("A", "ann").asks(8).at(0),
        task("small").of("A", "ben").asks(2).at(5000),
    ]
    plan = decide_on(*rows, now=99_999)
    assert plan.starts.keys() == {"small"}
    assert plan.waits == {"large": "elastic_cap"}


def test_what_is_kept_goes_to_the_task_as_soon_as_it_suffices() -> None:
    rows = [
        *(host("h1"), host("h2"), quota("A", "P40", 0, elastic=8)),
        task("large").of("A", "ann").asks(8).at(0),
        task("small").of("A", "ben").asks(2).at(5000),
    ]
    plan = decide_on(*rows, now=99_999)
    assert plan.starts.keys() == {"large"}
    assert plan.waits == {"small": "elastic_cap"}


def test_of_several_types_the_cap_is_kept_where_the_most_of_it_is_left() -> None:
    rows = [
        *(host("p1"), host("m1").cards("M40", 8)),
        *(quota("A", "P40", 0, elastic=8), quota("A", "M40", 0, elastic=8)),
        *(task("p").of("A", "x").on(p1=6), task("m").of("A", "x").on_type("M40").on(m1=2)),
        task("large").of("A", "x").asks(8).on_type("P40,M40").at(0),
        task("on_p").of("A", "y").asks(2).at(5000),
        task("on_m").of("A", "y").asks(2).on_type("M40").at(5000),
    ]
    plan = decide_on(*rows, now=99_999)
    assert plan.starts.keys() == {"on_p"}
    assert plan.waits == {"large": "elastic_cap", "on_m": "cap_kept"}
