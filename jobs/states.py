"""The states of a task and every legal move between them."""

from enum import StrEnum


class State(StrEnum):
    """Where a task is in its life."""

    BLOCKED = "blocked"  # waits for other tasks
    QUEUED = "queued"  # waits for cards, quota or time
    HELD = "held"  # its owner wants it to wait
    STARTING = "starting"  # cards are given, not every instance runs yet
    RUNNING = "running"  # every instance runs
    EVICTING = "evicting"  # being stopped because its cards are needed; comes back or ends as evicted
    STOPPING = "stopping"  # being stopped for any other reason
    KEEPING = "keeping"  # ended, and its place is kept for a while
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    STOPPED = "stopped"
    EVICTED = "evicted"


S = State

MOVES: dict[State, frozenset[State]] = {
    S.BLOCKED: frozenset(
        {
            S.QUEUED,  # what it depends on came true
            S.HELD,  # its owner held it
            S.STOPPED,  # its owner stopped it
            S.FAILED,  # what it depends on can never come true
        }
    ),
    S.QUEUED: frozenset(
        {
            S.STARTING,  # a pass gave it cards
            S.HELD,  # its owner held it
            S.STOPPED,  # its owner stopped it
        }
    ),
    S.HELD: frozenset(
        {
            S.QUEUED,  # released
            S.BLOCKED,  # released, and it still depends on others
            S.STOPPED,  # its owner stopped it
        }
    ),
    S.STARTING: frozenset(
        {
            S.RUNNING,  # every instance runs
            S.STOPPING,  # stopped by its owner, start deadline over, a member failed
            S.EVICTING,  # its cards are needed
            S.SUCCEEDED,  # it was over before it was seen running
            S.FAILED,  # the same, badly
            S.QUEUED,  # failed to start, and may be tried again
            S.KEEPING,  # it was over before it was seen running, and keeps its place
        }
    ),
    S.RUNNING: frozenset(
        {
            S.SUCCEEDED,  # every instance ended well
            S.FAILED,  # an instance failed and no retry is left
            S.QUEUED,  # an instance failed or its host was lost, and it may be tried again
            S.STOPPING,  # stopped by its owner, time limit, a member failed
            S.EVICTING,  # its cards are needed
            S.KEEPING,  # ended, and its place is kept
        }
    ),
    S.EVICTING: frozenset(
        {
            S.QUEUED,  # gone, and to be pulled up
            S.EVICTED,  # gone, and not to be pulled up
            S.SUCCEEDED,  # it ended well by itself before the order to stop reached it
            S.FAILED,  # it failed by itself before the order to stop reached it
            S.STOPPING,  # its owner stopped it while it was leaving
        }
    ),
    S.STOPPING: frozenset(
        {
            S.STOPPED,  # gone, as its owner wished
            S.FAILED,  # gone, after a time limit, a start deadline or a failed member
            S.QUEUED,  # the same, and it may be tried again
            S.SUCCEEDED,  # it ended well by itself before the order to stop reached it
            S.KEEPING,  # its first member ended well, the idle ones were stopped, and it keeps its place
        }
    ),
    S.KEEPING: frozenset(
        {
            S.SUCCEEDED,  # the time is over, it was freed, or a high task needs the place
            S.FAILED,  # the same, after an end that was a failure
        }
    ),
    S.SUCCEEDED: frozenset(),
    S.FAILED: frozenset(),
    S.STOPPED: frozenset(),
    S.EVICTED: frozenset(),
}

TERMINAL = frozenset(state for state, after in MOVES.items() if not after)
WAITING = frozenset({S.BLOCKED, S.QUEUED, S.HELD})  # holds no cards
ACTIVE = frozenset(S) - TERMINAL - WAITING  # holds cards, has an open attempt


def may_move(old: State, new: State) -> bool:
    """Say whether `old` → `new` is a legal move."""
    return new in MOVES[old]
