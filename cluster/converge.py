"""What a host has to do: what should run there against what is there."""

from collections.abc import Mapping, Set
from dataclasses import dataclass
from enum import Enum


class Seen(Enum):
    """What is known of an instance on the host."""

    PREPARED = "prepared"  # its folder was made, and it is certain that nothing was started
    LIVE = "live"  # something of it may run
    GONE = "gone"  # nothing of it is left, and its exit record is there


@dataclass(frozen=True, slots=True, kw_only=True)
class Steps:
    """Instance ids by what to do with them, each in order of id."""

    start: tuple[str, ...] = ()
    stop: tuple[str, ...] = ()
    void: tuple[str, ...] = ()  # record as ended without ever having started
    forget: tuple[str, ...] = ()


def converge(wanted: Mapping[str, bool], forget: Set[str], seen: Mapping[str, Seen]) -> Steps:
    """Return the steps from `seen` to `wanted` (id → whether it should run).

    Nothing starts while a stray lives, that is something the platform neither wants nor knows as ended: it
    may hold the very cards that were given away since.
    """
    live = {key for key, state in seen.items() if state is Seen.LIVE}
    unstarted = {key for key in wanted.keys() | seen.keys() if seen.get(key, Seen.PREPARED) is Seen.PREPARED}
    should_run = {key for key, run in wanted.items() if run}
    strays = live - wanted.keys()
    return Steps(
        start=() if strays else tuple(sorted(unstarted & should_run)),
        stop=tuple(sorted(live - should_run)),
        void=tuple(sorted(unstarted - should_run)),
        forget=tuple(sorted(key for key in forget - wanted.keys() if seen.get(key) is Seen.GONE)),
    )
