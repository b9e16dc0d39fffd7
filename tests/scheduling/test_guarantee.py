"""High tasks inside their quota start, on free cards or by evicting as few elastic tasks as it takes."""

from tests.scheduling.build import claim, decide_on, host, quota, task

NOW = 10_000.0


def elastic(name: str, started: float = 0.0, **hosts: int) -> task:
    """Return a running elastic task of business B."""
    return task(name).elastic().of("B").on(hosts).since(started)


def test_a_high_task_starts_on_free_cards() -> None:
    plan = decide_on(host("h1"), task("a").high().asks(4), quota("A", "P40", 8))

    assert plan.starts == {"a": {"h1": (0, 1, 2, 3)}}
    assert plan.classes == {"a": "high"}


def test_best_fit_takes_the_fitting_host_with_the_fewest_free() -> None:
    plan = decide_on(host("h1"), host("h2"), elastic("e", h2=5), task("a").high().asks(3))

    assert plan.starts["a"] == {"h2": (5, 6, 7)}


def test_spread_takes_the_emptiest_host() -> None:
    plan = decide_on(host("h1"), host("h2"), elastic("e", h2=5), task("a").asks(3), placement="spread")

    assert list(plan.starts["a"]) == ["h1"]


def test_a_gang_starts_on_distinct_hosts_or_not_at_all() -> None:
    gang = task("a").high().gang(2, 4)

    assert decide_on(host("h1"), gang).starts == {}
    assert decide_on(host("h1"), host("h2"), gang).starts == {"a": {"h1": (0, 1, 2, 3), "h2": (0, 1, 2, 3)}}


def test_the_longest_runner_makes_room_and_only_he() -> None:
    runners = [elastic(f"e{n}", started=float(n), h1=1) for n in range(8)]

    plan = decide_on(host("h1"), *runners, task("a").high(), now=NOW)

    assert plan.evicted == {"e0": "victim"}
    assert plan.evicted_for == {"e0": "a"}
    assert plan.starts == {}
    assert plan.claims == {"a": {"h1": 1}}
    assert plan.waits == {"a": "leaving"}


def test_three_cards_take_three_more_victims() -> None:
    runners = [elastic(f"e{n}", started=float(n), h1=1) for n in range(8)]

    plan = decide_on(host("h1"), *runners, task("a").high().asks(3), now=NOW)

    assert set(plan.evicted) == {"e0", "e1", "e2"}


def test_a_victim_that_turns_out_unneeded_is_spared() -> None:
    small, large = elastic("small", started=0, h1=1), elastic("large", started=9000, h1=7)

    plan = decide_on(host("h1"), small, large, task("a").high().asks(7), now=NOW, min_run_s=0)

    assert set(plan.evicted) == {"large"}


def test_a_host_not_wholly_filled_by_elastic_goes_first() -> None:
    rows = [
        host("h1"),
        host("h2"),
        elastic("e1", h1=4),
        elastic("e2", h1=4),
        elastic("e3", h2=4),
        task("x").high().on(h2=4),
    ]
    plan = decide_on(*rows, task("a").high().asks(4), now=NOW)

    assert set(plan.evicted) == {"e3"}


def test_the_fewest_cards_are_left_free_then_the_fewest_evicted() -> None:
    rows = [
        host("h1"),
        host("h2"),
        task("x").high().on(h1=2),
        elastic("e1", h1=6),
        task("y").high().on(h2=4),
        elastic("e2", h2=4),
    ]
    plan = decide_on(*rows, task("a").high().asks(4), now=NOW)

    assert set(plan.evicted) == {"e2"}


def test_a_host_not_wholly_filled_goes_first_even_where_more_is_left_free() -> None:
    rows = [
        host("h1"),
        host("h2"),
        elastic("e1", h1=4),
        elastic("e2", h1=4),
        task("x").high().on(h2=3),
        elastic("e3", h2=5),
    ]
    assert set(decide_on(*rows, task("a").high().asks(4), now=NOW).evicted) == {"e3"}


def test_fewest_left_free_goes_before_fewest_evicted() -> None:
    rows = [
        host("h1"),
        host("h2"),
        host("h3"),
        task("x").high().on(h1=4, h2=2, h3=4),
        elastic("gang", h1=4, h3=4),
        elastic("single", h2=6),
    ]
    assert set(decide_on(*rows, task("a").high().asks(4), now=NOW).evicted) == {"gang"}


def test_a_whole_gang_counts_with_its_cards_elsewhere() -> None:
    rows = [
        host("h1"),
        host("h2"),
        host("h3"),
        task("x").high().on(h1=4, h2=4, h3=6),
        elastic("gang", h1=4, h3=2),
        elastic("single", started=5, h2=4),
    ]
    plan = decide_on(*rows, task("a").high().asks(4), now=NOW)

    assert set(plan.evicted) == {"single"}


def test_cards_freed_elsewhere_by_a_gang_spare_other_victims() -> None:
    rows = [
        host("h1"),
        host("h2"),
        elastic("gang", started=0, h1=8, h2=4),
        elastic("e", started=1, h2=4),
    ]
    plan = decide_on(*rows, task("a").high().gang(2, 4), now=NOW)

    assert set(plan.evicted) == {"gang"}
    assert plan.claims == {"a": {"h1": 4, "h2": 4}}


def test_no_eviction_that_helps_nobody() -> None:
    rows = [host(f"h{n}") for n in range(3)] + [elastic(f"e{n}", **{f"h{n}": 8}) for n in range(3)]

    plan = decide_on(
        host("v").cards("V100", 8).is_("cordoned"), *rows, task("a").high().on_type("V100"), now=NOW
    )

    assert plan.evicted == {}
    assert plan.waits == {"a": "no_host"}
    assert "no usable host even after eviction" in plan.reason("a").sentence


def test_young_attempts_are_evicted_only_where_the_guarantee_needs_it() -> None:
    old, young = elastic("old", started=0, h1=1), elastic("young", started=NOW - 10, h1=7)

    assert decide_on(host("h1"), old, young, task("a").high().asks(1), now=NOW).evicted == {"old": "victim"}
    assert decide_on(host("h1"), old, young, task("a").high().asks(7), now=NOW).evicted == {
        "young": "guarantee"
    }


def test_a_task_evicted_often_this_hour_is_protected_likewise() -> None:
    often = elastic("often", started=0, h1=4).with_(evictions=(NOW - 10, NOW - 20, NOW - 30, NOW - 40))
    other = elastic("other", started=NOW - 700, h1=4)

    assert decide_on(host("h1"), often, other, task("a").high().asks(4), now=NOW).evicted == {
        "other": "victim"
    }
    plan = decide_on(host("h1"), often, other, task("a").high().asks(4), now=NOW, max_evictions_per_hour=0)
    assert plan.evicted == {"often": "victim"}


def test_only_elastic_tasks_are_evicted() -> None:
    plan = decide_on(host("h1"), task("x").high().of("B").on(h1=8), task("a").high(), now=NOW)

    assert plan.evicted == {}
    assert plan.waits == {"a": "no_room"}


def test_another_type_of_the_business_is_no_reason_to_wait() -> None:
    plan = decide_on(
        host("h1"),
        host("v1").cards("V100", 8),
        task("mine").elastic().on(h1=8),
        task("theirs").elastic().of("B").on_type("V100").on(v1=8),
        task("a").high().on_type("V100").asks(8),
        quota("A", "P40", 8),
        quota("A", "V100", 8),
        now=NOW,
    )
    assert plan.evicted == {"theirs": "victim"}


def test_victims_that_leave_already_are_counted_and_no_second_one_is_chosen() -> None:
    rows = [
        host("h1"),
        host("h2"),
        elastic("e1", h1=8).with_(leaving_since=NOW - 2),
        elastic("e2", h2=8),
        task("a").high().asks(8),
    ]
    plan = decide_on(*rows, now=NOW)

    assert plan.evicted == {}
    assert plan.claims == {"a": {"h1": 8}}


def test_a_leaver_that_never_leaves_is_not_counted_on() -> None:
    rows = [
        host("h1"),
        host("h2"),
        elastic("e1", h1=8).with_(leaving_since=NOW - 500),
        elastic("e2", h2=8),
        task("a").high().asks(8),
    ]
    assert decide_on(*rows, now=NOW).evicted == {"e2": "victim"}


def test_evict_delay_waits_for_cards_to_free_by_themselves() -> None:
    rows = [host("h1"), elastic("e", h1=8), task("a").high().at(NOW - 5)]

    early = decide_on(*rows, now=NOW, evict_delay_s=60)
    assert early.evicted == {}
    assert early.waits == {"a": "evict_delay"}
    assert early.plan.wake_at == NOW + 55

    assert decide_on(*rows, now=NOW + 55, evict_delay_s=60).evicted == {"e": "victim"}


def test_draining_hosts_are_cleared_of_elastic_tasks() -> None:
    rows = [host("h1").is_("draining"), host("h2"), elastic("e", h1=4, h2=4), task("x").high().on(h1=4)]

    plan = decide_on(*rows, now=NOW)

    assert plan.evicted == {"e": "drain"}
    assert plan.evicted_for == {"e": None}


def test_hosts_that_are_not_ready_are_not_offered() -> None:
    for state in ("cordoned", "draining", "lost", "quarantined"):
        assert decide_on(host("h1").is_(state), task("a").high()).waits == {"a": "no_host"}
    assert decide_on(host("h1").is_("removed"), task("a").high()).waits == {"a": "too_large"}


def test_a_kept_place_ends_for_a_high_task_and_for_no_elastic_one() -> None:
    kept = task("kept").high().of("B").on(h1=8).with_(keeping=True)

    assert decide_on(host("h1"), kept, task("a").high().asks(8)).evicted == {"kept": "keeping"}
    assert decide_on(host("h1"), kept, task("a").elastic().asks(8)).evicted == {}


def test_a_kept_place_goes_before_any_running_task() -> None:
    kept = task("kept").elastic().of("B").on(h2=1).since(NOW).with_(keeping=True)

    plan = decide_on(
        host("h1"), host("h2").cards("P40", 1), elastic("e", h1=8), kept, task("a").high(), now=NOW
    )

    assert plan.evicted == {"kept": "keeping"}


def test_a_business_ends_its_own_kept_place_where_it_needs_the_quota() -> None:
    kept = task("kept").high().on(h1=4).with_(keeping=True)
    rows = [host("h1"), host("h2"), kept, quota("A", "P40", 8)]

    plan = decide_on(*rows, task("a").high().asks(8))

    assert plan.evicted_for == {"kept": "a"}
    assert plan.evicted == {"kept": "keeping"}
    assert sum(plan.claims["a"].values()) == 8
    assert decide_on(*rows, task("a").high().asks(4)).evicted == {}
    assert decide_on(*rows, task("a").high().asks(9)).evicted == {}


def test_whoever_waits_for_a_kept_place_starts_when_its_quota_is_back() -> None:
    going = task("kept").high().on(h1=4).with_(keeping=True, leaving_since=NOW)
    rows = [
        host("h1"),
        host("h2"),
        quota("A", "P40", 8),
        task("a").high().asks(8),
        claim("a", h2=8, made_at=NOW),
    ]

    assert decide_on(*rows, going, now=NOW + 1).waits == {"a": "leaving"}
    assert decide_on(*rows, now=NOW + 1).starts.keys() == {"a"}


def test_a_kept_place_ends_although_another_business_asks_the_same_and_comes_first() -> None:
    rows = [host("h1"), host("h2"), quota("A", "P40", 4), quota("B", "P40", 4)]
    kept = task("kept").high().on(h1=4).with_(keeping=True)

    plan = decide_on(*rows, kept, task("b").high().of("B").asks(4).at(0), task("a").high().asks(4).at(1))

    assert plan.starts.keys() == {"b"}
    assert plan.evicted_for == {"kept": "a"}


def test_a_new_claim_is_looked_at_again_when_it_lapses() -> None:
    assert decide_on(host("h1"), elastic("e", h1=8), task("a").high(), now=NOW).plan.wake_at == NOW + 120


def test_a_claim_whose_task_may_not_start_is_looked_at_again_when_it_lapses() -> None:
    rows = [host("h1"), quota("A", "P40", 0), task("a").high().asks(8), claim("a", h1=8, made_at=NOW - 10)]

    assert decide_on(*rows, now=NOW).plan.wake_at == NOW + 110


def test_only_as_many_kept_places_end_as_the_quota_needs() -> None:
    kept = [task(f"kept{n}").high().on(h1=2).with_(keeping=True) for n in range(3)]

    plan = decide_on(host("h1"), host("h2"), *kept, task("a").high().asks(4), quota("A", "P40", 8))

    assert plan.evicted == {"kept0": "keeping"}


def test_a_task_that_failed_on_every_host_that_could_run_it_avoids_none() -> None:
    small = host("h2").cards("P40", 4)
    plan = decide_on(host("h1"), small, task("a").high().asks(8).with_(avoid=["h1"]))

    assert list(plan.starts["a"]) == ["h1"]


def test_a_host_out_of_use_is_no_other_to_go_to() -> None:
    plan = decide_on(host("h1"), host("h2").is_("cordoned"), task("a").high().with_(avoid=["h1"]))

    assert list(plan.starts["a"]) == ["h1"]


def test_a_host_that_one_task_avoids_is_there_for_the_next() -> None:
    rows = [host("h1"), host("h2"), host("h3").cards("P40", 9), task("x").high().of("B").on(h3=1)]
    runs = [elastic("long", h1=8), elastic("short", 1, h2=8), elastic("protected", NOW, h3=8)]
    picky = task("picky").high().asks(8).at(0).with_(avoid=["h1"])

    plan = decide_on(*rows, *runs, picky, task("a").high().asks(8).at(1), now=NOW)

    assert plan.evicted_for == {"short": "picky", "long": "a"}


def test_a_host_that_was_looked_at_for_another_task_is_avoided_all_the_same() -> None:
    rows = [host("h1"), host("g1").at("GZ"), host("g2").at("GZ")]
    runs = [elastic("longest", h1=8), elastic("long", 1, g1=8), elastic("short", 2, g2=8)]
    picky = task("picky").high().asks(8).at(1).with_(avoid=["g1"])

    plan = decide_on(*rows, *runs, task("a").high().asks(8).at(0), picky, now=NOW)

    assert plan.evicted_for == {"longest": "a", "short": "picky"}


def test_a_host_that_the_one_before_avoids_is_still_the_first_for_another() -> None:
    rows = [host("h1"), host("g1").at("GZ"), host("g2").at("GZ")]
    runs = [elastic("longest", h1=8), elastic("long", 1, g1=8), elastic("short", 2, g2=8)]
    picky = task("picky").high().asks(8).at(0).with_(avoid=["g1"])

    plan = decide_on(*rows, *runs, picky, task("a").high().asks(8).at(1), now=NOW)

    assert plan.evicted_for == {"longest": "picky", "long": "a"}


def test_where_a_gang_goes_nobody_else_does_whom_its_other_host_makes_needless() -> None:
    rows = [host("h1").cards("P40", 9), host("h2").cards("P40", 10), task("x").high().of("B").on(h1=1)]
    runs = [elastic("gang", h1=6, h2=6), elastic("one", 1, h1=2)]

    plan = decide_on(*rows, *runs, task("a").high().asks(8), now=NOW)

    assert plan.evicted.keys() == {"gang"}
    assert plan.claims == {"a": {"h2": 8}}


def test_a_host_that_needs_no_victim_counts_once_although_a_victim_leaves_it() -> None:
    rows = [host("h1").cards("P40", 9), host("h2").cards("P40", 9), host("h3")]
    runs = [elastic("gang", h1=1, h2=1), task("x").high().of("B").on(h2=1), task("y").high().of("B").on(h3=8)]

    plan = decide_on(*rows, *runs, task("a").high().gang(3, 8), now=NOW)

    assert (plan.evicted, plan.waits) == ({}, {"a": "no_room_gang"})


def test_a_task_avoids_the_host_where_it_failed() -> None:
    plan = decide_on(host("h1"), host("h2"), task("a").high().with_(avoid=["h1"]))

    assert list(plan.starts["a"]) == ["h2"]


def test_a_task_never_starts_and_is_evicted_in_one_pass() -> None:
    plan = decide_on(host("h1"), task("e").elastic().asks(8).at(0), task("a").high().asks(8).at(5), now=NOW)

    assert plan.starts.keys() == {"a"}
    assert plan.evicted == {}
    assert plan.waits == {"e": "no_cards"}
