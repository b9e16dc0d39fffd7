"""The parts of live pages: made once for all who would get the same, by few threads, when a thousand pages ask.

A change makes all pages that show it ask at once. Here the questions wait for one of a few threads, in which all of
Django runs; who asks for the same meanwhile, or a moment later, gets the same bytes. Who that may be is known from the
sockets (readers.py), sessions (looked_up.py) and, for the page of a task, the answer (audience.py). Lists that are
not the same share what they have in common (known.py). Free cards come by a shorter way still (crowd.py).
"""

import asyncio
import re
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from http import HTTPStatus

from django.http import QueryDict

from cluster import hub, lane, threads, whole
from jobs.portal import audience, known, looked_up, present
from jobs.portal.audience import Audience
from jobs.portal.readers import Reader, browser_of

CALM_S = 0.25  # in a storm of changes the same is made so often at most
FRESH_S = 1.0  # anything else than the topic, such as the time, may have changed after this

Sent = tuple[lane.Message, lane.Message]


@dataclass(frozen=True, slots=True)
class Made:
    """What was made for one reader, and who else may get it."""

    sent: Sent
    audience: Audience | None  # None: all who ask with the same key


def _everybody(_query: bytes, _reader: Reader, _secret: str | None) -> Hashable:
    return None


def _same_businesses(query: bytes, reader: Reader, _secret: str | None) -> Hashable:
    """Return what decides what a list shows: a list of somebody's own tasks says `user=me` to each of them."""
    return reader.user_id if "user" in QueryDict(query) else reader.kind


def _same_browser(_query: bytes, reader: Reader, secret: str | None) -> Hashable:
    """Return who asks, and the secret that forms of his browser show."""
    return reader.user_id, secret


@dataclass(frozen=True, slots=True)
class Part:
    """Parts at addresses of one form."""

    path: re.Pattern[str]
    topic: str  # that says that it changed; {0}: the number in its path
    alike: Callable[[bytes, Reader, str | None], Hashable]  # equal for readers who get the same
    target: str | None = None  # of htmx; None: any

    def fits(self, scope: lane.Message, target: str) -> "re.Match[str] | None":
        """Return whether it is what is asked for, with the number in the path."""
        return self.path.fullmatch(scope["path"]) if self.target in {None, target} else None


PARTS = (
    Part(re.compile(r"/scheduler/"), "", _everybody),
    Part(re.compile(r"/tasks/"), "tasks", _same_businesses, target="list"),
    Part(re.compile(r"/tasks/([0-9]+)/"), "task.{0}", _everybody),  # the answer says who reads it alike
    Part(re.compile(r"/|/cluster/scheduler/"), "tasks", _same_browser),
    Part(re.compile(r"/(?:hosts|businesses)/(?:[0-9]+/)?"), "cards", _same_browser),
)


def before(application: lane.Application) -> lane.Application:
    """Return `application` with the questions for parts of live pages taken out of its way."""

    async def route(scope: lane.Message, receive: lane.Receive, send: lane.Send) -> None:
        headers = dict(scope["headers"]) if scope["type"] == "http" and scope["method"] == "GET" else {}
        if headers.get(b"hx-request") != b"true" or b"hx-history-restore-request" in headers:
            return await application(scope, receive, send)
        target = headers.get(b"hx-target", b"").decode("latin-1")
        for part in PARTS:
            if found := part.fits(scope, target):
                for message in await _answer(part, part.topic.format(*found.groups()), scope, target):
                    await send(message)
                return
        await application(scope, receive, send)

    return route


async def _answer(part: Part, topic: str, scope: lane.Message, target: str) -> Sent:
    browser = browser_of(scope)
    reader = await looked_up.reader(browser)
    if reader is None:
        return await _answers().alone(scope)
    query = scope["query_string"]
    key = (scope["path"], query, target, browser.language, part.alike(query, reader, browser.secret))
    return await _answers().alike(key, topic, scope, reader)


class _Answer:
    """One answer on its way, or made a moment ago."""

    making: "asyncio.Task[Made]"

    def __init__(self, topic: str, scope: lane.Message, reader: Reader) -> None:
        self.scope, self.reader = scope, reader  # of who asked for it
        self.topic = topic
        self.made_at: float | None = None  # on the clock of the loop; None: nothing was read for it yet
        self.mark: hub.Mark = None

    def is_right(self) -> bool:
        """Say whether it holds what is known by now; where nothing is heard, what was known a moment ago will do."""
        if self.made_at is None:
            return True
        if asyncio.get_running_loop().time() > self.made_at + FRESH_S:
            return False
        return not self.topic or not hub.hears() or not hub.heard(self.topic, self.mark)


@dataclass(slots=True)
class _Moment:
    """A while in which nothing was heard of a topic: what was read in it for one holds for all."""

    until: float
    mark: hub.Mark
    read: known.Known = field(default_factory=known.Known)


class Answers:
    """The answers of the last moment, of one event loop."""

    def __init__(self) -> None:
        """Begin with none."""
        # Who waits does so here and not for a thread: what is read only then holds all that changed until then.
        self._free = asyncio.Semaphore(threads.PAGES)
        self._found: dict[Hashable, _Answer] = {}
        self._moments: dict[str, _Moment] = {}

    async def alike(self, key: Hashable, topic: str, scope: lane.Message, reader: Reader) -> Sent:
        """Return what all get who ask with the same key, of those who read the answer alike."""
        found = self._found.get(key)
        if found is None or not found.is_right():
            found = self._begin(key, found, _Answer(topic, scope, reader))
        # Whoever hangs up breaks nothing off for the others.
        made = found.making.result() if found.making.done() else await asyncio.shield(found.making)
        if found.scope is scope:
            return made.sent
        if not _is_for_all(made.sent):
            mine = (key, reader)  # a refusal says nothing of what others would get
            return await (
                self.alone(scope) if reader == found.reader else self.alike(mine, topic, scope, reader)
            )
        group = made.audience.group(reader) if made.audience else None
        if made.audience is None or group == made.audience.group(found.reader):
            return made.sent
        return await self.alike((key, made.audience, group), topic, scope, reader)

    async def alone(self, scope: lane.Message) -> Sent:
        """Return what is for the one who asks."""
        async with self._free:
            return (await threads.run_for_pages(_made, scope)).sent

    def _begin(self, key: Hashable, last: _Answer | None, found: _Answer) -> _Answer:
        loop = asyncio.get_running_loop()
        calm_s = last.made_at + CALM_S - loop.time() if last and last.made_at else 0.0
        self._found[key] = found
        found.making = loop.create_task(self._make(found, calm_s))
        found.making.add_done_callback(lambda _made: loop.call_later(FRESH_S, self._forget, key, found))
        return found

    async def _make(self, found: _Answer, calm_s: float) -> Made:
        await asyncio.sleep(max(0.0, calm_s))
        async with self._free:
            found.made_at = asyncio.get_running_loop().time()
            found.mark = hub.mark()  # what is heard from here on makes it old
            now = self._moment(found.topic, found.made_at, found.mark)
            more = {known.IN_SCOPE: now.read, present.IN_SCOPE: found.reader}
            return await threads.run_for_pages(_made, {**found.scope, **more})

    def _moment(self, topic: str, at: float, mark: hub.Mark) -> _Moment:
        moment = self._moments.get(topic)
        if moment is None or at > moment.until or hub.heard(topic, moment.mark):
            self._moments = {name: one for name, one in self._moments.items() if at <= one.until}
            moment = self._moments[topic] = _Moment(at + FRESH_S / 4, mark)
        return moment

    def _forget(self, key: Hashable, answer: _Answer) -> None:
        if self._found.get(key) is answer:
            del self._found[key]


def _made(scope: lane.Message) -> Made:
    response = whole.answer(scope)
    return Made(lane.messages(response), audience.told(response))


def _is_for_all(answer: Sent) -> bool:
    """Say whether it is no refusal, and tells the browser of whoever asked nothing to keep."""
    start, _body = answer
    names = {name for name, _value in start["headers"]}
    return start["status"] == HTTPStatus.OK and b"set-cookie" not in names


_of_loops: dict[asyncio.AbstractEventLoop, Answers] = {}


def _answers() -> Answers:
    """Return the answers of the running loop, made at the first call."""
    loop = asyncio.get_running_loop()
    if loop not in _of_loops:
        for closed in [other for other in _of_loops if other.is_closed()]:
            del _of_loops[closed]
        _of_loops[loop] = Answers()
    return _of_loops[loop]
