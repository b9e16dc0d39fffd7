"""Whom it hits if an operator takes a host out: the scheduler's own dry run, in the words of its tasks."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from cluster.host_states import State
from cluster.models import Host
from jobs.engine import ask, rehearsal
from jobs.engine.rehearsal import Rehearsal
from jobs.models import Task
from jobs.scheduling.types import Running
from jobs.simulation import clearing
from jobs.simulation.clearing import EndSource

LOOK_S = 2.0  # at most, at when evicted tasks run again
TRIED: Mapping[State, State] = {  # what hits tasks; the others give hosts back
    State.CORDONED: State.CORDONED,
    State.DRAINING: State.DRAINING,
    State.REMOVED: State.CORDONED,  # what runs there is ended apart from any pass
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """A task that is named in a preview."""

    id: int
    flag: str
    business: str
    user: str
    task_class: str
    cards: int  # on this host
    lost_card_hours: float  # of work that it does again
    again: bool = False  # it is queued again
    back_at: datetime | None = None  # when it runs again, where that was seen …
    back_on: str = ""  # … and on which hosts
    ends_at: datetime | None = None  # when it ends, where that is known …
    source: EndSource = ""  # … and from what


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    """What changes for tasks if the host goes into another state."""

    leavers: list[Hit]  # they are evicted
    lost: list[Hit]  # they end as lost
    stayers: list[Hit]  # they go on there
    elsewhere: list[Hit]  # evicted from other hosts, because this one is not offered
    put_off: int  # tasks that would start there now and have to wait
    moved: int  # tasks that would start there now and start elsewhere

    @property
    def free_at(self) -> datetime | None:
        """Return when the last of those that stay ends; None where nobody knows, or none stays."""
        ends = [hit.ends_at for hit in self.stayers]
        known = [at for at in ends if at is not None]
        return max(known) if known and len(known) == len(ends) else None


def preview(host: Host, new: State) -> Preview | None:
    """Return whom it hits if the host goes into `new`; None where no task is hit by that."""
    if new not in TRIED:
        return None
    known = rehearsal.current()
    until = time.monotonic() + LOOK_S
    effect = clearing.clear(
        known.snapshot,
        known.policy,
        known.lengths(),
        host.pk,
        TRIED[new].value,
        enough=lambda: time.monotonic() >= until,
    )
    names = _Names(known, effect)
    stayers = [
        names.hit(row.task, row.cards, ends_at=_moment(row.ends_at), source=row.source)
        for row in effect.stayers
    ]
    return Preview(
        leavers=[names.leaver(row) for row in effect.leavers],
        lost=stayers if new == State.REMOVED else [],
        stayers=[] if new == State.REMOVED else stayers,
        elsewhere=[names.hit(row.task, known.running[row.task].cards) for row in effect.elsewhere],
        put_off=len(effect.put_off),
        moved=len(effect.moved),
    )


class _Names:
    """The names of the tasks and hosts of an effect; one query."""

    def __init__(self, known: Rehearsal, effect: clearing.Effect) -> None:
        self._known = known
        ids = [row.task for row in effect.leavers] + [row.task for row in effect.stayers]
        ids += [row.task for row in effect.elsewhere]
        rows = Task.objects.filter(pk__in=ids)
        columns = ("pk", "task_flag", "business__flag", "user__username")
        self._tasks = {pk: names for pk, *names in rows.values_list(*columns)}

    def hit(self, task: int, cards: int, **more: object) -> Hit:
        runner: Running = self._known.running[task]
        flag, business, user = self._tasks.get(task, ("?", "?", "?"))
        return Hit(
            id=task,
            flag=flag,
            business=business,
            user=user,
            task_class=runner.task_class,
            cards=cards,
            lost_card_hours=ask.lost_card_hours(runner, self._known.snapshot.now),
            again=runner.pull_up,
            **more,  # type: ignore[arg-type]  # fields of it
        )

    def leaver(self, row: clearing.Leaver) -> Hit:
        hosts = self._known.snapshot.host_names
        where = ", ".join(f"{hosts.get(host, '?')} × {cards}" for host, cards in row.where.items())
        back_at = _moment(row.back.start) if row.back else None
        return self.hit(row.task, row.cards, back_at=back_at, back_on=where)


def _moment(epoch: float | None) -> datetime | None:
    return None if epoch is None else datetime.fromtimestamp(epoch, UTC)
