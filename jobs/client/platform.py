"""The platform as a Python object, to be called or to be awaited."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, Self, cast

import httpx

from jobs.client import calls
from jobs.client.answers import (
    Business,
    Events,
    FreeCards,
    Host,
    LogPart,
    Moved,
    Quota,
    Submitted,
    Task,
    TaskDetail,
    Verdict,
)
from jobs.client.calls import Call
from jobs.client.errors import Unreachable, refusal

OVER = frozenset({"succeeded", "failed", "stopped", "evicted"})  # states that a task never leaves
TIMEOUT = httpx.Timeout(60.0, connect=10.0)  # seconds
TRIES, PAUSE_S = 4, 0.5  # of calls that can be repeated; the pause doubles
MOST_WAIT_S = 60.0  # however long the platform asks to wait
AWAY = frozenset({502, 503, 504})  # what a proxy answers for a platform that is being restarted
HELD_S = 25  # that the platform is asked to hold a call until there is news
PATIENCE_S = 900.0  # with a platform that answered before and is away now
LOOK_S = 2.0  # between two looks where it is away, or holds no call
Filter = str | int | None


def _address(url: str) -> str:
    return f"{url.rstrip('/')}/api/v1/"


def _headers(token: str, language: str) -> dict[str, str]:
    return {"Authorization": f"Token {token}", "Accept-Language": language}


def _request(call: Call) -> dict[str, Any]:
    return {
        "method": call.method,
        "url": call.path,
        "params": dict(call.params) or None,
        "json": call.json,
        "headers": dict(call.headers),
    }


def _pause(call: Call, tried: int, answer: httpx.Response | None) -> float | None:
    """Return how long (seconds) to wait before a call that came to nothing is made again; None: not at all."""
    if tried >= TRIES or not (call.repeatable or (answer is not None and answer.status_code == 429)):
        return None
    if answer is not None and answer.status_code == 429:
        wait = answer.headers.get("Retry-After", "")
        return min(float(wait), MOST_WAIT_S) if wait.isdecimal() else PAUSE_S * pow(2.0, tried)
    if answer is not None and answer.status_code not in AWAY:
        return None
    return PAUSE_S * pow(2.0, tried - 1)


def _away(error: httpx.HTTPError, url: str) -> Unreachable:
    return Unreachable(f"{url} gives no answer: {error or type(error).__name__}")


def _checked(answer: httpx.Response) -> httpx.Response:
    if answer.is_success:
        return answer
    raise refusal(answer)


def _json(answer: httpx.Response) -> Any:
    try:
        return _checked(answer).json()
    except ValueError:
        raise Unreachable(f"{answer.request.url} answers with something that is not JSON") from None


def _part(answer: httpx.Response, offset: int) -> LogPart:
    data = _checked(answer).content
    return LogPart(offset, data, int(answer.headers.get("X-Log-End", offset + len(data))))


class Taiji:
    """A platform, called with an API token. Every call raises errors.Refused or errors.Unreachable."""

    def __init__(
        self, url: str, token: str, *, language: str = "en", transport: httpx.BaseTransport | None = None
    ) -> None:
        """`url` is the platform's own address, `language` that of its sentences; `transport` is for tests."""
        self.http = httpx.Client(
            base_url=_address(url), headers=_headers(token, language), timeout=TIMEOUT, transport=transport
        )

    def __enter__(self) -> Self:
        """Use it in a `with`: connections are closed at its end."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close its connections."""
        self.http.close()

    def submit(
        self, document: Mapping[str, Any], *, origin: int | None = None, key: str | None = None
    ) -> Task:
        """Submit a task. `origin`: a task whose secrets are kept; `key`: the same key makes the same task."""
        return cast(Task, self._ask(calls.submit(document, origin=origin, key=key)))

    def submit_many(
        self, documents: Sequence[Mapping[str, Any]], *, key: str | None = None
    ) -> list[Submitted]:
        """Submit up to 1,000 tasks at once; return the result of each, in their order."""
        return cast(list[Submitted], self._ask(calls.submit_many(documents, key=key))["results"])

    def preview(
        self, document: Mapping[str, Any], *, origin: int | None = None, alternatives: bool = False
    ) -> Verdict:
        """Return what would become of a document, without submitting it."""
        return cast(Verdict, self._ask(calls.preview(document, origin=origin, alternatives=alternatives)))

    def task(self, task_id: int) -> TaskDetail:
        """Return all that may be said of a task."""
        return cast(TaskDetail, self._ask(calls.task(task_id)))

    def tasks(self, **filters: Filter) -> Iterator[Task]:
        """Give the tasks that pass the API's filters (`state=`, `business=`, `user=`, …), page by page."""
        return cast(Iterator[Task], self._pages(calls.tasks(filters)))

    def stop(self, task_id: int) -> Task:
        """Stop a task."""
        return self._steer(task_id, "stop")

    def hold(self, task_id: int) -> Task:
        """Keep a waiting task from starting."""
        return self._steer(task_id, "hold")

    def release(self, task_id: int) -> Task:
        """Let a held task start."""
        return self._steer(task_id, "release")

    def free(self, task_id: int) -> Task:
        """End the kept place of a task."""
        return self._steer(task_id, "free")

    def retry(self, task_id: int) -> Task:
        """Submit the document of a task once more; return the new one."""
        return cast(Task, self._ask(calls.retry(task_id)))

    def steer_many(self, verb: str, ids: Sequence[int] | None = None, **filters: str) -> Moved:
        """Stop, hold, release, free or retry these tasks, or all that match the API's filters."""
        return cast(Moved, self._ask(calls.steer_many(verb, ids, filters)))

    def log(
        self, task_id: int, *, attempt: int | None = None, rank: int = 0, offset: int = 0, wait_s: int = 0
    ) -> LogPart:
        """Return a log from `offset` (bytes) to its present end, of the last attempt by default.

        `wait_s`: where it ends there, wait so long for more, 60 s at most.
        """
        call = calls.log(task_id, attempt=attempt, rank=rank, offset=offset, wait_s=wait_s)
        return _part(self._answer(call), offset)

    def events(self, task_id: int, *, after: int = 0, wait_s: int = 0) -> Events:
        """Return what happened to a task behind the event `after`; `wait_s`: wait so long for it, 60 s at most."""
        return cast(Events, self._ask(calls.events(task_id, after=after, wait_s=wait_s)))

    def wait(self, task_id: int, *, patience_s: float = PATIENCE_S) -> TaskDetail:
        """Return the task once it is over.

        A platform that is away meanwhile is waited for, for `patience_s` at most; one that never answered is not.
        """
        after, heard_at = 0, None
        while True:
            asked_at = time.monotonic()
            try:
                page = self.events(task_id, after=after, wait_s=HELD_S if after else 0)
            except Unreachable:
                if heard_at is None or time.monotonic() - heard_at > patience_s:
                    raise
                time.sleep(LOOK_S)
                continue
            heard_at, after = time.monotonic(), page["last"]
            if page["over"]:
                return self.task(task_id)
            if not page["results"] and heard_at - asked_at < LOOK_S:
                time.sleep(LOOK_S)

    def free_cards(self) -> list[FreeCards]:
        """Return the free cards per region and type."""
        return cast(list[FreeCards], self._ask(Call(path="free-cards/")))

    def quotas(self) -> list[Quota]:
        """Return the quotas of the caller's businesses."""
        return list(self._pages(Call(path="quotas/")))

    def businesses(self) -> list[Business]:
        """Return the businesses that the caller may submit for."""
        return list(self._pages(Call(path="businesses/")))

    def hosts(self) -> Iterator[Host]:
        """Give the hosts with their cards."""
        return cast(Iterator[Host], self._pages(Call(path="hosts/")))

    def _steer(self, task_id: int, verb: str) -> Task:
        return cast(Task, self._ask(calls.steer(task_id, verb)))

    def _pages(self, call: Call) -> Iterator[Any]:
        page = self._ask(call)
        while True:
            yield from page["results"]
            if not page["next"]:
                return
            page = self._ask(Call(path=page["next"]))

    def _ask(self, call: Call) -> Any:
        return _json(self._answer(call))

    def _answer(self, call: Call) -> httpx.Response:
        tried = 0
        while True:
            tried += 1
            answer, error = None, None
            try:
                answer = self.http.request(**_request(call))
            except httpx.HTTPError as failed:
                error = failed
            pause = None if answer is not None and answer.is_success else _pause(call, tried, answer)
            if pause is not None:
                time.sleep(pause)
            elif answer is not None:
                return answer
            elif error is not None:
                raise _away(error, str(self.http.base_url)) from error


class AsyncTaiji:
    """The same to be awaited."""

    def __init__(
        self, url: str, token: str, *, language: str = "en", transport: httpx.AsyncBaseTransport | None = None
    ) -> None:
        """`url` is the platform's own address, `language` that of its sentences; `transport` is for tests."""
        self.http = httpx.AsyncClient(
            base_url=_address(url), headers=_headers(token, language), timeout=TIMEOUT, transport=transport
        )

    async def __aenter__(self) -> Self:
        """Use it in an `async with`: connections are closed at its end."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close its connections."""
        await self.http.aclose()

    async def submit(
        self, document: Mapping[str, Any], *, origin: int | None = None, key: str | None = None
    ) -> Task:
        """Submit a task, as Taiji.submit."""
        return cast(Task, await self._ask(calls.submit(document, origin=origin, key=key)))

    async def submit_many(
        self, documents: Sequence[Mapping[str, Any]], *, key: str | None = None
    ) -> list[Submitted]:
        """Submit up to 1,000 tasks at once, as Taiji.submit_many."""
        return cast(list[Submitted], (await self._ask(calls.submit_many(documents, key=key)))["results"])

    async def preview(
        self, document: Mapping[str, Any], *, origin: int | None = None, alternatives: bool = False
    ) -> Verdict:
        """Return what would become of a document, without submitting it."""
        return cast(
            Verdict, await self._ask(calls.preview(document, origin=origin, alternatives=alternatives))
        )

    async def task(self, task_id: int) -> TaskDetail:
        """Return all that may be said of a task."""
        return cast(TaskDetail, await self._ask(calls.task(task_id)))

    def tasks(self, **filters: Filter) -> AsyncIterator[Task]:
        """Give the tasks that pass the API's filters, page by page."""
        return cast(AsyncIterator[Task], self._pages(calls.tasks(filters)))

    async def stop(self, task_id: int) -> Task:
        """Stop a task."""
        return await self._steer(task_id, "stop")

    async def hold(self, task_id: int) -> Task:
        """Keep a waiting task from starting."""
        return await self._steer(task_id, "hold")

    async def release(self, task_id: int) -> Task:
        """Let a held task start."""
        return await self._steer(task_id, "release")

    async def free(self, task_id: int) -> Task:
        """End the kept place of a task."""
        return await self._steer(task_id, "free")

    async def retry(self, task_id: int) -> Task:
        """Submit the document of a task once more; return the new one."""
        return cast(Task, await self._ask(calls.retry(task_id)))

    async def steer_many(self, verb: str, ids: Sequence[int] | None = None, **filters: str) -> Moved:
        """Steer many tasks, as Taiji.steer_many."""
        return cast(Moved, await self._ask(calls.steer_many(verb, ids, filters)))

    async def log(
        self, task_id: int, *, attempt: int | None = None, rank: int = 0, offset: int = 0, wait_s: int = 0
    ) -> LogPart:
        """Return a log from `offset` (bytes) to its present end, as Taiji.log."""
        call = calls.log(task_id, attempt=attempt, rank=rank, offset=offset, wait_s=wait_s)
        return _part(await self._answer(call), offset)

    async def events(self, task_id: int, *, after: int = 0, wait_s: int = 0) -> Events:
        """Return what happened to a task behind the event `after`, as Taiji.events."""
        return cast(Events, await self._ask(calls.events(task_id, after=after, wait_s=wait_s)))

    async def wait(self, task_id: int, *, patience_s: float = PATIENCE_S) -> TaskDetail:
        """Return the task once it is over, as Taiji.wait."""
        after, heard_at = 0, None
        while True:
            asked_at = time.monotonic()
            try:
                page = await self.events(task_id, after=after, wait_s=HELD_S if after else 0)
            except Unreachable:
                if heard_at is None or time.monotonic() - heard_at > patience_s:
                    raise
                await asyncio.sleep(LOOK_S)
                continue
            heard_at, after = time.monotonic(), page["last"]
            if page["over"]:
                return await self.task(task_id)
            if not page["results"] and heard_at - asked_at < LOOK_S:
                await asyncio.sleep(LOOK_S)

    async def free_cards(self) -> list[FreeCards]:
        """Return the free cards per region and type."""
        return cast(list[FreeCards], await self._ask(Call(path="free-cards/")))

    async def quotas(self) -> list[Quota]:
        """Return the quotas of the caller's businesses."""
        return [row async for row in self._pages(Call(path="quotas/"))]

    async def businesses(self) -> list[Business]:
        """Return the businesses that the caller may submit for."""
        return [row async for row in self._pages(Call(path="businesses/"))]

    def hosts(self) -> AsyncIterator[Host]:
        """Give the hosts with their cards."""
        return cast(AsyncIterator[Host], self._pages(Call(path="hosts/")))

    async def _steer(self, task_id: int, verb: str) -> Task:
        return cast(Task, await self._ask(calls.steer(task_id, verb)))

    async def _pages(self, call: Call) -> AsyncIterator[Any]:
        page = await self._ask(call)
        while True:
            for row in page["results"]:
                yield row
            if not page["next"]:
                return
            page = await self._ask(Call(path=page["next"]))

    async def _ask(self, call: Call) -> Any:
        return _json(await self._answer(call))

    async def _answer(self, call: Call) -> httpx.Response:
        tried = 0
        while True:
            tried += 1
            answer, error = None, None
            try:
                answer = await self.http.request(**_request(call))
            except httpx.HTTPError as failed:
                error = failed
            pause = None if answer is not None and answer.is_success else _pause(call, tried, answer)
            if pause is not None:
                await asyncio.sleep(pause)
            elif answer is not None:
                return answer
            elif error is not None:
                raise _away(error, str(self.http.base_url)) from error
