"""How many cards a business may hold: quota rows per type and region, elastic caps, lowered quotas."""

from tests.scheduling.build import claim, decide_on, host, quota, task


def test_quota_is_used_up_to_the_last_card_and_not_beyond() -> None:
    rows = [host("h1"), quota("A", "P40", 6)]

    plan = decide_on(
        *rows, task("a").high().asks(2).at(0), task("b").high().asks(4).at(1), task("c").high().at(2)
    )

    assert plan.starts.keys() == {"a", "b"}
    assert plan.waits == {"c": "quota"}
    assert plan.reason("c").sentence == "asks 1 P40; A holds 6 of its 6 with high tasks"


def test_a_missing_row_is_no_quota() -> None:
    plan = decide_on(host("h1"), task("a").high().of("B"), quota("A", "P40", 8))

    assert plan.reason("a").sentence == "B has no quota of P40"


def test_elastic_tasks_cost_no_quota() -> None:
    rows = [host("h1"), task("e").elastic().on(h1=4), task("a").high().asks(4), quota("A", "P40", 4)]

    assert decide_on(*rows).starts.keys() == {"a"}


def test_a_task_that_fits_in_sum_but_on_no_host_takes_no_quota() -> None:
    rows = [
        host("h1"),
        host("h2"),
        task("x").high().on(h1=4, h2=4),
        task("big").high().asks(8).at(0),
        task("small").high().asks(2).at(1),
        quota("A", "P40", 16),
    ]
    plan = decide_on(*rows)

    assert plan.starts.keys() == {"small"}
    big = plan.reason("big")
    assert big.code == "no_room"
    before = decide_on(*rows[:4], rows[5])
    assert before.reason("big").sentence == (
        "asks 8 P40 on one host; 8 are free and 0 held by elastic tasks, the largest host has 4 of them"
    )


def test_a_regions_row_caps_within_the_all_region_row() -> None:
    rows = [
        host("h1").at("SZ"),
        host("h2").at("GZ"),
        quota("A", "P40", 10),
        quota("A", "P40", 4, region="SZ"),
    ]
    assert decide_on(*rows, task("a").high().asks(6).within("SZ")).waits == {"a": "quota_region"}
    assert list(decide_on(*rows, task("a").high().asks(6)).starts["a"]) == ["h2"]
    assert decide_on(*rows, task("a").high().gang(2, 5)).starts == {}
    assert decide_on(*rows, task("a").high().gang(2, 4)).starts.keys() == {"a"}


def test_a_region_without_a_row_has_no_quota_where_only_regions_have_rows() -> None:
    rows = [host("h1").at("SZ"), host("h2").at("GZ"), quota("A", "P40", 8, region="SZ")]

    assert decide_on(*rows, task("a").high().within("GZ")).starts == {}
    assert list(decide_on(*rows, task("a").high()).starts["a"]) == ["h1"]


def test_evictions_respect_a_regions_row_too() -> None:
    rows = [
        host("h1").at("SZ"),
        host("h2").at("GZ"),
        task("e1").elastic().of("B").on(h1=8),
        task("e2").elastic().of("B").on(h2=8).since(5),
        quota("A", "P40", 8),
        quota("A", "P40", 2, region="SZ"),
    ]
    assert decide_on(*rows, task("a").high().asks(8), now=10_000).evicted.keys() == {"e2"}


def test_nothing_dies_where_quota_is_lowered_below_what_runs() -> None:
    rows = [
        host("h1"),
        host("h2"),
        host("h3"),
        task("x").high().on(h1=8),
        task("y").high().on(h2=8),
        task("a").high(),
    ]
    plan = decide_on(*rows, quota("A", "P40", 8))

    assert plan.evicted == {}
    assert plan.reason("a").sentence == "A holds 16 P40 with high tasks, its quota is 8: over by 8"
    assert decide_on(*rows, quota("A", "P40", 0)).reason("a").code == "quota_over"
    assert decide_on(*rows, quota("B", "P40", 8)).reason("a").code == "quota_over"


def test_a_claim_counts_as_quota() -> None:
    rows = [
        host("h1"),
        host("h2"),
        task("e").elastic().of("B").on(h1=8).with_(leaving_since=9),
        task("a").high().asks(8),
        claim("a", h1=8, made_at=9),
        task("b").high().asks(8),
        host("h3").is_("cordoned"),
        task("x").high().of("B").on(h2=8),
    ]
    plan = decide_on(*rows, quota("A", "P40", 8), now=10)

    assert plan.waits == {"a": "leaving", "b": "quota"}


def test_a_stopping_task_counts_until_it_is_gone() -> None:
    leaver = task("x").high().on(h1=8).with_(leaving_since=1)

    assert decide_on(host("h1"), host("h2"), leaver, task("a").high(), quota("A", "P40", 8)).waits == {
        "a": "quota"
    }


def test_broken_cards_of_a_task_still_count_as_its_quota() -> None:
    holder = task("x").high().on(h1=6).with_(cards=8)

    plan = decide_on(host("h1"), host("h2"), holder, task("a").high(), quota("A", "P40", 8))

    assert plan.waits == {"a": "quota"}


def test_elastic_caps_of_a_business_and_of_a_user() -> None:
    rows = [host("h1"), quota("A", "P40", 0, elastic=6, user_elastic=4)]
    ann = [task(f"ann{n}").of("A", "ann").asks(2).at(n) for n in range(3)]
    bob = [task(f"bob{n}").of("A", "bob").asks(2).at(10 + n) for n in range(2)]

    plan = decide_on(*rows, *ann, *bob, elastic_order="fifo")

    assert plan.starts.keys() == {"ann0", "ann1", "bob0"}
    assert plan.waits == {"ann2": "elastic_cap", "bob1": "elastic_cap"}


def test_types_are_tried_in_the_order_given_first_all_without_evicting() -> None:
    rows = [
        host("m1").cards("M40", 8),
        host("p1").cards("P40", 8),
        task("e").elastic().of("B").on_type("M40").on(m1=8),
    ]
    wish = task("a").high().asks(8).on_type("M40,P40")

    assert list(decide_on(*rows, wish).starts["a"]) == ["p1"]
    full = task("e2").elastic().of("B").on_type("P40").on(p1=8)
    assert decide_on(*rows, full, wish, now=9999).evicted.keys() == {"e"}


def test_a_type_without_quota_is_passed_over() -> None:
    rows = [
        host("m1").cards("M40", 8),
        host("p1").cards("P40", 8),
        task("e").elastic().of("B").on_type("P40").on(p1=8),
        quota("A", "P40", 8),
    ]
    plan = decide_on(*rows, task("a").high().asks(8).on_type("M40,P40"), now=9999)

    assert plan.evicted.keys() == {"e"}


def test_a_business_without_quota_on_a_type_speaks_for_itself_alone() -> None:
    rows = [
        host("m1").cards("M40", 8),
        host("p1").cards("P40", 8),
        task("x").high().of("B").on(p1=8),
        quota("A", "P40", 8),
        quota("B", "M40", 8),
        quota("B", "P40", 8),
    ]
    ours = task("a").high().asks(8).on_type("M40,P40").at(1)
    theirs = task("b").high().of("B").asks(8).on_type("M40,P40").at(2)

    plan = decide_on(*rows, ours, theirs)

    assert plan.waits == {"a": "no_room"}
    assert list(plan.starts["b"]) == ["m1"]


def test_a_gang_never_mixes_types() -> None:
    rows = [
        host("h1").cards("P40", 2),
        host("h3").cards("M40", 2),
        task("a").high().gang(2, 2).on_type("M40,P40"),
    ]
    assert decide_on(*rows).starts == {}


def test_quota_is_kept_for_a_task_that_waited_too_long_for_it() -> None:
    rows = [
        *(host(f"h{n}") for n in range(1, 4)),
        quota("A", "P40", 16),
        task("runs").high().on(h1=8),
        task("gang").high().gang(2, 8).at(0),
        task("small").high().asks(4).at(5000),
        task("other").high().asks(4).of("B").at(6000),
        quota("B", "P40", 8),
    ]
    young = decide_on(*rows, now=7199, aging_s=7200)
    assert young.starts.keys() == {"small", "other"}
    assert young.plan.wake_at == 7200

    aged = decide_on(*rows, now=7200, aging_s=7200)
    assert aged.starts.keys() == {"other"}
    assert aged.waits == {"gang": "quota", "small": "quota_kept"}
    assert aged.reason("small").args["head"] == 2
    assert decide_on(*rows, now=99_999, aging_s=0).starts.keys() == {"small", "other"}


def test_no_quota_is_kept_for_a_task_that_the_whole_of_it_does_not_suffice_for() -> None:
    rows = [
        host("h1"),
        host("h2"),
        quota("A", "P40", 12),
        task("gang").high().gang(2, 8).at(0),
        task("small").high().asks(4).at(5000),
    ]
    assert decide_on(*rows, now=99_999).starts.keys() == {"small"}


def test_who_goes_before_the_task_may_take_what_is_kept_for_it() -> None:
    rows = [
        host("h1"),
        host("h2"),
        quota("A", "P40", 8),
        task("runs").high().on(h1=4),
        task("large").high().asks(8).at(0),
        task("older").high().asks(4).at(-10),
    ]
    assert decide_on(*rows, now=99_999).starts.keys() == {"older"}


def test_quota_is_kept_for_an_auto_task_too() -> None:
    rows = [
        *(host(f"h{n}") for n in range(1, 4)),
        quota("A", "P40", 16),
        task("runs").high().on(h1=8),
        task("gang").auto().gang(2, 8).at(0),
        task("small").auto().asks(4).at(5000),
        task("later").auto().on(h2=1).at(6000).since(6000),
    ]
    young = decide_on(*rows, now=7199, aging_s=7200, head_of_line="skip")
    assert young.classes == {"small": "high"}
    assert young.promoted == {"later"}

    aged = decide_on(*rows, now=7200, aging_s=7200, head_of_line="skip")
    assert aged.classes == {"small": "elastic"}
    assert aged.promoted == set()
