"""`wait`: whoever asks for what comes next is held until it is there, without a thread or a connection of his own."""

import asyncio
import re
from collections import Counter
from collections.abc import Coroutine, MutableMapping
from dataclasses import dataclass
from importlib import import_module
from io import BytesIO
from typing import Any

from django.conf import settings
from django.contrib import auth
from django.core.handlers.asgi import ASGIRequest
from django.http import QueryDict

from cluster import hub, logs, threads
from cluster.models import Instance
from jobs.api import queries
from jobs.api.asking import BUSY, LONGEST_WAIT_S
from jobs.api.authentication import user_of
from jobs.models import Task, TaskEvent

PATH = re.compile(r"/api/v1/tasks/(\d{1,18})/(events|log)/", re.ASCII)
MOST_OF_ONE, MOST_OF_ALL = 200, 4000  # who wait in one process
KNOWN = {
    "events": {each.name for each in queries.EVENTS_QUERY},
    "log": {each.name for each in queries.LOG_QUERY},
}
LOOK_S = 5.0  # a look at least so often: news may be lost
CALM_S = 0.1  # more of a log comes in this time
Message = MutableMapping[str, Any]

_held: Counter[int] = Counter()  # calls that wait, by user


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What a call waits for."""

    task: int
    kind: str  # events or log
    since: int  # the last event known, or the bytes
    attempt: int  # its number; 0: the last
    rank: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """Whether something is there already; if not, which topics tell of it."""

    user: int
    there: bool
    topics: tuple[str, ...] = ()


def pause(scope: Message) -> Coroutine[Any, Any, None] | None:
    """Return what to await before the call is answered; None where it waits for nothing.

    A call that is not clear, or nobody's, is not held: its view says what is wrong.
    """
    found = PATH.fullmatch(scope["path"])
    if found is None or scope["method"] != "GET" or b"wait=" not in scope["query_string"]:
        return None
    query = QueryDict(scope["query_string"])
    seconds = _number(query, "wait")
    numbers = {name: _number(query, name) for name in ("after", "offset", "attempt", "rank")}
    strange = set(query) - KNOWN[found[2]]
    if not seconds or seconds > LONGEST_WAIT_S or None in numbers.values() or strange:
        return None
    known = {name: number or 0 for name, number in numbers.items()}
    kind = found[2]
    since = known["after" if kind == "events" else "offset"]
    asked = Asked(task=int(found[1]), kind=kind, since=since, attempt=known["attempt"], rank=known["rank"])
    return _pause(scope, asked, float(seconds))


def _number(query: QueryDict, name: str) -> int | None:
    """Return a number of the query, 0 where it names none, None for what is no number, or several."""
    several = {text.strip() for text in query.getlist(name)} or {""}
    given = several.pop()
    if several or not given:
        return None if several else 0
    return int(given) if given.isascii() and given.isdigit() and len(given) < 19 else None


async def _pause(scope: Message, asked: Asked, seconds: float) -> None:
    mark, until = hub.mark(), asyncio.get_running_loop().time() + seconds
    look = await threads.run(_look, dict(scope), asked)
    if look is None or look.there:
        return
    if _held[look.user] >= MOST_OF_ONE or _held.total() >= MOST_OF_ALL:
        scope[BUSY] = True
        return
    _held[look.user] += 1
    try:
        await _listen(scope, asked, look, mark, until)
    finally:
        _held[look.user] -= 1
        if not _held[look.user]:
            del _held[look.user]


async def _listen(scope: Message, asked: Asked, look: Look, mark: hub.Mark, until: float) -> None:
    clock = asyncio.get_running_loop().time
    async with hub.listen(*look.topics, read_after=mark) as listener:
        while (left := until - clock()) > 0:
            changed = await listener.changed(min(left, LOOK_S))
            if changed:
                await asyncio.sleep(min(CALM_S, max(0.0, until - clock())))
            now = await threads.run(_look, dict(scope), asked)
            if now is None or now.there or now.topics != look.topics:
                return


def _look(scope: Message, asked: Asked) -> Look | None:
    """Look whether something is there; None where the view has to say that there is no such task, for this caller."""
    user = _user(scope)
    if user is None:
        return None
    task = Task.objects.visible_to(user).filter(pk=asked.task).only("id", "state").first()
    if task is None:
        return None
    return _events(user.pk, task, asked) if asked.kind == "events" else _log(user.pk, task, asked)


def _events(user: int, task: Task, asked: Asked) -> Look:
    come = TaskEvent.objects.filter(task=task, pk__gt=asked.since).exists()
    return Look(user=user, there=come or task.is_over, topics=(f"task.{task.pk}",))


def _log(user: int, task: Task, asked: Asked) -> Look:
    attempts = (
        task.attempts.filter(number=asked.attempt) if asked.attempt else task.attempts.order_by("-number")
    )
    attempt = attempts.only("id", "ended_at").first()
    if attempt is None:
        return Look(user=user, there=task.is_over, topics=(f"task.{task.pk}",))
    member = Instance.objects.filter(gang=attempt.pk, rank=asked.rank).values_list("id", flat=True).first()
    come = member is None or logs.end_of(member) > asked.since
    over = attempt.ended_at is not None
    return Look(user=user, there=come or over, topics=(f"log.{attempt.pk}", f"task.{task.pk}"))


def _user(scope: Message) -> Any:
    """Return who asks, by token or session; None for nobody."""
    request = ASGIRequest(dict(scope), BytesIO())
    secret = request.headers.get("Authorization", "")
    if secret:
        return user_of(secret)
    session: Any = import_module(settings.SESSION_ENGINE)
    request.session = session.SessionStore(request.COOKIES.get(settings.SESSION_COOKIE_NAME))
    found = auth.get_user(request)
    return found if found.is_authenticated else None
