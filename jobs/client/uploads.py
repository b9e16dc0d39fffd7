"""Send packed code to a platform, unless it is there already."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx

from jobs.client.errors import CallFailed, Refused, refusal
from jobs.client.pack import Packed, pack

TIMEOUT = httpx.Timeout(
    60.0, connect=10.0, read=600.0, write=600.0
)  # seconds; the platform inspects what it takes
BUSY = 429  # too much is uploaded at once
PATIENCE_S, PAUSE_S = 600.0, 30


class NotTaken(CallFailed):
    """The platform did not take the upload; the message says why."""


def client(url: str, token: str) -> httpx.Client:
    """Return a client of the platform at `url` that calls with an API token."""
    headers = {"Authorization": f"Token {token}"}
    return httpx.Client(base_url=f"{url.rstrip('/')}/api/v1/", headers=headers, timeout=TIMEOUT)


def send(
    calls: httpx.Client, business: str, packed: Packed, watch: Callable[[int], object] = lambda _: None
) -> bool:
    """Upload packed code for a business; return whether it had to travel. Raises NotTaken.

    `watch` is told of the bytes as they go.
    """
    path, query = f"uploads/{packed.digest}/", {"business": business}
    try:
        if calls.head(path, params=query).status_code == 200:
            return False
        answer = _put(calls, path, query, packed, watch)
        until = time.monotonic() + PATIENCE_S
        while answer.status_code == BUSY and time.monotonic() < until:
            wait = answer.headers.get("Retry-After", "")
            time.sleep(min(int(wait) if wait.isdecimal() else PAUSE_S, PAUSE_S))
            answer = _put(calls, path, query, packed, watch)
    except httpx.HTTPError as error:
        raise NotTaken(f"The platform does not answer: {error or type(error).__name__}.") from error
    if answer.status_code not in {200, 201}:
        raise NotTaken(_sentence(answer))
    return True


def _put(
    calls: httpx.Client, path: str, query: dict[str, str], packed: Packed, watch: Callable[[int], object]
) -> httpx.Response:
    headers = {"Content-Type": "application/gzip", "Content-Length": str(packed.size)}
    return calls.put(path, params=query, headers=headers, content=_parts(packed.file, watch), timeout=TIMEOUT)


def _parts(path: Path, watch: Callable[[int], object]) -> Iterator[bytes]:
    with path.open("rb") as file:
        while part := file.read(2**16):
            yield part
            watch(len(part))


def upload(calls: httpx.Client, business: str, folder: Path) -> str:
    """Pack a folder and upload it; return what `upload` in a document says. Raises CannotPack or NotTaken."""
    packed = pack(folder)
    try:
        send(calls, business, packed)
    finally:
        packed.file.unlink()
    return packed.digest


def _sentence(answer: httpx.Response) -> str:
    """Return what the platform says in the API's form of errors, else its status."""
    failed = refusal(answer)
    return " ".join(fault.message for fault in failed.faults) if isinstance(failed, Refused) else str(failed)
