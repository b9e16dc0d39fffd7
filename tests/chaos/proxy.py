"""A line between an agent and the platform that can be refused, cut, swallowed or slow."""

import asyncio
import contextlib
import threading

PART = 65536


class Line:
    """Listens on a port of its own and passes on what comes to the platform, as its mode says.

    `pass`; `refuse`: no connection is taken, and those that are there are cut; `swallow`: nothing gets through
    in either direction; `no_answers`: what the agent says arrives, and what it is answered does not; `delay`:
    each part comes so much later.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, platform: int) -> None:
        """Lead to the port `platform` of this machine."""
        self._loop = loop
        self._platform = platform
        self._mode, self._delay_s = "pass", 0.0
        self._writers: set[asyncio.StreamWriter] = set()
        self.port = 0

    async def open(self) -> None:
        """Listen."""
        self._server = await asyncio.start_server(self._take, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]

    def close(self) -> None:
        """Listen no more; in the thread of the loop."""
        self._server.close()

    def be(self, mode: str, delay_s: float = 0.0) -> None:
        """Go over to another mode."""
        self._loop.call_soon_threadsafe(self._be, mode, delay_s)

    def cut(self) -> None:
        """Break the connections that are there; new ones are taken."""
        self._loop.call_soon_threadsafe(self._cut)

    def _be(self, mode: str, delay_s: float) -> None:
        self._mode, self._delay_s = mode, delay_s
        if mode == "refuse":
            self._cut()
        if mode == "pass":
            # A connection that lost something in between is of no use to anybody.
            self._cut()

    def _cut(self) -> None:
        for writer in self._writers:
            writer.transport.abort()

    async def _take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._mode == "refuse":
            writer.transport.abort()
            return
        try:
            there, onward = await asyncio.open_connection("127.0.0.1", self._platform)
        except OSError:
            writer.transport.abort()
            return
        self._writers |= {writer, onward}
        try:
            await asyncio.gather(
                self._flow(reader, onward, frozenset({"swallow"})),
                self._flow(there, writer, frozenset({"swallow", "no_answers"})),
            )
        finally:
            for end in (writer, onward):
                self._writers.discard(end)
                end.transport.abort()

    async def _flow(
        self, source: asyncio.StreamReader, target: asyncio.StreamWriter, swallowed: frozenset[str]
    ) -> None:
        with contextlib.suppress(OSError):
            while part := await source.read(PART):
                if self._mode in swallowed:
                    continue
                if self._mode == "delay":
                    await asyncio.sleep(self._delay_s)
                target.write(part)
                await target.drain()
        # One end is enough: a request or an answer that is cut in half is no use to the other.
        target.transport.abort()


class Lines:
    """The lines of all agents, on a loop in a thread of their own."""

    def __init__(self, names: list[str], platform: int) -> None:
        """Open a line for each of `names`."""
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self.by_name = {name: Line(self._loop, platform) for name in names}
        for line in self.by_name.values():
            asyncio.run_coroutine_threadsafe(line.open(), self._loop).result(10)

    def close(self) -> None:
        """End all of them, and what still flows."""
        asyncio.run_coroutine_threadsafe(self._end_all(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    async def _end_all(self) -> None:
        for line in self.by_name.values():
            line.close()
        flowing = asyncio.all_tasks() - {asyncio.current_task()}
        for task in flowing:
            task.cancel()
        await asyncio.gather(*flowing, return_exceptions=True)
