"""Hosts on which different tasks fail at once are taken out: which failures speak against a host, and when enough do.

A failing task may be its own fault, and most that fail within a minute are. So a failure counts against a host
- where the host itself says that it could not start the task;
- where the same work of the same user ran well on another host since;
- where tasks of several users failed one after the other, and none of their work failed elsewhere too.
A task that ends well on the host clears it of what was before, and a fault that all hosts seem to have
(a storage that is away) never takes out more than a third of them, nor the last one with cards of its type.
"""

import hashlib
import json
import logging
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from cluster import clock, host_events, host_moves, rows
from cluster.host_states import State as HostState
from cluster.models import Card, Host, Instance
from jobs.lifecycle import Closing
from jobs.models import Attempt, Strike, Task
from jobs.states import State

log = logging.getLogger(__name__)
REMEMBERED = timedelta(days=1)  # a failure speaks against a host so long
AT_MOST_OF = 3  # of so many hosts one may be quarantined by itself
USERS = 2  # so many have to fail where nothing else speaks against the host
LONGER_S = 10.0  # what runs elsewhere so much longer than it lasted here runs well there
NAMED = 10  # of the tasks in a reason: so many of them
RUNNING_READ = 500  # tasks of those users that run elsewhere: so many are looked at

SURE = frozenset({"start_failed"})
# The memory, the card or what else the pod asks for was at fault, not the host: another task may do well there.
NOT_THE_HOST = frozenset({"out_of_memory", "maybe_out_of_memory", "card_fault", "no_place"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """One task that failed at once on one host."""

    host: int
    task: int
    user: int
    work: str
    sure: bool
    proven: bool
    lasted_s: float = 0.0
    at: datetime | None = None


def guilty(host: int, failures: Iterable[Failure], *, alone: bool) -> list[int]:
    """Return the different tasks whose failures speak against `host`; pure.

    `failures` are those of all hosts; `alone`: no other host could run what this one can.
    """
    failures = list(failures)
    proven = {one.work for one in failures if one.proven}
    elsewhere = {one.work for one in failures if one.host != host} - proven
    here = [one for one in failures if one.host == host]
    certain = {one.task for one in here if one.sure or one.work in proven}
    doubtful = [one for one in here if not alone and one.work not in elsewhere]
    if len({one.user for one in doubtful}) >= USERS:
        certain |= {one.task for one in doubtful}
    return sorted(certain)


def learn(closings: Sequence[Closing], quarantine_after: int) -> None:
    """Note what attempts that ended say of their hosts, and quarantine those that enough speaks against.

    Two statements on a small table where none failed at once. Runs in the caller's transaction.
    """
    now = clock.now()
    bad = [
        one for one in closings if one.blame and one.failed_at_once(now) and one.end.code not in NOT_THE_HOST
    ]
    good = [one for one in closings if one.end.outcome == Attempt.Outcome.SUCCEEDED]
    if good:
        _clear(good)
    if bad:
        Strike.objects.filter(at__lte=now - REMEMBERED).delete()
        Strike.objects.bulk_create(_strikes(bad, now))
        if quarantine_after > 0:
            _judge({host for one in bad for host in one.blame}, quarantine_after, now)


def _strikes(bad: Iterable[Closing], now: datetime) -> Iterable[Strike]:
    for one in bad:
        lasted_s = (now - one.attempt.created_at).total_seconds()
        facts = {"work": work_of(one.attempt.task), "at": now, "sure": one.end.code in SURE}
        for host in sorted(one.blame):
            yield Strike(host_id=host, task=one.attempt.task, lasted_s=lasted_s, **facts)


def _clear(good: Sequence[Closing]) -> None:
    """Forget what spoke against hosts that can run tasks, and keep that this work is not at fault itself."""
    gangs = rows.among(one.attempt.pk for one in good)
    Strike.objects.filter(host__in=Instance.objects.filter(gang__in=gangs).values("host")).delete()
    Strike.objects.filter(work__in={work_of(one.attempt.task) for one in good}).update(proven=True)


def work_of(task: Task) -> str:
    """Return what is the same for the tasks of one user that run the same."""
    runs = [task.config.get(name) for name in ("start_cmd", "image_full_name")]
    text = json.dumps([task.user_id, task.code_id, task.dataset_id, *runs])
    return hashlib.sha256(text.encode()).hexdigest()


def _judge(hosts: Iterable[int], quarantine_after: int, now: datetime) -> None:
    """Take out those of the hosts that enough speaks against; what is remembered is read once for all of them."""
    told = _remembered()
    tasks_on: dict[int, set[int]] = defaultdict(set)
    for one in told:
        tasks_on[one.host].add(one.task)
    suspects = [host for host in hosts if len(tasks_on[host]) >= quarantine_after]
    for host in Host.objects.filter(pk__in=suspects, state=HostState.READY).order_by("pk"):
        failures = _since_looked_at(host, told)
        lasted = {one.work: one for one in failures if one.host == host.pk and not (one.sure or one.proven)}
        runs_well = _run_elsewhere(host.pk, lasted, now) if lasted else frozenset()
        if runs_well:
            Strike.objects.filter(work__in=runs_well).update(proven=True)
            told = _remembered()
            failures = _since_looked_at(host, told)
        alone = _is_alone(host)
        tasks = guilty(host.pk, failures, alone=alone)
        if len(tasks) >= quarantine_after:
            _take_out(host, tasks, now, alone=alone)


def _remembered() -> list[Failure]:
    names = ("host_id", "task_id", "task__user_id", "work", "sure", "proven", "lasted_s", "at")
    return [
        Failure(
            host=host, task=task, user=user, work=work, sure=sure, proven=proven, lasted_s=lasted_s, at=at
        )
        for host, task, user, work, sure, proven, lasted_s, at in Strike.objects.order_by("id").values_list(
            *names
        )
    ]


def _since_looked_at(host: Host, told: Iterable[Failure]) -> list[Failure]:
    """Return the failures of all hosts; of this one only what came since an operator looked at it."""
    return [
        one for one in told if one.host != host.pk or (one.at is not None and one.at > host.state_changed_at)
    ]


def _run_elsewhere(host: int, lasted: Mapping[str, Failure], now: datetime) -> frozenset[str]:
    """Return the work, of that which failed here, that runs on other hosts for longer already than it lasted here."""
    users = {one.user for one in lasted.values()}
    here = Instance.objects.filter(host=host).exclude(phase=Instance.Phase.GONE).values("gang")
    running = Attempt.objects.filter(ended_at=None, task__state=State.RUNNING, task__user__in=users)
    found = set()
    for attempt in running.exclude(pk__in=here).select_related("task").order_by("-id")[:RUNNING_READ]:
        failed = lasted.get(work_of(attempt.task))
        age_s = (now - (attempt.running_at or now)).total_seconds()
        if failed and age_s > failed.lasted_s + LONGER_S:
            found.add(failed.work)
    return frozenset(found)


def _is_alone(host: Host) -> bool:
    """Say whether no other host that is in use has a card of the types of this one."""
    types = Card.objects.filter(host=host).values("gpu_type")
    others = Card.objects.filter(gpu_type__in=types, state=Card.State.OK).exclude(host=host)
    return not others.filter(host__state=HostState.READY, host__lost_since=None).exists()


def _take_out(host: Host, tasks: Sequence[int], now: datetime, *, alone: bool) -> None:
    args = {"failed": list(tasks[:NAMED])}  # the first: they stay the same while more fail
    if alone:  # without it nobody could run what it can, for what may be over in a moment
        log.warning("host %s is not quarantined, no other has its cards: tasks %s failed there", host, tasks)
        host_events.note_once(host.pk, "spared", {**args, "alone": True}, now)
        return
    in_use = Host.objects.filter(state__in=(HostState.READY, HostState.QUARANTINED)).count()
    out = Host.objects.filter(state=HostState.QUARANTINED).count()
    if out >= max(1, in_use // AT_MOST_OF):
        log.warning(
            "host %s is not quarantined, %d of %d are: tasks %s failed there", host, out, in_use, tasks
        )
        host_events.note_once(host.pk, "spared", args, now)
    elif host_moves.move(host.pk, HostState.READY, HostState.QUARANTINED, args=args):
        log.warning("host %s is quarantined: tasks %s failed at start there", host, tasks)
