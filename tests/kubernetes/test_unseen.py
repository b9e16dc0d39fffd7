"""What was done counts until the watch shows it."""

import pytest

from cluster.kubernetes.unseen import CONFIRM_S, Unseen


def test_what_was_made_counts_until_it_is_shown() -> None:
    unseen = Unseen[str]()
    unseen.note("a", {"version": 1})
    unseen.note("b", {"version": 2})
    assert unseen.all_but({"b"}) == {"a": {"version": 1}}
    assert (unseen.find("a"), unseen.find("b")) == ({"version": 1}, None)


def test_what_is_not_shown_for_long_is_late(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr("cluster.kubernetes.unseen.time.monotonic", lambda: now)
    unseen = Unseen[str]()
    unseen.note("a", {})
    now += CONFIRM_S
    assert not unseen.is_late("a")
    now += 0.1
    assert unseen.is_late("a")
    assert not unseen.is_late("b")


def test_what_was_made_anew_meanwhile_is_not_forgotten_for_what_it_was() -> None:
    unseen = Unseen[str]()
    first, second = {"version": 1}, {"version": 1}  # alike, and not the same
    unseen.note("a", first)
    unseen.note("a", second)
    unseen.forget("a", first)
    assert unseen.find("a") is second
    unseen.forget("a", second)
    unseen.forget("a")  # which changes nothing
    assert unseen.find("a") is None
