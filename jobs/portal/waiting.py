"""Why a task waits, for its page: the pass's reason, what could be done, and the hosts counted by why not."""

from dataclasses import dataclass

from django.contrib.auth.models import User
from django.db.models import Q
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy, ngettext_lazy

from cluster import inventory
from jobs import use
from jobs.elsewhere import MPIJOB
from jobs.engine import hosts_for
from jobs.models import Attempt, Task
from jobs.portal import causes, rows
from jobs.scheduling.reasons import SENTENCES, Advice, Reason
from jobs.scheduling.survey import Seen, Why
from jobs.states import WAITING
from jobs.why import waits_because
from quotas.models import Quota

LEAVERS_NAMED = 5
GATED = frozenset({"hold", "dependency", "not_before", "backoff"})  # no host could change that
TAGS: dict[Advice, tuple[Promise, str]] = {
    "wait": (gettext_lazy("wait"), "azure"),
    "change": (gettext_lazy("change it"), "purple"),
    "ask": (gettext_lazy("ask operators"), "orange"),
}
HOSTS: dict[Why, tuple[Advice, Promise]] = {
    "free": ("wait", gettext_lazy("have enough free cards")),
    "soft": ("wait", gettext_lazy("would have enough without their elastic tasks and kept places")),
    "held": ("wait", gettext_lazy("have enough, but hold them for other tasks")),
    "busy": ("wait", gettext_lazy("have too few free cards: tasks are on them")),
    "small": ("change", gettext_lazy("have fewer cards than it asks on one host")),
    "offers": ("ask", gettext_lazy("cannot run it: no container engine, no plain processes, or no ceph")),
    "avoided": ("change", gettext_lazy("are avoided: it failed there at once")),
    "region": ("change", gettext_lazy("stand in another region")),
    "cordoned": ("ask", gettext_lazy("take no starts: cordoned")),
    "draining": ("ask", gettext_lazy("take no starts: draining")),
    "quarantined": ("ask", gettext_lazy("take no starts: quarantined after failures")),
    "lost": ("ask", gettext_lazy("do not answer")),
}
NO_MPIJOBS = gettext_lazy("cannot run it: their cluster's controller runs no MPIJobs that people bring")
COUNTED = ngettext_lazy("%(hosts)d host", "%(hosts)d hosts", "hosts")


@dataclass(frozen=True, slots=True, kw_only=True)
class Tag:
    """Whether there is something to do about it: wait, change the task, ask operators."""

    label: Promise
    colour: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HostLine:
    """Hosts that are alike for the task."""

    counted: str  # "3 hosts"
    hosts: int
    said: Promise
    free: int
    most: int
    tag: Tag


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaLine:
    """What the task's business holds of its quota of one type."""

    gpu_type: str
    region: str  # blank: in all of them
    used: int
    limit: int

    @property
    def over(self) -> int:
        """Return by how much the quota is exceeded."""
        return max(0, self.used - self.limit)

    @property
    def left(self) -> int:
        """Return what may still be taken; it is never less than nothing."""
        return max(0, self.limit - self.used)


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """All that keeps a task from starting."""

    said: str  # blank: no pass saw it yet
    tag: Tag | None
    advice: str
    head: causes.Cause | None  # the task that it has to wait for
    leaving: list[causes.Cause]  # tasks that leave for it
    more_leaving: int
    quotas: list[QuotaLine]
    hosts: list[HostLine]
    asked: int  # cards on one host


def why(task: Task, user: User) -> Waiting | None:
    """Return why a task waits; None where it does not."""
    if task.state not in WAITING:
        return None
    known = task.reason_code in SENTENCES
    leavers = _leavers(task) if task.reason_code == "leaving" else []
    head = task.reason_args.get("head")
    named = causes.named([*leavers[:LEAVERS_NAMED], *([head] if isinstance(head, int) else [])], user)
    return Waiting(
        said=waits_because(task),
        tag=_tag(Reason(task.reason_code).advice[0]) if known else None,
        advice=rows.advice(task),
        head=named.get(head) if isinstance(head, int) else None,
        leaving=[named[pk] for pk in leavers[:LEAVERS_NAMED] if pk in named],
        more_leaving=max(0, len(leavers) - LEAVERS_NAMED),
        quotas=_quotas(task) if "quota" in task.reason_code else [],
        hosts=[]
        if task.reason_code in GATED
        else [_line(seen, task.needs) for seen in hosts_for.hosts_for(task)],
        asked=task.host_gpu_num,
    )


def _tag(advice: Advice) -> Tag:
    label, colour = TAGS[advice]
    return Tag(label=label, colour=colour)


def _line(seen: Seen, needs: str) -> HostLine:
    advice, said = HOSTS[seen.why]
    if seen.why == "offers" and needs == MPIJOB:
        said = NO_MPIJOBS
    counted = str(COUNTED % {"hosts": seen.hosts})
    return HostLine(
        counted=counted, hosts=seen.hosts, said=said, free=seen.free, most=seen.most, tag=_tag(advice)
    )


def _leavers(task: Task) -> list[int]:
    """Return the tasks that were told to leave for this one and are not gone."""
    open_ones = Attempt.objects.filter(evicted_for=task, ended_at=None)
    return list(open_ones.order_by("task_id").values_list("task_id", flat=True))


def _quotas(task: Task) -> list[QuotaLine]:
    """Return what the task's cards would count against, in the order of its types; over-use without a row too."""
    rows_ = Quota.objects.filter(business=task.business_id, gpu_type__in=task.gpu_types)
    if task.region_id is not None:
        rows_ = rows_.filter(Q(region=None) | Q(region=task.region_id))
    limits: dict[tuple[int, int | None], tuple[str, int]] = {
        (row.gpu_type_id, row.region_id): (row.region.name if row.region else "", row.cards)
        for row in rows_.select_related("region")
    }
    used, names = use.by_business([task.business_id]), inventory.type_names()
    for gpu_type in task.gpu_types:
        if used.high(task.business_id, gpu_type, None):
            limits.setdefault((gpu_type, None), ("", 0))
    return [
        QuotaLine(
            gpu_type=names.get(gpu_type, f"#{gpu_type}"),
            region=place,
            used=used.high(task.business_id, gpu_type, region),
            limit=cards,
        )
        for (gpu_type, region), (place, cards) in sorted(
            limits.items(), key=lambda item: (task.gpu_types.index(item[0][0]), item[0][1] or 0)
        )
    ]
