"""Each task gets its own numbers in its reason, however many share a shape with it."""

from jobs.scheduling.reasons import NOT_BY_ENDS, SENTENCES
from tests.scheduling.build import claim, decide_on, host, quota, task


def test_each_user_is_told_what_his_own_cap_leaves() -> None:
    rows = [
        *(host("h1"), quota("A", "P40", 0, user_elastic=4)),
        *(task("x").of("A", "ann").on(h1=3), task("y").of("A", "ben").on(h1=4)),
        *(task("a").of("A", "ann").asks(2), task("b").of("A", "ben").asks(2)),
    ]
    plan = decide_on(*rows)
    assert plan.waits == {"a": "elastic_cap", "b": "elastic_cap"}
    assert [plan.reason(name).args["left"] for name in "ab"] == [1, 0]


def test_each_size_is_told_what_it_asks_of_a_quota() -> None:
    rows = [host("h1"), quota("A", "P40", 4), task("x").high().on(h1=4)]
    plan = decide_on(*rows, task("a").high().asks(1), task("b").high().asks(2))
    assert [plan.reason(name).args["cards"] for name in "ab"] == [1, 2]


def test_who_stands_behind_a_head_is_told_which_one() -> None:
    rows = [
        *(host("p1"), host("m1").cards("M40", 8)),
        *(task("x").high().of("B").on(p1=8), task("y").high().of("B").on_type("M40").on(m1=8)),
        *(task("p").high().at(0), task("m").high().on_type("M40").at(0)),
        *(task("behind_p").high().asks(2).at(1), task("behind_m").high().asks(2).on_type("M40").at(1)),
    ]
    plan = decide_on(*rows, head_of_line="strict")
    assert [plan.reason(name).sentence for name in ("behind_p", "behind_m")] == [
        "waits behind task 3, the first in line",
        "waits behind task 4, the first in line",
    ]


def test_a_gang_that_may_avoid_no_host_counts_them_all_beside_a_task_that_may() -> None:
    rows = [host("h1"), host("h2"), task("x").high().of("B").gang(2, 5).on(h1=5, h2=5)]
    one, gang = (task(name).with_(avoid=["h1"]) for name in ("one", "gang"))
    plan = decide_on(*rows, one.asks(4), gang.gang(2, 4))
    assert [plan.reason(name).args["free"] for name in ("one", "gang")] == [3, 6]


def test_an_auto_is_told_why_it_does_not_even_run_as_elastic() -> None:
    rows = [host("h1"), task("x").high().of("B").on(h1=8), quota("A", "P40", 8), quota("B", "P40", 8)]
    assert decide_on(*rows, task("a").auto()).waits == {"a": "no_cards"}


def test_cards_that_are_held_for_others_are_the_reason_only_where_they_would_do() -> None:
    leaves = task("leaves").of("B").on(h1=6).with_(leaving_since=0.0)
    rows = [host("h1"), leaves, task("claims").high().asks(8), claim("claims", h1=8)]
    plan = decide_on(*rows, task("small").asks(2), task("large").asks(4), now=1)
    assert plan.waits == {"claims": "leaving", "small": "held_for", "large": "no_cards"}
    assert plan.reason("claims").args == {"cards": 8, "missing": 6}


def test_a_task_whose_hosts_are_taken_out_is_told_how_many_and_why_and_to_ask() -> None:
    rows = [
        *(host("h1").is_("cordoned").because("new fans"), host("h2").is_("draining").because("new fans")),
        *(host("h3").is_("quarantined"), host("small").cards("P40", 4)),
        *(
            host("far").at("GZ").is_("cordoned").because("far away"),
            host("other").offers("container").is_("cordoned"),
        ),
    ]
    plan = decide_on(*rows, task("a").elastic().asks(8).within("SZ"))
    assert plan.waits == {"a": "no_host"}
    told = {name: plan.reason("a").args[name] for name in ("hosts", "out", "remark")}
    assert told == {"hosts": 0, "out": 3, "remark": "new fans"}
    assert plan.reason("a").sentence.endswith(
        "0 have so many cards, and 3 more that are large enough take no starts"
    )
    assert plan.reason("a").advice[0] == "ask"


def test_a_task_that_the_hosts_taken_out_could_not_hold_either_is_told_to_ask_less() -> None:
    rows = [host("h1").is_("cordoned"), host("small").cards("P40", 4)]
    plan = decide_on(*rows, task("a").elastic().asks(9), task("gang").elastic().gang(2, 8))
    assert plan.waits == {"a": "too_large", "gang": "too_large"}
    assert plan.reason("a").advice[0] == "change"


def test_what_no_end_takes_away_counts_hosts_that_would_do_or_speaks_of_no_quota() -> None:
    counts_hosts = {code for code, sentence in SENTENCES.items() if "{hosts}" in sentence}
    assert counts_hosts | {"no_quota"} == NOT_BY_ENDS
