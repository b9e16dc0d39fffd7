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


def test_the_reason_of_an_elastic_cap_in_a_region_says_what_it_leaves_there() -> None:
    rows = [host("h1"), quota("A", "P40", 8, "SZ", elastic=4), task("a").elastic().asks(6).within("SZ")]
    for held, left in ((1, 3), (5, 0)):
        plan = decide_on(*rows, task("runs").elastic().on(h1=held))
        assert plan.waits == {"a": "elastic_cap"}
        assert plan.reason("a").args["left"] == left


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


def test_quota_is_kept_although_another_business_asks_the_same_and_comes_first() -> None:
    rows = [
        *(host(f"h{n}") for n in range(1, 5)),
        *(quota("A", "P40", 16), quota("B", "P40", 16)),
        task("runs").high().on(h1=8),
        task("first").high().of("B").gang(2, 8).at(0),
        task("gang").high().gang(2, 8).at(1),
        task("small").high().asks(4).at(5000),
    ]
    plan = decide_on(*rows, now=99_999)
    assert plan.starts.keys() == {"first"}
    assert plan.waits == {"gang": "quota", "small": "quota_kept"}


def test_of_several_types_quota_is_kept_where_the_least_is_missing() -> None:
    rows = [
        *(host("p1"), host("m1").cards("M40", 8)),
        *(quota("A", "P40", 8), quota("A", "M40", 8)),
        *(task("p").high().on(p1=6), task("m").high().on_type("M40").on(m1=2)),
        task("large").high().asks(8).on_type("P40,M40").at(0),
        task("on_p").high().asks(2).at(5000),
        task("on_m").high().asks(2).on_type("M40").at(5000),
    ]
    plan = decide_on(*rows, now=99_999)
    assert plan.starts.keys() == {"on_p"}
    assert plan.waits == {"large": "quota", "on_m": "quota_kept"}


def test_quota_of_a_region_is_kept_from_those_of_the_same_region() -> None:
    rows = [
        *(host("s1"), host("s2"), host("g1").at("GZ")),
        *(quota("A", "P40", 8, "SZ"), quota("A", "P40", 8, "GZ")),
        task("runs").high().on(s1=4),
        task("large").high().asks(8).within("SZ").at(0),
        task("here").high().asks(4).within("SZ").at(5000),
        task("there").high().asks(4).within("GZ").at(5000),
    ]
    plan = decide_on(*rows, now=99_999)
    assert plan.starts.keys() == {"there"}
    assert plan.waits == {"large": "quota_region", "here": "quota_kept"}


def test_a_high_task_that_its_quota_never_suffices_for_keeps_no_auto_from_it() -> None:
    rows = [
        *(host("h1"), host("h2"), quota("A", "P40", 8)),
        *(task("gang").high().gang(2, 8).at(0), task("auto").auto().asks(4).at(1)),
    ]
    assert decide_on(*rows, now=2).classes == {"auto": "high"}


def test_a_claim_does_not_start_over_the_lowered_quota_of_its_region() -> None:
    rows = [host("h1"), quota("A", "P40", 8), quota("A", "P40", 0, "SZ"), task("a").high(), claim("a", h1=1)]
    assert not decide_on(*rows).starts


def test_a_kept_place_gives_no_quota_back_where_there_is_none() -> None:
    kept = task("k").high().on(h1=8).with_(keeping=True)
    plan = decide_on(host("h1"), kept, task("a").high(), quota("A", "V100", 8))
    assert not plan.evicted
    assert plan.waits["a"] == "quota_over"
