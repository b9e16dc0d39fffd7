"""The states of a host, and every legal move between them: what operators and the platform want of it.

Whether a host is lost is observed, not wanted, and stands apart: a host that is silent keeps its state.
"""

from enum import StrEnum


class State(StrEnum):
    """What a host is used for."""

    READY = "ready"
    CORDONED = "cordoned"  # keeps what runs, takes no starts
    DRAINING = "draining"  # the same, and its elastic tasks are evicted
    QUARANTINED = "quarantined"  # taken out by the platform after failures: as if it were cordoned
    REMOVED = "removed"  # gone for good: what ran on it ends as lost


S = State
QUARANTINE = "quarantine"  # the one move that nobody asks for

# From a state to another, by the verb that makes the move.
MOVES: dict[State, dict[State, str]] = {
    S.READY: {
        S.CORDONED: "cordon",
        S.DRAINING: "drain",
        S.QUARANTINED: QUARANTINE,  # tasks failed at start there
        S.REMOVED: "remove",
    },
    S.CORDONED: {  # never quarantined: what operators said of a host stands
        S.READY: "uncordon",
        S.DRAINING: "drain",
        S.REMOVED: "remove",
    },
    S.DRAINING: {
        S.READY: "uncordon",
        S.CORDONED: "cordon",  # the elastic tasks that are not gone yet go on leaving
        S.REMOVED: "remove",
    },
    S.QUARANTINED: {
        S.READY: "uncordon",  # mended; what failed there before counts no more
        S.CORDONED: "cordon",  # an operator looks after it
        S.DRAINING: "drain",
        S.REMOVED: "remove",
    },
    S.REMOVED: {
        S.READY: "restore",  # it came back after all
    },
}

VERBS = ("cordon", "uncordon", "drain", "remove", "restore")  # what operators may ask for
NEED_REASON = frozenset({"cordon", "drain", "remove"})  # those who wait for the host ask why


def may_move(old: State, new: State) -> bool:
    """Say whether `old` → `new` is a legal move."""
    return new in MOVES[old]


def target(old: State, verb: str) -> State | None:
    """Return where `verb` leads from `old`; None where it is not legal there."""
    return next((new for new, name in MOVES[old].items() if name == verb), None)


def verbs(old: State) -> list[str]:
    """Return what operators may ask of a host in this state, in the order of VERBS."""
    return [verb for verb in VERBS if target(old, verb) is not None]
