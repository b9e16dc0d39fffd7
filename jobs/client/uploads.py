"""Send packed code to a platform, unless it is there already."""

from pathlib import Path

import httpx

from jobs.client.pack import Packed, pack

TIMEOUT = httpx.Timeout(
    60.0, connect=10.0, read=600.0, write=600.0
)  # seconds; the platform inspects what it takes


class NotTaken(Exception):
    """The platform did not take the upload; the message says why."""


def client(url: str, token: str) -> httpx.Client:
    """Return a client of the platform at `url` that calls with an API token."""
    headers = {"Authorization": f"Token {token}"}
    return httpx.Client(base_url=f"{url.rstrip('/')}/api/v1/", headers=headers, timeout=TIMEOUT)


def send(calls: httpx.Client, business: str, packed: Packed) -> bool:
    """Upload packed code for a business; return whether it had to travel. Raises NotTaken."""
    path, query = f"uploads/{packed.digest}/", {"business": business}
    try:
        if calls.head(path, params=query).status_code == 200:
            return False
        with packed.file.open("rb") as file:
            headers = {"Content-Type": "application/gzip", "Content-Length": str(packed.size)}
            answer = calls.put(path, params=query, headers=headers, content=file)
    except httpx.HTTPError as error:
        raise NotTaken(f"The platform does not answer: {error or type(error).__name__}.") from error
    if answer.status_code not in {200, 201}:
        raise NotTaken(_sentence(answer))
    return True


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
    try:
        return " ".join(str(fault["message"]) for fault in answer.json()["errors"])
    except (ValueError, KeyError, TypeError):
        return f"The platform answers {answer.status_code} {answer.reason_phrase}."
