"""What happened to one task: its events as a time line, its attempts with hosts and cards."""

from collections import defaultdict
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.utils import timezone
from django.utils.formats import date_format
from django.utils.translation import gettext as _

from cluster import clock, logs, stuck
from cluster.host_sentences import shown
from cluster.models import CardLease, Instance
from jobs import endings, losses, task_events
from jobs.durations import hms
from jobs.models import Attempt, Task, TaskEvent
from jobs.portal import causes, rows, words
from jobs.why import SAYS_ITSELF
from quotas import access

EVENTS_SHOWN = 100  # a task that was evicted a thousand times still has a page; the newest matter
ATTEMPTS_SHOWN = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """One entry of the time line."""

    at: datetime
    said: str
    colour: str
    actor: str
    cause: causes.Cause | None
    rule: str
    attempt: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """One instance of an attempt."""

    rank: int
    host: str
    cards: str
    phase: str
    said: str  # how it ended, or why it did not start
    commit: str  # of the code that it runs
    trouble: str  # that it will not die, or what its host says is wrong with itself, while it is there
    log_bytes: int
    log_removed: str  # that and when its log was removed, in a sentence; blank: it was not
    log_full: bool  # it took as much as a log may hold; what came after is not kept


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One attempt."""

    id: int
    number: int
    class_label: str
    class_colour: str
    cards: int
    gpu_type: str
    created_at: datetime  # its cards were given to it
    running_at: datetime | None
    told_at: datetime | None  # it was told to leave
    ended_at: datetime | None
    lasted: timedelta
    status: rows.Status
    said: str
    advice: str  # what its owner can do about its end
    cause: causes.Cause | None  # the task that it was evicted for
    rule: str  # by which it was chosen
    lost: str  # what that cost, in a sentence
    commit: str  # of its code, where that is from git
    members: list[Member]

    @property
    def lasts(self) -> rows.Lasting | None:
        """Return how long it has its cards; None where it gave them back."""
        return None if self.ended_at else rows.Lasting.since(self.created_at)

    @property
    def duration(self) -> str:
        """Return how long it had its cards, as h:mm:ss."""
        return hms(self.lasted)

    @property
    def card_hours(self) -> float:
        """Return the card-hours used so far."""
        return self.cards * self.lasted.total_seconds() / 3600


def moments(task: Task, user: access.AnyUser) -> list[Moment]:
    """Return the newest events of a task, newest first."""
    found = task.events.select_related("actor", "attempt").order_by("-pk")[:EVENTS_SHOWN]
    listed = list(found)
    named = causes.named({pk for event in listed if (pk := _cause_id(event))}, user)
    return [_moment(event, named) for event in listed]


def _moment(event: TaskEvent, named: dict[int, causes.Cause]) -> Moment:
    return Moment(
        at=event.at,
        said=task_events.sentence(event.code, event.args, event.new_state),
        colour=words.COLOURS.get(event.new_state, "secondary"),
        actor=event.actor.get_username() if event.actor else "",
        cause=named.get(_cause_id(event) or 0),
        rule=task_events.rule(event.args),
        attempt=event.attempt.number if event.attempt else None,
    )


def _cause_id(event: TaskEvent) -> int | None:
    value = event.args.get("for")
    return value if isinstance(value, int) else None


def attempts(task: Task, user: access.AnyUser) -> list[Run]:
    """Return the newest attempts of a task, newest first, with their instances."""
    found = list(task.attempts.select_related("gpu_type").order_by("-number")[:ATTEMPTS_SHOWN])
    members = _members([attempt.pk for attempt in found])
    named = causes.named({attempt.evicted_for_id for attempt in found if attempt.evicted_for_id}, user)
    return [_run(task, attempt, members[attempt.pk], named) for attempt in found]


def _run(task: Task, attempt: Attempt, members: list[Member], named: dict[int, causes.Cause]) -> Run:
    kind = attempt.task_class
    outcome = attempt.outcome or ("evicting" if attempt.ending == Attempt.Outcome.EVICTED else "")
    state = outcome or ("stopping" if attempt.ending else "running" if attempt.running_at else "starting")
    return Run(
        id=attempt.pk,
        number=attempt.number,
        class_label=str(words.CLASSES.get(kind, kind)),
        class_colour=words.CLASS_COLOURS.get(kind, "secondary"),
        cards=attempt.cards,
        gpu_type=attempt.gpu_type.name,
        created_at=attempt.created_at,
        running_at=attempt.running_at,
        told_at=attempt.ending_at,
        ended_at=attempt.ended_at,
        lasted=max((attempt.ended_at or clock.now()) - attempt.created_at, timedelta()),
        status=rows.status(state),
        said=_ended_so(attempt),
        advice=endings.advice(attempt.outcome_code or attempt.ending_code),
        cause=named.get(attempt.evicted_for_id or 0),
        rule=task_events.rule({"rule": attempt.evict_rule}),
        lost=losses.said(attempt, task),
        commit=next((member.commit for member in members if member.commit), ""),
        members=members,
    )


def _ended_so(attempt: Attempt) -> str:
    """Return why the attempt ended where its outcome does not say so itself."""
    code = attempt.outcome_code or attempt.ending_code
    if code in SAYS_ITSELF:
        return ""
    return endings.sentence(code, attempt.outcome_args)


def _members(attempt_ids: list[int]) -> defaultdict[int, list[Member]]:
    found: defaultdict[int, list[Member]] = defaultdict(list)
    numbers = _card_numbers(attempt_ids)
    instances = Instance.objects.filter(gang__in=attempt_ids).select_related("host").order_by("gang", "rank")
    for instance in instances.defer("spec", "secrets"):
        found[instance.gang].append(
            Member(
                rank=instance.rank,
                host=instance.host.name,
                cards=ranges(numbers[instance.pk]),
                phase=instance.get_phase_display(),
                said=_end_of(instance),
                commit=instance.commit,
                trouble=_trouble(instance),
                log_bytes=instance.log_bytes,
                log_removed=_removal_of(instance),
                log_full=instance.log_bytes > logs.LOG_AT_MOST - logs.PART_AT_MOST,
            )
        )
    return found


def _trouble(instance: Instance) -> str:
    """Return what is wrong with an instance that is there, or with its host."""
    if instance.phase == Instance.Phase.GONE:
        return ""
    asked_at, lost_since = instance.stop_asked_at, instance.host.lost_since
    stuck_so = stuck.sentence(instance.phase, asked_at, lost_since, clock.now())
    return stuck_so or shown(instance.host.trouble)


def _removal_of(instance: Instance) -> str:
    if instance.log_removed_at is None:
        return ""
    on = date_format(timezone.localtime(instance.log_removed_at), "Y-m-d")
    return _("The log was removed on %(date)s.") % {"date": on}


def _card_numbers(attempt_ids: list[int]) -> defaultdict[Any, list[int]]:
    numbers: defaultdict[Any, list[int]] = defaultdict(list)
    leases = CardLease.objects.filter(instance__gang__in=attempt_ids).order_by("card__index")
    for instance, index in leases.values_list("instance", "card__index"):
        numbers[instance].append(index)
    return numbers


def _end_of(instance: Instance) -> str:
    if instance.exit_signal is not None:
        return _("signal %(number)d") % {"number": instance.exit_signal}
    if instance.exit_code is not None:
        return _("exit code %(number)d") % {"number": instance.exit_code}
    return shown(instance.detail)


def ranges(numbers: list[int]) -> str:
    """Return ascending card numbers in the shortest form: `0–3, 6`."""
    spans: list[list[int]] = []
    for number in numbers:
        if spans and number == spans[-1][1] + 1:
            spans[-1][1] = number
        else:
            spans.append([number, number])
    return ", ".join(str(low) if low == high else f"{low}–{high}" for low, high in spans)
