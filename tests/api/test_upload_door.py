"""The door before uploads: bodies that nobody may send are never read, and what comes at once is bounded."""

import asyncio
import hashlib
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from asgiref.testing import ApplicationCommunicator
from django.contrib.auth import get_user_model
from django.db import connection
from django.test import Client
from pytest_django import Settings

from cluster import bundles
from cluster.agent import bundle
from jobs import uploads
from jobs.api import upload_door
from jobs.materials import Upload
from quotas.models import ApiToken, Business
from taiji_site.asgi import application
from tests.agent.packing import code
from tests.api.conftest import Caller

pytestmark = pytest.mark.django_db(transaction=True)
MIB = 2**20
ARCHIVE = code(start_sh="#!/bin/sh\necho hello")
PATH = f"/api/v1/uploads/sha256:{hashlib.sha256(ARCHIVE).hexdigest()}/"


class Sender:
    """One request to the real application, whose body is asked for part by part."""

    def __init__(
        self, header: bytes = b"", *, method: str = "PUT", length: int | None = None, cookie: str = ""
    ) -> None:
        """Open it; `header` is Authorization's."""
        headers = [(b"host", b"testserver"), (b"content-type", b"application/gzip")]
        headers += [(b"authorization", header)] if header else []
        headers += [(b"content-length", str(length).encode())] if length is not None else []
        headers += [(b"cookie", cookie.encode())] if cookie else []
        self.scope = {
            **{"type": "http", "http_version": "1.1", "method": method, "scheme": "http", "path": PATH},
            **{
                "raw_path": PATH.encode(),
                "query_string": b"business=ads",
                "root_path": "",
                "headers": headers,
            },
            **{"client": ("127.0.0.1", 1), "server": ("testserver", 80), "asgi": {"version": "3.0"}},
        }

    async def answer(self, parts: list[bytes]) -> tuple[int, bytes, dict[bytes, bytes]]:
        """Send these parts; return status, body and headers of the answer."""
        sent: list[Any] = []
        left = list(parts)

        async def receive() -> Any:
            if not left:
                await asyncio.Event().wait()  # who sends stays to hear the answer
            return {"type": "http.request", "body": left.pop(0), "more_body": bool(left)}

        async def send(message: Any) -> None:
            sent.append(message)

        await application(self.scope, receive, send)
        return sent[0]["status"], b"".join(m.get("body", b"") for m in sent[1:]), dict(sent[0]["headers"])


def put(sender: Sender, *parts: bytes) -> tuple[int, bytes, dict[bytes, bytes]]:
    return async_to_sync(sender.answer)(list(parts))


def token(caller: Caller) -> bytes:
    return f"Token {caller.token}".encode()


class Spool:
    """Counts what Django writes to its temporary files for bodies."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Count from now on."""
        self.bytes = 0
        spool, real = self, tempfile.SpooledTemporaryFile

        class Counting(real):  # type: ignore[misc, valid-type]  # the class at hand
            def write(self, data: bytes) -> int:
                spool.bytes += len(data)
                return int(super().write(data))

        monkeypatch.setattr(tempfile, "SpooledTemporaryFile", Counting)


@pytest.fixture
def spool(monkeypatch: pytest.MonkeyPatch) -> Spool:
    return Spool(monkeypatch)


@pytest.mark.parametrize("header", [b"", b"Token wrong", b"Token \xff", b"Bearer x", b"Token"])
def test_who_has_no_valid_token_writes_nothing_to_the_disk(ann: Caller, spool: Spool, header: bytes) -> None:
    status, body, _headers = put(Sender(header), *[b"x" * MIB] * 8)
    assert status in {401, 403}
    assert b'"errors"' in body
    assert spool.bytes == 0


def test_a_member_s_upload_is_taken_by_token(ann: Caller, spool: Spool) -> None:
    assert put(Sender(token(ann), length=len(ARCHIVE)), ARCHIVE[:10], ARCHIVE[10:])[0] == 201
    assert (spool.bytes, Upload.objects.get().size) == (len(ARCHIVE), len(ARCHIVE))
    assert upload_door.on_the_way.take(1, 1)  # all room was given back
    upload_door.on_the_way.give_back(1, 1)


def test_a_session_lets_a_body_in_as_a_token_does(ann: Caller, spool: Spool) -> None:
    client = Client()
    client.force_login(ann.user)
    cookie = f"sessionid={client.cookies['sessionid'].value}"
    assert (
        put(Sender(cookie=cookie, length=len(ARCHIVE)), ARCHIVE)[0] == 403
    )  # read, and refused for its CSRF
    assert spool.bytes == len(ARCHIVE)
    assert put(Sender(cookie="sessionid=none", length=len(ARCHIVE)), ARCHIVE)[0] in {401, 403}
    assert spool.bytes == len(ARCHIVE)


def test_what_says_that_it_is_too_large_is_not_read(ann: Caller, spool: Spool, settings: Settings) -> None:
    settings.UPLOAD_MIB = 1
    status, body, _headers = put(Sender(token(ann), length=2 * MIB), b"x" * MIB, b"x" * MIB)
    assert (status, b"too_large" in body, spool.bytes) == (413, True, 0)


def test_a_length_that_is_none_is_too_large_and_is_not_read(ann: Caller, spool: Spool) -> None:
    status, body, _headers = put(Sender(token(ann), length=int("9" * 4000)), b"x" * MIB)
    assert (status, b"too_large" in body, spool.bytes) == (413, True, 0)


@pytest.mark.parametrize("length", [None, 10])
def test_of_a_body_longer_than_is_taken_or_than_it_said_the_rest_is_not_kept(
    ann: Caller, spool: Spool, settings: Settings, length: int | None
) -> None:
    settings.UPLOAD_MIB = 2
    status, body, _headers = put(Sender(token(ann), length=length), *[b"x" * MIB] * 9)
    assert (status, b"too_large" in body) == (413, True)
    assert spool.bytes <= 2 * MIB + 1
    assert not Upload.objects.exists()


def test_a_body_that_does_not_say_how_long_it_is_is_taken(ann: Caller, spool: Spool) -> None:
    assert put(Sender(token(ann)), ARCHIVE[:10], ARCHIVE[10:])[0] == 201
    assert Upload.objects.exists()


def test_another_method_brings_no_body(ann: Caller, spool: Spool) -> None:
    assert put(Sender(token(ann), method="POST"), b"x" * MIB)[0] == 405
    assert spool.bytes == 0


@pytest.fixture
def crowded(settings: Settings) -> Iterator[None]:
    """Let others send as much as may be on its way at once."""
    settings.UPLOADS_AT_ONCE_MIB = 4
    assert upload_door.on_the_way.take(-1, 4 * MIB)
    yield
    upload_door.on_the_way.give_back(-1, 4 * MIB)


def test_more_than_may_be_on_its_way_at_once_is_told_to_come_again(
    ann: Caller, spool: Spool, crowded: None
) -> None:
    status, body, headers = put(Sender(token(ann), length=len(ARCHIVE)), ARCHIVE)
    assert (status, spool.bytes) == (429, 0)
    assert b"a little later" in body
    assert int(headers[b"Retry-After" if b"Retry-After" in headers else b"retry-after"]) > 0


def test_a_user_has_room_for_one_large_upload_and_another_user_for_his(settings: Settings) -> None:
    settings.UPLOAD_MIB, settings.UPLOADS_AT_ONCE_MIB = 4, 6
    way = upload_door.OnTheWay()
    assert way.take(1, 3 * MIB)
    assert not way.take(1, 2 * MIB)
    assert way.take(2, 3 * MIB)
    assert not way.take(3, 1 * MIB)
    way.give_back(2, 3 * MIB)
    assert way.take(3, 3 * MIB)


def test_one_that_stops_sending_gives_its_place_back(ann: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upload_door, "IDLE_S", 0.1)
    sender = Sender(token(ann), length=len(ARCHIVE))

    async def story() -> None:
        call: Any = ApplicationCommunicator(application, sender.scope)  # type: ignore[no-untyped-call]  # asgiref's
        call.input_queue.put_nowait({"type": "http.request", "body": ARCHIVE[:5], "more_body": True})
        await call.wait(60)

    async_to_sync(story)()
    assert not Upload.objects.exists()
    assert upload_door.on_the_way.take(ann.user.pk, 2**60)  # only one that has nothing on its way may
    upload_door.on_the_way.give_back(ann.user.pk, 2**60)


def test_one_that_sends_a_byte_now_and_then_gives_its_place_back(
    ann: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upload_door, "IDLE_S", 0.3)
    monkeypatch.setattr(upload_door, "SLOWEST", 10 * MIB, raising=False)
    sent = 0

    async def receive() -> Any:
        nonlocal sent
        sent += 1
        await asyncio.sleep(0.05)
        return {"type": "http.request", "body": b"x", "more_body": sent < 60}

    async def send(message: Any) -> None:
        """Hear nothing."""

    async_to_sync(application)(Sender(token(ann), length=MIB).scope, receive, send)
    assert 0 < sent < 40
    assert upload_door.on_the_way.take(ann.user.pk, 2**60)
    upload_door.on_the_way.give_back(ann.user.pk, 2**60)


@pytest.mark.parametrize("fitting", [1, 3])
def test_parallel_uploads_together_stay_within_the_quota(
    ann: Caller, settings: Settings, monkeypatch: pytest.MonkeyPatch, fitting: int
) -> None:
    """All are received before the first is counted: each saw that there was room."""
    archives = [code(data="0" * 2000, name=str(number)) for number in range(6)]
    most = max(map(len, archives))
    monkeypatch.setattr(uploads, "MIB", fitting * most)
    settings.UPLOADS_MIB = settings.UPLOAD_MIB = 1
    business, user = Business.objects.get(flag="ads"), ann.user
    together = Barrier(len(archives), timeout=60)
    real = bundle.inspect

    def inspected(*arguments: Any) -> Any:
        together.wait()
        return real(*arguments)

    monkeypatch.setattr(bundles, "inspect", inspected)

    def send(archive: bytes) -> bool:
        parts = [archive, b""]
        try:
            uploads.receive(business, user, hashlib.sha256(archive).hexdigest(), lambda _most: parts.pop(0))
        except uploads.Full:
            return False
        finally:
            connection.close()
        return True

    with ThreadPoolExecutor(len(archives)) as threads:
        taken = list(threads.map(send, archives))
    assert taken.count(True) == fitting
    assert sum(Upload.objects.values_list("size", flat=True)) <= fitting * most
    kept = {path.name.partition(".")[0] for path in settings.CODE_DIR.rglob("*.gz")}
    assert kept == set(Upload.objects.values_list("digest", flat=True))
    assert not list(settings.CODE_DIR.rglob("*.new"))


def test_a_token_that_was_taken_away_lets_nothing_in(ann: Caller, spool: Spool) -> None:
    ApiToken.objects.filter(user=ann.user).delete()
    assert put(Sender(token(ann)), ARCHIVE)[0] == 401
    get_user_model().objects.filter(pk=ann.user.pk).update(is_active=False)
    assert spool.bytes == 0
