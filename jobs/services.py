"""What people do with tasks: submit, stop, hold, release, free, retry."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, TypeVar

from django.contrib.auth.models import User
from django.db import IntegrityError, transaction
from django.utils.translation import gettext as _

from cluster import clock, hints, rows, vault
from jobs import config, elsewhere, lifecycle, sources
from jobs.alike import Alike, Read, Reader
from jobs.lifecycle import End
from jobs.lookups import TypesChanged, keep_types
from jobs.materials import Code, Dataset
from jobs.models import STATE_WORDS, Attempt, Claim, Task
from jobs.states import ACTIVE, TERMINAL, WAITING, State

T = TypeVar("T")
TRIES = 5  # a state that moved under us is read again this often


class Conflict(Exception):
    """The task is in a state that does not allow this; `code` and `message` are for the caller."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


def submit(
    user: User,
    document: Mapping[str, Any],
    *,
    origin: Task | None = None,
    idempotency_key: str | None = None,
    mpijob: Mapping[str, str] | None = None,
) -> Task:
    """Make a task of `document` for `user`; raises config.Invalid with every fault, and then nothing is made.

    The same user and `idempotency_key` return the same task; Conflict where its document differed.
    `mpijob`: what it runs is there already, in a cluster, under this namespace, name and uid.
    """
    return _again_where_changed(lambda: _submit(user, document, origin, idempotency_key, mpijob))


def _submit(
    user: User,
    document: Mapping[str, Any],
    origin: Task | None,
    key: str | None,
    mpijob: Mapping[str, str] | None,
) -> Task:
    wanted = config.read(document, user=user, origin=origin, needs=elsewhere.MPIJOB if mpijob else "")
    if mpijob:
        # No field of a document, so nobody can say of his own that it is one.
        wanted = replace(wanted, document={**wanted.document, elsewhere.MPIJOB: dict(mpijob)})
    if key and (earlier := _earlier(user, key, wanted)):
        return earlier
    try:
        with transaction.atomic():
            return _create(wanted, origin, key)
    except IntegrityError:
        # The same request came twice at the same instant, or what the document names is gone since it was read.
        earlier = _earlier(user, key, wanted) if key else None
        if earlier is None:
            raise
        return earlier


def _again_where_changed(make: Callable[[], T]) -> T:
    """Return what `make` makes of documents; it reads them anew where what they meant is gone meanwhile.

    Of GPU types it hears itself; of what there is a key to, such as the business, from the database.
    """
    refused = False
    for _try in range(TRIES):
        try:
            return make()
        except TypesChanged:
            continue
        except IntegrityError:
            if refused:
                raise
            refused = True
    message = _("The GPU types are being changed at this moment; submit it again.")
    raise config.Invalid([config.Fault("GPUName", "changing", message)])


def _earlier(user: User, key: str, wanted: config.Config) -> Task | None:
    task = Task.objects.filter(user=user, idempotency_key=key).first()
    if task is not None and not config.same_request(task, wanted):
        raise Conflict("idempotency_key_reused", _("This Idempotency-Key was used for another document."))
    return task


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """A task that was just made; what is not said here is as of `like`, which is made, too."""

    id: int
    task_flag: str
    like: Task


def submit_many(user: User, documents: Sequence[object]) -> list[Made | config.Invalid]:
    """Make a task of each document; return it, or all faults of the document, in their order.

    One that is refused keeps none of the others from being made. A fixed number of queries, however many they are.
    """
    return _again_where_changed(lambda: _submit_many(user, documents))


def _submit_many(user: User, documents: Sequence[object]) -> list[Made | config.Invalid]:
    reader = Reader(user, documents)
    read = [reader.read(document) for document in documents]
    with transaction.atomic():
        tasks = _write_alike([each for each in read if isinstance(each, Read)], reader.sources)
        ids = [task.id for task in tasks]
        lifecycle.note(ids, code="submitted", new=State.QUEUED, actor=user, wake=True)
    made = iter(tasks)
    return [next(made) if isinstance(each, Read) else each for each in read]


def _write_alike(wanted: Sequence[Read], known: sources.Found) -> list[Made]:
    """Write the rows of tasks; of those that are alike, only what differs is worked out for each."""
    now = clock.now()
    configs = {one.alike: one.alike.config for one in wanted}.values()
    sources.keep_all(Code, [(each.code, each.business, each.user) for each in configs], known)
    sources.keep_all(Dataset, [(each.dataset, each.business, each.user) for each in configs], known)
    likes: dict[Alike, tuple[Task, list[Any]]] = {}
    sealed: dict[tuple[Any, ...], str] = {}  # the same secrets are encrypted once
    lines = []
    for one in wanted:
        if one.alike not in likes:
            like = _task(one.alike.config, now, known=known)
            likes[one.alike] = like, _line(like)
        secrets = tuple(one.secrets.items())
        if secrets not in sealed:
            sealed[secrets] = vault.seal(one.secrets)
        line = likes[one.alike][1].copy()
        line[: len(_OWN)] = one.task_flag, one.document, sealed[secrets]
        lines.append(line)
    made = []
    for one, key in zip(wanted, _written(lines, now), strict=True):
        like, _its_line = likes[one.alike]
        like.pk = like.pk or key
        made.append(Made(id=key, task_flag=one.task_flag, like=like))
    return made


def _create(wanted: config.Config, origin: Task | None, key: str | None) -> Task:
    now = clock.now()
    task = _task(wanted, now, origin, key)
    (task.pk,) = _written([_line(task)], now)
    lifecycle.note([task.pk], code="submitted", new=State.QUEUED, actor=wanted.user, wake=True)
    return task


# Columns: those in which tasks that are alike differ, those that a document may fill, and those of any new task.
_OWN = ("task_flag", "config", "secrets")
_FILLED = (
    *("business", "user", "origin", "wanted_class", "host_num", "host_gpu_num", "gpu_types", "region"),
    *("code", "dataset", "needs", "priority", "pull_up", "keep_alive", "retry_limit", "time_limit_s"),
    *("checkpoint_interval_s", "ready_at", "idempotency_key"),
)
_NEW = ("state", "ended_at", "avoid_hosts", "reason_code", "reason_args")
_FIELDS = {field.name: field for field in Task._meta.concrete_fields}
_ATTRIBUTES = [_FIELDS[name].attname for name in (*_OWN, *_FILLED)]
_TYPES = _ATTRIBUTES.index("gpu_types")


def _line(task: Task) -> list[Any]:
    return [getattr(task, name) for name in _ATTRIBUTES]


def _written(lines: list[list[Any]], now: datetime) -> list[int]:
    """Write tasks that are new, in one statement, and return their ids in this order. Raises TypesChanged."""
    keep_types(pk for line in lines for pk in line[_TYPES])
    new = {name: _FIELDS[name].get_default() for name in _NEW}
    return rows.insert_in_order(Task, lines, *_OWN, *_FILLED, submitted_at=now, queued_at=now, **new)


def _task(
    wanted: config.Config,
    now: datetime,
    origin: Task | None = None,
    key: str | None = None,
    known: sources.Found | None = None,
) -> Task:
    """Return a task that is not written yet; the rows of its code and data are, or are `known`."""
    found = {} if known is None else known
    code = sources.keep(Code, wanted.code, wanted.business, wanted.user, found)
    dataset = sources.keep(Dataset, wanted.dataset, wanted.business, wanted.user, found)
    return Task(
        business=wanted.business,
        user=wanted.user,
        task_flag=wanted.task_flag,
        config=wanted.document,
        secrets=vault.seal(wanted.secrets),
        origin=origin,
        wanted_class=wanted.wanted_class,
        host_num=wanted.host_num,
        host_gpu_num=wanted.host_gpu_num,
        gpu_types=[gpu_type.pk for gpu_type in wanted.gpu_types],
        region=wanted.region,
        code=code,
        dataset=dataset,
        needs=wanted.needs,
        priority=wanted.priority,
        pull_up=wanted.pull_up,
        keep_alive=wanted.keep_alive,
        retry_limit=wanted.retry_limit,
        time_limit_s=wanted.time_limit_s,
        checkpoint_interval_s=wanted.checkpoint_interval_s,
        submitted_at=now,
        queued_at=now,
        ready_at=wanted.not_before,
        idempotency_key=key or None,
    )


def stop(task: Task, user: User) -> Task:
    """Stop a task wherever it is; stopping it again changes nothing. Conflict once it is over."""
    for _try in range(TRIES):
        task.refresh_from_db()
        state = State(task.state)
        if state in TERMINAL:
            raise Conflict(
                "already_over", _("The task is over already: %(state)s.") % {"state": STATE_WORDS[state]}
            )
        if state == State.STOPPING or _stop_from(task, state, user):
            break
    task.refresh_from_db()
    return task


def _stop_from(task: Task, state: State, user: User) -> bool:
    if state in WAITING:
        return _leave_line(task, state, State.STOPPED, "stop", user)
    attempt = _open_attempt(task)
    if attempt is None:
        return False
    if state == State.KEEPING:
        return lifecycle.free(attempt, code="free", actor=user)
    return lifecycle.order_end(attempt, state, End(outcome=Attempt.Outcome.STOPPED, code="stop"), actor=user)


def _leave_line(task: Task, state: State, to: State, code: str, user: User) -> bool:
    """Move a waiting task, and give up the cards that were held for it."""
    with transaction.atomic():
        moved = lifecycle.move([task.pk], state, to, code=code, actor=user)
        if moved:
            Claim.objects.filter(task=task).delete()
            hints.wake_pass()
    return bool(moved)


def hold(task: Task, user: User) -> Task:
    """Let a waiting task wait until it is released; Conflict where it does not wait."""
    return _move_waiting(task, user, (State.QUEUED, State.BLOCKED), State.HELD, "hold")


def release(task: Task, user: User) -> Task:
    """Let a held task queue again; Conflict where it is not held."""
    return _move_waiting(task, user, (State.HELD,), State.QUEUED, "release")


def _move_waiting(task: Task, user: User, states: tuple[State, ...], to: State, code: str) -> Task:
    for _try in range(TRIES):
        task.refresh_from_db()
        state = State(task.state)
        if state == to:
            break  # a second click
        if state not in states:
            raise Conflict(
                "wrong_state",
                _("This cannot be done while the task is %(state)s.") % {"state": STATE_WORDS[state]},
            )
        if _leave_line(task, state, to, code, user):
            break
    task.refresh_from_db()
    return task


def free(task: Task, user: User) -> Task:
    """End the kept place of a task; Conflict where none is kept."""
    task.refresh_from_db()
    attempt = _open_attempt(task)
    if task.state != State.KEEPING or attempt is None:
        raise Conflict("no_kept_place", _("The task keeps no place: there is nothing to free."))
    lifecycle.free(attempt, code="free", actor=user)
    task.refresh_from_db()
    return task


def retry(task: Task, user: User, idempotency_key: str | None = None) -> Task:
    """Submit the config of an ended task again as a new task, of one key once; Conflict while it is not over."""
    task.refresh_from_db()
    if not task.is_over:
        raise Conflict(
            "not_over", _("The task is not over yet: it is %(state)s.") % {"state": task.get_state_display()}
        )
    if job := elsewhere.named(task.config):
        raise Conflict(elsewhere.NOT_HERE, elsewhere.not_here(job))
    return submit(user, task.config, origin=task, idempotency_key=idempotency_key)


STEERING: dict[str, Callable[[Task, User], Task]] = {
    "stop": stop,
    "hold": hold,
    "release": release,
    "free": free,
}  # what only the owner, a lead and operators may do


def allowed(task: Task) -> frozenset[str]:
    """Return the verbs that the state of the task, and what it runs, allow now."""
    state = State(task.state)
    is_ours = task.needs != elsewhere.MPIJOB
    verbs = {"clone"} if is_ours else set()
    if state in TERMINAL:
        verbs |= {"retry"} if is_ours else set()
    elif state != State.STOPPING:
        verbs.add("stop")
    if state in {State.QUEUED, State.BLOCKED}:
        verbs.add("hold")
    if state == State.HELD:
        verbs.add("release")
    if state == State.KEEPING:
        verbs.add("free")
    return frozenset(verbs)


def _open_attempt(task: Task) -> Attempt | None:
    if task.state not in ACTIVE:
        return None
    return task.attempts.filter(ended_at__isnull=True).select_related("task").first()
