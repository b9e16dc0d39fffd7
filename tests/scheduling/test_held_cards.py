"""Cards of victims are held for whom they were freed for: until when, and against whom."""

from tests.scheduling.build import claim, decide_on, host, task

NOW = 10_000.0


def elastic(name: str, started: float = 0.0, **hosts: int) -> task:
    """Return a running elastic task of business B."""
    return task(name).elastic().of("B").on(hosts).since(started)


class TestHeldCards:
    """Cards freed by an eviction belong to the task it was made for."""

    def test_a_claim_starts_when_its_cards_are_there(self) -> None:
        plan = decide_on(host("h1"), task("a").high().asks(8), claim("a", h1=8))

        assert plan.starts == {"a": {"h1": tuple(range(8))}}
        assert plan.claims == {}

    def test_nobody_else_takes_cards_that_are_held(self) -> None:
        rows = [
            host("h1"),
            host("h2"),
            elastic("e2", h2=8).with_(leaving_since=NOW),
            task("a").high().gang(2, 8),
            claim("a", h1=8, h2=8, made_at=NOW),
            task("thief").elastic().asks(1),
            task("b").high().of("B").asks(8),
        ]
        plan = decide_on(*rows, now=NOW + 2)

        assert plan.starts == {}
        assert plan.evicted == {}
        assert plan.claims == {"a": {"h1": 8, "h2": 8}}
        assert plan.waits == {"a": "leaving", "thief": "held_for", "b": "held_for"}

    def test_a_surplus_is_free_in_the_same_pass(self) -> None:
        rows = [
            host("h1"),
            elastic("e", h1=6),
            task("a").high().asks(4).at(0),
            task("b").high().asks(4).at(1),
        ]
        plan = decide_on(*rows, now=NOW)

        assert plan.claims == {"a": {"h1": 4}, "b": {"h1": 4}}
        assert plan.evicted_for == {"e": "a"}

    def test_a_claim_falls_with_its_host_and_the_task_is_planned_anew(self) -> None:
        rows = [
            host("h1").is_("cordoned"),
            host("h2"),
            elastic("e1", h1=8).with_(leaving_since=NOW),
            elastic("e2", h2=8),
            task("a").high().asks(8),
            claim("a", h1=8, made_at=NOW),
        ]
        plan = decide_on(*rows, now=NOW + 1)

        assert plan.claims == {"a": {"h2": 8}}
        assert plan.evicted == {"e2": "victim"}

    def test_a_claim_falls_when_its_task_is_held_by_its_owner(self) -> None:
        rows = [
            host("h1"),
            task("a").high().asks(8).with_(gate="hold"),
            claim("a", h1=8, made_at=NOW),
            task("e").elastic().asks(8),
        ]
        plan = decide_on(*rows, now=NOW)

        assert plan.starts.keys() == {"e"}
        assert plan.claims == {}

    def test_a_claim_lapses_after_the_last_term(self) -> None:
        rows = [
            host("h1"),
            elastic("e1", h1=8).with_(leaving_since=NOW),
            task("a").high().asks(8),
            claim("a", h1=8, made_at=NOW),
        ]
        assert decide_on(*rows, now=NOW + 119).plan.wake_at == NOW + 120
        assert decide_on(*rows, now=NOW + 120).claims == {}

    def test_a_lapsed_claim_is_planned_anew_on_what_still_leaves(self) -> None:
        rows = [
            host("h1"),
            elastic("e1", h1=8).with_(leaving_since=NOW + 60),
            task("a").high().asks(8),
            claim("a", h1=8, made_at=NOW),
        ]
        assert [c.made_at for c in decide_on(*rows, now=NOW + 119).plan.claims] == [NOW]
        assert [c.made_at for c in decide_on(*rows, now=NOW + 120).plan.claims] == [NOW + 120]

    def test_a_claim_falls_when_a_card_of_its_host_breaks(self) -> None:
        rows = [host("h1").without(0), host("h2"), task("a").high().asks(8), claim("a", h1=8, made_at=NOW)]

        assert list(decide_on(*rows, now=NOW).starts["a"]) == ["h2"]
        assert decide_on(*rows, elastic("e", h2=8), now=NOW).evicted == {"e": "victim"}

    def test_the_older_claim_on_a_host_counts_its_cards_first(self) -> None:
        rows = [
            host("h1"),
            elastic("e", h1=4).with_(leaving_since=NOW),
            task("young").high().asks(4),
            task("old").high().asks(4),
            claim("young", h1=4, made_at=NOW),
            claim("old", h1=4, made_at=NOW - 1),
        ]
        plan = decide_on(*rows, now=NOW)

        assert plan.starts.keys() == {"old"}
        assert plan.claims == {"young": {"h1": 4}}

    def test_a_claimant_starts_elsewhere_where_cards_come_free_first(self) -> None:
        rows = [
            host("h1"),
            host("h2"),
            elastic("e", h1=8).with_(leaving_since=NOW),
            task("a").high().asks(8),
            claim("a", h1=8, made_at=NOW),
        ]
        assert list(decide_on(*rows, now=NOW + 1).starts["a"]) == ["h2"]


def test_a_gang_of_another_region_is_no_place_for_a_task_of_this_one() -> None:
    hosts = [host("h1"), host("g1").at("GZ")]
    gang = elastic("gang", h1=4, g1=8)
    single = elastic("single", started=9000, h1=4)

    plan = decide_on(*hosts, gang, single, task("a").high().asks(8).within("SZ"), now=NOW)

    assert plan.claims == {"a": {"h1": 8}}
    assert plan.evicted.keys() == {"gang", "single"}


def test_the_pass_wakes_when_a_leaver_should_be_gone() -> None:
    leaver = elastic("e", h1=8).with_(leaving_since=NOW - 20)

    plan = decide_on(host("h1"), leaver, now=NOW, plan_lapse_s=120)

    assert plan.plan.wake_at == NOW + 100


def test_a_claim_on_a_host_that_can_no_longer_run_the_task_comes_to_nothing() -> None:
    rows = [host("h1"), task("a").high().asks(2).with_(needs="container"), claim("a", h1=2, made_at=NOW - 5)]
    plan = decide_on(*rows, now=NOW)
    assert not plan.starts
    assert not plan.claims
