"""Estimated starts: small clusters whose answers anybody can work out, and what nobody can know."""

from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from jobs.scheduling.decide import decide, work_on
from jobs.scheduling.types import Policy
from jobs.simulation.forecast import BASES, Estimate, Forecast, forecast, in_line
from jobs.simulation.lengths import MOST, Finished, Lengths
from jobs.simulation.simulate import Simulator
from jobs.simulation.workload import read_scenario
from tests.bench._fleet import fleet
from tests.scheduling.build import (
    Names,
    Row,
    host,
    policy,
    quota,
    reservation,
    snapshot_of,
    task,
    used,
)

Seen = dict[str, tuple[float | None, str, dict[str, float]]]


def foresee(*rows: Row, **more: Any) -> Seen:
    """Return (start, code, numbers) of each task that waits, by name."""
    found, names = look(*rows, **more)
    return {names.name("task", number): _said(estimate) for number, estimate in found.estimates.items()}


def look(
    *rows: Row,
    now: float = 0.0,
    past: Callable[[Names], Lengths] = lambda names: Lengths(),
    shuffle: int | None = None,
    **more: Any,
) -> tuple[Forecast, Names]:
    snapshot, names = snapshot_of(*rows, now=now, shuffle=shuffle)
    kept = {key: more.pop(key) for key in ("only", "enough") if key in more}
    return forecast(snapshot, policy(**more), past(names), **kept), names


def _said(estimate: Estimate) -> tuple[float | None, str, dict[str, float]]:
    assert BASES[estimate.basis.code].format(**estimate.basis.args)
    return estimate.start, estimate.basis.code, dict(estimate.basis.args)


def finished(*seconds: float, user: int = 1, cards: int = 8) -> list[Finished]:
    return [Finished(user=user, cards=cards, seconds=each) for each in seconds]


def of_ann(*seconds: float) -> Callable[[Names], Lengths]:
    """Return the past of ann: tasks of eight cards, and some short ones of one card."""

    def past(names: Names) -> Lengths:
        ann = names.id("user", "ann")
        return Lengths([*finished(*seconds, user=ann), *finished(*[7] * 9, user=ann, cards=1)])

    return past


def limited(name: str, limit: float | None, cards: int = 8) -> task:
    return task(name).asks(cards).with_(time_limit=limit)


H1 = host("h1").cards("P40", 8)


def test_tasks_start_one_after_the_other_as_the_limits_before_them_pass() -> None:
    runner = limited("r", 600).on(h1=8).since(0)
    assert foresee(H1, runner, limited("a", 600), limited("b", 60)) == {
        "a": (600, "limits", {"limits": 1}),
        "b": (1200, "limits", {"limits": 2}),
    }


def test_a_task_that_finds_free_cards_starts_now_and_for_no_others_end() -> None:
    assert foresee(H1, limited("a", 600), now=50.0) == {"a": (50, "free", {})}


def test_what_runs_already_has_only_the_rest_of_its_limit_left() -> None:
    runner = limited("r", 600).on(h1=8).since(0)
    assert foresee(H1, runner, limited("a", 60), now=400.0)["a"][0] == 600
    assert foresee(H1, runner, limited("a", 60), now=700.0)["a"][0] == 700, "over its limit: it ends at once"


def test_behind_a_task_of_unknown_length_all_is_unknown() -> None:
    known, unknown = limited("k", 600).on(h1=8).since(0), limited("u", None).on(h2=8).since(0)
    seen = foresee(H1, host("h2").cards("P40", 8), known, unknown, limited("a", None), limited("b", 60))
    assert seen == {"a": (600, "limits", {"limits": 1}), "b": (None, "unknown", {"unknown": 2})}


def test_the_only_task_of_unknown_length_is_named() -> None:
    runner = limited("u", None).on(h1=8).since(0)
    assert foresee(H1, runner, limited("a", 60), limited("b", 60)) == {
        "a": (None, "unknown_task", {"task": 1}),
        "b": (None, "unknown_task", {"task": 1}),
    }


def test_an_unknown_length_on_other_cards_harms_nobody() -> None:
    other = task("u").asks(8).on_type("M40").on(h2=8).since(0)
    runner = limited("r", 600).on(h1=8).since(0)
    seen = foresee(H1, host("h2").cards("M40", 8), other, runner, limited("a", 60))
    assert seen == {"a": (600, "limits", {"limits": 1})}


def test_without_a_limit_the_past_of_its_user_speaks_for_a_task() -> None:
    runner = task("r").asks(8).of("A", "ann").on(h1=8).since(0)
    past = of_ann(300, 500, 900)
    assert foresee(H1, runner, limited("a", 60), past=past)["a"] == (500, "past", {"past": 1, "least": 3})


def test_a_task_that_outran_half_of_its_users_past_is_judged_by_the_other_half() -> None:
    runner = task("r").asks(8).of("A", "ann").on(h1=8).since(0)
    past = of_ann(100, 200, 300, 700, 800, 900)
    assert foresee(H1, runner, limited("a", 60), past=past, now=400.0)["a"][0] == 800
    assert foresee(H1, runner, limited("a", 60), past=past, now=750.0)["a"][0] is None, "two say nothing"


def test_limits_and_pasts_are_counted_apart() -> None:
    rows = [limited("r", 600).of("A", "ann").on(h1=8).since(0), task("a").asks(8).of("A", "ann")]
    past = of_ann(100, 100, 100, 200)
    seen = foresee(H1, *rows, task("b").asks(8).of("A", "ann"), past=past)
    assert seen["b"] == (700, "limits_and_past", {"limits": 1, "past": 1, "least": 4})


@pytest.mark.parametrize("number", [0, 2])
def test_too_few_finished_tasks_say_nothing(number: int) -> None:
    assert Lengths(finished(*[60.0] * number)).of(_waiting("A"), 8) is None


def test_tasks_of_any_size_speak_where_none_of_that_size_finished_and_only_the_last_ones() -> None:
    lengths = Lengths(finished(*[60.0] * MOST, *[9000.0] * 9 * MOST, cards=2))
    found = lengths.of(_waiting("A"), 8)
    assert found is not None
    assert (found.seconds, found.source, found.of) == (60.0, "past", MOST)


def _waiting(business: str) -> Any:
    return snapshot_of(task("a").of(business))[0].waiting[0]


def test_what_ends_within_one_step_is_one_event_and_keeps_its_time() -> None:
    rows = [limited("r", 600, 4).on(h1=4).since(0), limited("s", 630, 4).on(h1=4).since(0)]
    found, _ = look(H1, *rows, limited("a", 600, 4), limited("b", 600, 4), head_of_line="skip")
    assert sorted(estimate.start or 0.0 for estimate in found.estimates.values()) == [600, 630]
    assert found.passes == 3


def test_many_short_tasks_seem_no_slower_far_ahead() -> None:
    rows = [limited(f"w{number}", 600) for number in range(300)]
    found, _ = look(H1, *rows, elastic_order="fifo", head_of_line="skip")
    assert [estimate.start for estimate in found.estimates.values()] == [600 * n for n in range(300)]


def test_a_high_task_starts_once_its_victim_had_its_grace_and_the_victim_comes_back() -> None:
    victim = task("e").asks(8).of("B").with_(pull_up=True, time_limit=900).on(h1=8).since(-700)
    asks = limited("t", 600).high().of("A")
    rows = [H1, quota("A", "P40", 8), victim, asks, limited("later", 60).of("C")]
    assert foresee(*rows, exit_grace_s=25, elastic_order="fifo") == {
        "t": (25, "free", {}),
        "later": (625 + 900, "limits", {"limits": 2}),  # the victim goes first: it came first
    }


def test_evictions_far_ahead_come_true_although_the_steps_are_long() -> None:
    """Claims lapse two minutes after a TERM, and ten hours ahead a step is longer than that."""
    runner = limited("r", 36000).high().on(h1=8).since(0)
    elastic = task("e").asks(8).of("B").on(h2=8).since(0)
    rows = [H1, host("h2").cards("P40", 8).at("GZ"), quota("A", "P40", 8), runner, elastic]
    seen = foresee(*rows, limited("t", 60).high().within("GZ"))
    assert seen == {"t": (36030, "limits", {"limits": 1})}


def test_a_high_task_waits_for_the_quota_that_others_of_its_business_hold() -> None:
    rows = [H1, host("h2").cards("P40", 8), quota("A", "P40", 8), limited("r", 600).high().on(h1=8).since(0)]
    assert foresee(*rows, limited("a", 60).high())["a"] == (600, "limits", {"limits": 1})


def test_without_quota_or_hosts_no_end_of_a_task_helps() -> None:
    endless = task("u").asks(8).on(h1=8).since(0)
    seen = foresee(H1, quota("A", "P40", 0), endless, task("a").asks(8).high(), task("b").asks(9))
    assert [seen["a"], seen["b"]] == [(None, "never", {})] * 2


def test_cards_that_are_reserved_for_others_are_there_when_the_reservation_ends() -> None:
    rows = [H1, quota("A", "P40", 8), quota("B", "P40", 8), reservation("A", "P40", 8, 0, 3600)]
    assert foresee(*rows, limited("b", None).high().of("B"))["b"] == (3600, "free", {})
    assert foresee(*rows, limited("a", None).high().of("A"))["a"] == (0, "free", {})


def test_a_reservation_to_come_keeps_out_what_would_last_into_it() -> None:
    rows = [H1, quota("A", "P40", 8), quota("B", "P40", 8), reservation("A", "P40", 8, 3600, 7200)]
    seen = foresee(*rows, limited("long", 4000).high().of("B"), limited("short", 3000).high().of("B"))
    assert seen["short"][0] == 0
    assert seen["long"][0] == 7200


def test_a_gate_with_a_time_opens_then_and_one_without_is_unknown() -> None:
    seen = foresee(
        H1,
        task("later").with_(ready_at=500.0, gate="not_before"),
        task("held").with_(gate="hold"),
        task("child").with_(gate="dependency"),
    )
    assert seen == {
        "later": (500, "free", {}),
        "held": (None, "gate", {}),
        "child": (None, "gate", {}),
    }


def test_nobody_knows_when_a_lost_host_gives_its_cards_back() -> None:
    runner = limited("r", 600).on(h1=8).since(0)
    rows = [host("h1").cards("P40", 8).is_("lost"), host("h2").cards("P40", 8), limited("s", None).on(h2=8)]
    assert foresee(*rows, runner, limited("a", 60))["a"] == (None, "unknown", {"unknown": 2})


def test_a_kept_place_is_free_when_it_ends() -> None:
    keeper = task("k").asks(8).with_(keeping=True).on(h1=8).since(0)
    seen = foresee(H1, keeper, limited("a", 60), past=lambda _: Lengths(kept_until={1: 1500.0}))
    assert seen["a"][0] == 1500


def test_who_leaves_already_is_gone_after_the_grace_and_who_should_be_long_gone_is_unknown() -> None:
    leaver = task("e").asks(8).with_(leaving_since=90.0).on(h1=8).since(0)
    assert foresee(H1, leaver, limited("a", 60), now=100.0)["a"] == (120, "free", {})
    assert foresee(H1, leaver, limited("a", 60), now=1000.0)["a"] == (None, "unknown_task", {"task": 1})


def test_beyond_the_horizon_nothing_is_said() -> None:
    runner = limited("r", 9 * 86400).on(h1=8).since(0)
    assert foresee(H1, runner, limited("a", 60))["a"] == (None, "beyond", {"hours": 168})


def test_a_look_that_is_cut_short_says_how_far_it_came() -> None:
    rows = [H1, limited("r", 7200).on(h1=8).since(0), limited("a", 7200), limited("b", 7200)]
    passes = iter([False, True])
    seen = foresee(*rows, enough=lambda: next(passes), head_of_line="skip")
    assert seen == {"a": (7200, "limits", {"limits": 1}), "b": (None, "beyond", {"hours": 2})}


def test_a_look_for_one_task_ends_with_its_start() -> None:
    rows = [H1, limited("r", 600).on(h1=8).since(0), limited("a", 600), limited("b", 600)]
    found, names = look(*rows, only=2)
    assert names.name("task", 2) == "a"
    assert found.until == 600


def test_a_week_of_ends_takes_a_bounded_number_of_passes() -> None:
    dice = Random(1)
    rows = [limited(f"w{number}", dice.uniform(36000, 72000), 1) for number in range(400)]
    found, _ = look(H1, *rows, head_of_line="skip", elastic_order="fifo")
    ends = sum(estimate.start is not None for estimate in found.estimates.values())
    assert found.until == 7 * 86400
    assert found.passes < ends + 60
    assert found.passes < 220


@pytest.mark.parametrize("seed", range(5))
def test_the_order_of_the_rows_does_not_matter(seed: int) -> None:
    rows = [host(f"h{n}").cards("P40", 4) for n in range(3)]
    rows += [limited(f"r{n}", 300 * n + 60, 4).on({f"h{n}": 4}).since(0) for n in range(3)]  # type: ignore[misc]
    rows += [limited(f"w{n}", 400 + n, 1 + n % 4) for n in range(9)]  # type: ignore[misc]
    assert foresee(*rows, shuffle=seed) == foresee(*rows)


def test_it_begins_with_what_the_pass_decides() -> None:
    snapshot = fleet(400, quota=67)
    found = forecast(snapshot, Policy(), Lengths(), enough=lambda: True)
    starts = {task_id for task_id, estimate in found.estimates.items() if estimate.start is not None}
    assert starts == {start.task for start in decide(snapshot, Policy()).starts}
    assert len(starts) > 100
    assert found.estimates.keys() == {row.id for row in snapshot.waiting}


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("order", ["fair_share", "fifo", "shortest_first"])
def test_it_says_what_the_simulator_says_of_tasks_that_end_with_their_limits(seed: int, order: str) -> None:
    dice = Random(seed)
    submits = [
        {
            "id": f"t{number}",
            "business": dice.choice("ABC"),
            "host_num": dice.choice((1, 1, 2)),
            "host_gpu_num": dice.choice((2, 4, 8)),
            "duration_s": (length := 600 * dice.randint(1, 3)),
            "time_limit_s": length,
        }
        for number in range(14)
    ]
    setup = read_scenario(
        {
            "hosts": [{"host": f"h{n}", "gpu_type": "P40", "gpu_num": 8} for n in range(4)],
            "policy": {"elastic_order": order},
            "events": [{"at": 0, "submit": submit} for submit in submits],
        }
    )
    before = Simulator(setup)
    jobs = [job for _, _, job in setup.events]
    names = before.names_only()
    waiting = tuple(before.waiting(job) for job in jobs)
    snapshot = type(names)(now=0.0, hosts=setup.hosts, waiting=waiting, type_names=names.type_names)
    found = forecast(snapshot, setup.policy, Lengths())
    before.run()
    assert {job.id: job.attempts[0].started for job in jobs} == {
        task_id: estimate.start for task_id, estimate in found.estimates.items()
    }
    assert max(job.attempts[0].started for job in jobs) > 0


def test_lines_stand_in_the_order_of_the_pass() -> None:
    rows = [
        task("low").high().with_(priority=0).at(1),
        task("high").high().with_(priority=2).at(2),
        task("other").high().of("B").at(1.5),
        task("m40").high().on_type("M40"),
        task("much").of("A", "ann").at(1),
        task("little").of("B", "bob").at(2),
        task("auto").auto().of("C", "cid").at(3),
        task("held").with_(gate="hold"),
        used("A", "ann", 5e6),
        used("B", "bob", 4e6),
    ]
    snapshot, names = snapshot_of(*rows, now=10.0)
    said = {
        (phase, len(types), tuple(names.name("task", number) for number in line))
        for (phase, types), line in in_line(work_on(snapshot, policy())).items()
    }
    assert said == {
        ("high", 1, ("high", "other", "low")),
        ("high", 1, ("m40",)),
        ("elastic", 1, ("auto", "little", "much")),
    }
