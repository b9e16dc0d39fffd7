"""One verb on many tasks: in short transactions that each move a handful of them together."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from django.contrib.auth.models import User
from django.db import transaction

from cluster import hints, rows
from jobs import config, elsewhere, lifecycle, services
from jobs.lifecycle import End, Order
from jobs.models import Attempt, Claim, Task
from jobs.states import WAITING, State
from quotas import access

RETRY = "retry"
VERBS = (*services.STEERING, RETRY)
# The states in which each verb does something; the rule is that of a single task.
LEGAL = {
    verb: frozenset(state for state in State if verb in services.allowed(Task(state=state))) for verb in VERBS
}
TOGETHER = {  # verbs that move waiting tasks: where to
    "stop": State.STOPPED,
    "hold": State.HELD,
    "release": State.QUEUED,
}
CHUNK = 100  # tasks moved in one transaction: the pass and the hosts wait for their rows no longer than that
MOST = 10_000  # tasks of one action
MOST_ALONE = 200  # tasks of one action that are done one by one, which somebody waits for
NOT_YOURS, WRONG_STATE, REFUSED, TOO_MANY = "not_yours", "wrong_state", "refused", "too_many"


@dataclass(slots=True, kw_only=True)
class Outcome:
    """What became of many tasks: the state that each was in, counted."""

    done: Counter[str] = field(default_factory=Counter)
    skipped: Counter[tuple[str, str]] = field(default_factory=Counter)  # why, and the state
    refusals: list[str] = field(default_factory=list)  # different sentences of those that were refused


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """A task as it stood when it was looked at."""

    pk: int
    state: State
    business: int
    owner: int


def most(verb: str) -> int:
    """Return how many tasks one action takes: those that are done one by one are fewer."""
    return MOST if verb in TOGETHER else min(MOST, MOST_ALONE)


def look(tasks: Iterable[tuple[int, str, int, int]]) -> list[Seen]:
    """Return rows of `COLUMNS` as what was seen."""
    return [Seen(pk=pk, state=State(state), business=one, owner=user) for pk, state, one, user in tasks]


COLUMNS = ("pk", "state", "business_id", "user_id")


def sort_out(verb: str, seen: Iterable[Seen], user: User) -> tuple[list[Seen], Counter[tuple[str, str]]]:
    """Return the tasks that the verb would touch, and why it leaves the others: two queries."""
    may = access.steering(user)
    legal = LEGAL[verb]
    taken: list[Seen] = []
    skipped: Counter[tuple[str, str]] = Counter()
    for task in seen:
        if task.state not in legal:
            skipped[WRONG_STATE, task.state] += 1
        elif verb != RETRY and not may(task.business, task.owner):
            skipped[NOT_YOURS, task.state] += 1
        else:
            taken.append(task)
    return taken, skipped


def act(verb: str, ids: Sequence[int], user: User, key: str | None = None) -> Outcome:
    """Do the verb to each of the tasks that `user` sees and may steer; the others are told apart, not touched.

    A task that somebody else is moving at this moment is done alone at the end, as by its own page, and so many of
    those are left that nobody waits for long. Of one `key`
    each task is run again once, however often that is asked for.
    """
    outcome = Outcome()
    late: list[int] = []
    for chunk in _chunks(ids):
        if verb in TOGETHER:
            late += _together(verb, chunk, user, outcome)
        else:
            late += chunk
    found = Task.objects.visible_to(user).filter(pk__in=rows.among(late)).order_by("pk")
    outcome.skipped += Counter(
        (TOO_MANY, state) for state in found.values_list("state", flat=True)[MOST_ALONE:]
    )
    for task in found[:MOST_ALONE].iterator():
        _alone(verb, task, user, outcome, f"{key}-{task.pk}" if key else None)
    return outcome


def _chunks(ids: Sequence[int]) -> Iterator[list[int]]:
    ordered = sorted(set(ids))
    for start in range(0, len(ordered), CHUNK):
        yield ordered[start : start + CHUNK]


def _together(verb: str, ids: list[int], user: User, outcome: Outcome) -> list[int]:
    """Move what can be moved at once; return the ids of those that are left to be done alone.

    Rows that somebody else has locked are passed over: who holds rows and never waits for others locks nobody out.
    """
    with transaction.atomic():
        found = Task.objects.visible_to(user).filter(pk__in=rows.among(ids)).order_by("pk")
        free = found.select_for_update(skip_locked=True, of=("self",))
        seen = look(free.values_list(*COLUMNS))
        taken, skipped = sort_out(verb, seen, user)
        moved = _move(verb, taken, user)
    outcome.skipped += skipped
    outcome.done += Counter(task.state for task in taken if task.pk in moved)
    settled = moved | ({task.pk for task in seen} - {task.pk for task in taken})
    return [pk for pk in ids if pk not in settled]


def _move(verb: str, taken: list[Seen], user: User) -> set[int]:
    groups: dict[State, list[int]] = defaultdict(list)
    for task in taken:
        groups[task.state].append(task.pk)
    moved: set[int] = set()
    for state, ids in sorted(groups.items()):
        if state in WAITING:
            moved |= lifecycle.move(ids, state, TOGETHER[verb], code=verb, actor=user)
    if moved:
        Claim.objects.filter(task__in=rows.among(moved)).delete()  # the cards that were held for them
        hints.wake_pass()
    if verb == "stop":
        moved |= _stop_running(groups, user)
    return moved


def _stop_running(groups: dict[State, list[int]], user: User) -> set[int]:
    """Order the open attempts of running tasks to end; a kept place is left to be freed alone."""
    states = {
        pk: state for state, ids in groups.items() for pk in ids if state not in {*WAITING, State.KEEPING}
    }
    open_ones = Attempt.objects.filter(task__in=rows.among(states), ended_at__isnull=True)
    stopped = End(outcome=Attempt.Outcome.STOPPED, code="stop")
    orders = [
        Order(task=task, attempt=attempt, state=states[task], end=stopped)
        for attempt, task in open_ones.values_list("pk", "task_id")
    ]
    return lifecycle.order_ends(orders, actor=user) if orders else set()


def _alone(verb: str, task: Task, user: User, outcome: Outcome, key: str | None) -> None:
    """Do it as the task's own page would."""
    state = task.state
    if verb != RETRY and not access.may_steer(user, task.business_id, task.user_id):
        outcome.skipped[NOT_YOURS, state] += 1
        return
    try:
        if verb == RETRY:
            services.retry(task, user, key)
        else:
            services.STEERING[verb](task, user)
    except services.Conflict as conflict:
        if conflict.code == elsewhere.NOT_HERE:
            _refused(outcome, state, conflict.message)
        else:
            outcome.skipped[WRONG_STATE, task.state] += 1
    except config.Invalid as invalid:
        _refused(outcome, state, "; ".join(f"{fault.field}: {fault.message}" for fault in invalid.faults))
    else:
        outcome.done[state] += 1


def _refused(outcome: Outcome, state: str, said: str) -> None:
    outcome.skipped[REFUSED, state] += 1
    if said not in outcome.refusals:
        outcome.refusals.append(said)
