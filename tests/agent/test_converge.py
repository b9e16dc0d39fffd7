"""What a host does about what should run there, case by case."""

import pytest

from cluster.converge import Seen, Steps, converge

PREPARED, LIVE, GONE = Seen.PREPARED, Seen.LIVE, Seen.GONE


@pytest.mark.parametrize(
    ("wanted", "forget", "seen", "steps"),
    [
        ({}, set(), {}, Steps()),
        ({"b": True, "a": True}, set(), {}, Steps(start=("a", "b"))),
        ({"a": True}, set(), {"a": PREPARED}, Steps(start=("a",))),
        ({"a": True}, set(), {"a": LIVE}, Steps()),
        ({"a": True}, set(), {"a": GONE}, Steps()),
        ({"a": False}, set(), {"a": LIVE}, Steps(stop=("a",))),
        ({"a": False}, set(), {"a": GONE}, Steps()),
        ({"a": False}, set(), {"a": PREPARED}, Steps(void=("a",))),
        ({"a": False}, set(), {}, Steps(void=("a",))),
        ({}, set(), {"a": PREPARED}, Steps(void=("a",))),
        ({}, set(), {"a": LIVE}, Steps(stop=("a",))),
        ({}, set(), {"a": GONE}, Steps()),
        ({}, {"a"}, {"a": GONE}, Steps(forget=("a",))),
        ({}, {"a"}, {}, Steps()),
        ({}, {"a"}, {"a": LIVE}, Steps(stop=("a",))),
        ({"a": True}, {"a"}, {"a": GONE}, Steps()),
        ({"b": True}, set(), {"a": LIVE}, Steps(stop=("a",))),
        ({"a": False, "b": True}, set(), {"a": LIVE}, Steps(stop=("a",), start=("b",))),
        ({"b": True}, set(), {"a": GONE}, Steps(start=("b",))),
    ],
)
def test_the_steps_from_seen_to_wanted(
    wanted: dict[str, bool], forget: set[str], seen: dict[str, Seen], steps: Steps
) -> None:
    assert converge(wanted, forget, seen) == steps
