"""The line to the platform: the calls of protocol.py, and in a sentence what goes wrong with them."""

import math
import ssl
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from typing import Any, Self

from cluster.agent.calls import Calls
from cluster.agent.protocol import PROTOCOL

# httpx loads its command line too where click and rich are: half of an agent's start, and 7 MB for ever.
sys.modules.setdefault("httpx._main", None)  # type: ignore[arg-type]  # None: that import fails, and may

import httpx  # noqa: E402 - after what it must not load

CONNECT_S = 5.0
ANSWER_S = 15.0  # how long an answer may take beyond the time the platform was asked to wait


class Away(Exception):
    """The platform cannot be reached or cannot answer now; the message says why."""


class Refused(Exception):
    """The platform answered no; the message says why."""

    def __init__(self, status: int, sentence: str) -> None:
        """Keep the HTTP status."""
        super().__init__(sentence)
        self.status = status


class Link:
    """Calls to one platform."""

    def __init__(self, url: str, ca: str | None = None) -> None:
        """Call the platform at `url`, trusting the certificates in the file `ca`, or else the system's."""
        # Not the environment's proxy: the embedded platform is on this machine, others are inside the house.
        verify: ssl.SSLContext | bool = (
            ssl.create_default_context(cafile=ca) if url.startswith("https") else True
        )
        self.url = url
        self.calls = Calls(time.monotonic())
        self._http = httpx.AsyncClient(base_url=url, verify=verify, trust_env=False)

    async def __aenter__(self) -> Self:
        """Use the link in an `async with`."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close its connections."""
        await self._http.aclose()

    async def register(self, join_token: str, *, name: str, region: str, address: str) -> dict[str, Any]:
        """Return {"host", "token"}; raises Away or Refused."""
        body = {"name": name, "region": region, "address": address, "protocol": PROTOCOL}
        with self._counted():
            return _document(await self._call("POST", "/api/agent/register/", join_token, json=body))

    async def sync(self, token: str, report: dict[str, Any]) -> dict[str, Any]:
        """Return the desired list for `report`; raises Away or Refused."""
        wait_s = float(report["wait_s"])
        with self._counted(wait_s):
            return _document(await self._call("POST", "/api/agent/sync/", token, json=report, wait_s=wait_s))

    async def append_log(self, token: str, instance: str, offset: int, content: bytes) -> int:
        """Return where the platform's log of `instance` ends once `content` is there."""
        path = f"/api/agent/instances/{instance}/log/"
        with self._counted():
            answer = await self._call(
                "PUT", path, token, content=content, params={"offset": offset}, good=(200, 409)
            )
            try:
                return int(_document(answer)["end"])
            except (KeyError, TypeError, ValueError) as error:
                raise Away("The platform did not say where the log ends.") from error

    @contextmanager
    def _counted(self, wait_s: float = 0.0) -> Iterator[None]:
        """Count the call that is made in here, which the platform may hold so long; one that is given up is none."""
        began_s = time.monotonic()
        try:
            yield
        except Refused:
            self.calls.answered(time.monotonic())
            raise
        except Away as fault:
            self.calls.failed(time.monotonic(), began_s, str(fault), wait_s)
            raise
        else:
            self.calls.answered(time.monotonic())

    async def _call(
        self,
        method: str,
        path: str,
        token: str,
        *,
        wait_s: float = 0.0,
        good: tuple[int, ...] = (200, 201),
        **arguments: Any,
    ) -> httpx.Response:
        try:
            answer = await self._http.request(
                method,
                path,
                headers={"Authorization": f"Bearer {token}"},
                timeout=httpx.Timeout(ANSWER_S, connect=CONNECT_S, read=ANSWER_S + wait_s),
                **arguments,
            )
        except httpx.HTTPError as error:
            raise self._silent(error) from error
        if answer.status_code in good:
            return answer
        raise self._no(answer)

    async def download(self, token: str, digest: str) -> AsyncIterator[bytes]:
        """Give the packed code `digest` in parts; raises Away or Refused."""
        path = f"/api/agent/code/{digest}/"
        timeout = httpx.Timeout(ANSWER_S, connect=CONNECT_S)
        headers = {"Authorization": f"Bearer {token}"}
        with self._counted(math.inf):  # parts come and come: it is away from when they do not
            try:
                async with self._http.stream("GET", path, headers=headers, timeout=timeout) as answer:
                    if answer.status_code != 200:
                        await answer.aread()
                        raise self._no(answer)
                    async for part in answer.aiter_raw():
                        yield part
            except httpx.HTTPError as error:
                raise self._silent(error) from error

    def _silent(self, error: httpx.HTTPError) -> Away:
        why = str(error).rstrip(".") or type(error).__name__
        if self.url.startswith("https") and _spoke_http(error):
            why += "; that address speaks http, not https"
        return Away(f"The platform at {self.url} does not answer: {why}.")

    def _no(self, answer: httpx.Response) -> Away | Refused:
        if answer.status_code >= 500 or answer.status_code < 400 or answer.status_code == 429:
            return Away(f"The platform at {self.url} answers {answer.status_code} {answer.reason_phrase}.")
        return Refused(answer.status_code, _sentence(answer))


def _spoke_http(error: httpx.HTTPError) -> bool:
    """Say whether the other side answered a handshake of TLS with something else, as a plain web server does."""
    return "[SSL: WRONG_VERSION_NUMBER]" in str(error) or "[SSL: RECORD_LAYER_FAILURE]" in str(error)


def _document(answer: httpx.Response) -> dict[str, Any]:
    try:
        document = answer.json()
    except ValueError as error:
        raise Away("The platform's answer is not JSON.") from error
    if not isinstance(document, dict):
        raise Away("The platform's answer is not an object.")
    return document


def _sentence(answer: httpx.Response) -> str:
    """Return what the platform says to a call that it refuses, where it says it in the API's form."""
    try:
        faults = answer.json()["errors"]
        said = " ".join(f"{fault['field']}: {fault['message']}".removeprefix(": ") for fault in faults)
    except (ValueError, KeyError, TypeError):
        said = ""
    return said or f"The platform answers {answer.status_code} {answer.reason_phrase}."
