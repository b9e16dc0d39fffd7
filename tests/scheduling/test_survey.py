"""Hosts counted by why they do not take a task."""

import pytest

from jobs.scheduling.cluster_state import Cluster
from jobs.scheduling.survey import Seen, survey
from tests.scheduling.build import Row, claim, host, snapshot_of, task


def seen_by(asking: task, *rows: Row) -> dict[str, tuple[int, int, int]]:
    """Return hosts, free cards and the most free ones by why, as the task sees them."""
    snapshot, _names = snapshot_of(asking, *rows)
    cluster = Cluster.of(snapshot)
    for held in snapshot.claims:
        cluster.hold(held, business=0)
    found: tuple[Seen, ...] = survey(cluster, snapshot.waiting[0])
    return {seen.why: (seen.hosts, seen.free, seen.most) for seen in found}


def test_halves_of_two_hosts_are_no_host_for_a_whole_one() -> None:
    rows = [host("h1"), host("h2"), task("x").high().on(h1=4), task("y").high().on(h2=6)]
    assert seen_by(task("a").high().asks(8), *rows) == {"busy": (2, 6, 4)}
    assert seen_by(task("a").high().asks(3), *rows) == {"free": (1, 4, 4), "busy": (1, 2, 2)}


def test_elastic_tasks_count_as_what_could_be_evicted() -> None:
    rows = [host("h1"), host("h2"), task("x").elastic().on(h1=4), task("y").high().on(h2=4)]
    assert seen_by(task("a").high().asks(8), *rows) == {"soft": (1, 4, 4), "busy": (1, 4, 4)}


@pytest.mark.parametrize("state", ["cordoned", "draining", "quarantined", "lost"])
def test_a_host_that_is_not_offered_counts_under_its_state(state: str) -> None:
    assert seen_by(task("a").asks(2), host("h1").is_(state), host("h2")) == {
        "free": (1, 8, 8),
        state: (1, 8, 8),
    }


def test_what_no_waiting_helps_against_stands_before_what_time_may_change() -> None:
    rows = [
        host("small").cards("P40", 4),
        host("other").offers("container"),
        host("away").at("BJ"),
        host("failed"),
        host("good"),
        host("m40").cards("M40", 8),
    ]
    asking = task("a").asks(8).within("SZ").with_(avoid=["failed"])
    assert {why: hosts for why, (hosts, _free, _most) in seen_by(asking, *rows).items()} == {
        "free": 1,
        "small": 1,
        "offers": 1,
        "avoided": 1,
        "region": 1,
    }


def test_cards_held_for_another_are_told_apart_from_cards_in_use() -> None:
    rows = [host("h1"), task("b").high(), claim("b", h1=8)]
    assert seen_by(task("a").asks(8), *rows) == {"held": (1, 0, 0)}


def test_hosts_of_every_type_that_it_accepts_are_counted() -> None:
    rows = [host("h1").cards("M40", 4), host("h2").cards("P40", 8)]
    assert seen_by(task("a").asks(8).on_type("M40,P40"), *rows) == {"free": (1, 8, 8), "small": (1, 4, 4)}
