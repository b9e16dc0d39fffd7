"""Open pages, as cheap as they can be: they run beside the server on the same processors, and what they use it lacks.

A page is a socket that is read byte by byte, and questions on connections of their own, as after a quiet while.
"""

import asyncio
import json
import random
import re
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

TEXT, PING = 1, 9  # kinds of frames
PONG, MASKED, ZEROS = 0x8A, 0x80, bytes(4)  # every frame of a client is masked; with zeros it stays as it is
UPGRADE = (
    ("Connection", "Upgrade"),
    ("Upgrade", "websocket"),
    ("Sec-WebSocket-Version", "13"),
    ("Sec-WebSocket-Key", "AAAAAAAAAAAAAAAAAAAAAA=="),
    # Browsers offer to compress; ours may not take that up, since it costs a page more memory than anything else.
    ("Sec-WebSocket-Extensions", "permessage-deflate; client_max_window_bits"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """What a page asks for when its topic changed, and where the answer says what is true now."""

    topic: str
    path: str
    says: re.Pattern[bytes] | None = None  # its first group; None: whatever comes is right
    target: str = ""  # the element that htmx would put it into


@dataclass(slots=True)
class Round:
    """One change: what pages are to show, and who does not yet."""

    now: Mapping[str, bytes]  # path → what its answer has to say
    began: float
    left: int
    over: asyncio.Event = field(default_factory=asyncio.Event)
    fault: Exception | None = None

    def fail(self, fault: Exception) -> None:
        """End it: a page showed what is not so."""
        self.fault = fault
        self.over.set()


class Page(asyncio.Protocol):
    """One open page and its socket."""

    def __init__(self, url: str, cookies: str, *parts: Part) -> None:
        self.parts = parts
        self.cookies = cookies
        self.heard_s = self.shown_s = 0.0  # since the change
        self.spread_ms: dict[str, float] = {}
        self.round: Round | None = None
        self.lost: Exception | None = None
        self._where = urlsplit(url)
        self._received = bytearray()
        self._asking: set[asyncio.Task[None]] = set()
        self._is_open = False

    async def open(self) -> None:
        """Open the socket; its first message comes later."""
        topics = "&".join(f"topic={topic}" for topic in dict.fromkeys(part.topic for part in self.parts))
        self._opened: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._socket = await self._connect(lambda: self)
        origin = f"{self._where.scheme}://{self._where.netloc}"
        self._socket.write(self._request(f"/ws/live/?{topics}", (("Origin", origin), *UPGRADE)))
        await self._opened

    def close(self) -> None:
        """Leave, as a closed window does."""
        self._socket.close()

    def data_received(self, data: bytes) -> None:
        """Read what the server says."""
        self._received += data
        if not self._is_open:
            head, blank, _rest = self._received.partition(b"\r\n\r\n")
            if not blank:
                return
            assert head.startswith(b"HTTP/1.1 101 "), bytes(head)
            self._is_open = True
            del self._received[: len(head) + len(blank)]
            self._opened.set_result(None)
        for kind, content in _frames(self._received):
            if kind == PING:
                self._socket.write(bytes((PONG, MASKED | len(content))) + ZEROS + content)
            elif kind == TEXT:
                self._told(json.loads(content))

    def connection_lost(self, exc: Exception | None) -> None:
        """Note that the socket ended, which it should not have while a round goes on."""
        self.lost = exc or ConnectionError("the server closed a socket")
        if self.round is not None:
            self.round.fail(self.lost)

    def _told(self, message: Mapping[str, Mapping[str, float]]) -> None:
        now = self.round
        if now is None:
            return
        for part in self.parts:
            if part.topic in message["changed"]:
                if part.path in now.now:
                    self.heard_s = time.perf_counter() - now.began
                spread_ms = self.spread_ms[part.topic] = message["spread_ms"][part.topic]
                wait_s = random.uniform(0, spread_ms / 1000)
                asyncio.get_running_loop().call_later(wait_s, self._begin, part, now)

    def _begin(self, part: Part, now: Round) -> None:
        asking = asyncio.create_task(self._ask(part, now))
        self._asking.add(asking)  # else nobody but the loop knows of it, which may forget it
        asking.add_done_callback(self._asking.discard)

    async def _ask(self, part: Part, now: Round) -> None:
        more = (("HX-Request", "true"), ("Connection", "close"))
        request = self._request(part.path, (*more, ("HX-Target", part.target)) if part.target else more)
        try:
            connection = await self._connect(lambda: Answer(lambda got: self._shows(part, now, got)))
        except OSError as fault:
            now.fail(fault)
        else:
            connection.write(request)

    def _shows(self, part: Part, now: Round, answer: bytes) -> None:
        if part.path not in now.now:
            return
        head, _blank, body = answer.partition(b"\r\n\r\n")
        said = part.says.search(body) if part.says else None
        if not head.startswith(b"HTTP/1.1 200 ") or (said and said[1]) != now.now[part.path]:
            return now.fail(ValueError(f"{part.path} shows {said and said[1]!r}: {head.decode()}"))
        if self.shown_s:  # it was told twice, and asked twice
            return
        self.shown_s = time.perf_counter() - now.began
        now.left -= 1
        if not now.left:
            now.over.set()

    async def _connect(self, protocol: Callable[[], asyncio.Protocol]) -> asyncio.WriteTransport:
        loop = asyncio.get_running_loop()
        host, port = self._where.hostname or "", self._where.port or 80
        transport, _protocol = await loop.create_connection(protocol, host, port)
        return transport

    def _request(self, path: str, headers: tuple[tuple[str, str], ...]) -> bytes:
        lines = [f"GET {path} HTTP/1.1", f"Host: {self._where.netloc}", f"Cookie: {self.cookies}"]
        lines += [f"{name}: {value}" for name, value in headers]
        return "\r\n".join((*lines, "", "")).encode()


class Answer(asyncio.Protocol):
    """One question's answer, whole when the server hangs up."""

    def __init__(self, done: Callable[[bytes], None]) -> None:
        self._done = done
        self._parts: list[bytes] = []

    def data_received(self, data: bytes) -> None:
        """Keep it."""
        self._parts.append(data)

    def connection_lost(self, exc: Exception | None) -> None:
        """Give all of it."""
        self._done(b"".join(self._parts))


def _frames(received: bytearray) -> Iterator[tuple[int, bytes]]:
    """Take the whole frames out of what was received: kind and content. None is longer than 64 KiB."""
    while len(received) >= 2:
        assert not received[0] & 0x40, "it is compressed, which is not read here"
        length, start = received[1], 2
        if length == 126:
            length, start = int.from_bytes(received[2:4], "big"), 4
        if len(received) < start + length:
            return
        yield received[0] & 15, bytes(received[start : start + length])
        del received[: start + length]
