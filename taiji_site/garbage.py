"""When the web process looks for garbage: not while many pages ask, since a look through everything stops it all."""

import asyncio
import gc

from cluster import lane

# What a thousand pages ask for at once lives long enough to count as lasting. At Python's own thresholds all that
# lasts was then looked through in the middle of their questions, for 0.3 s.
THRESHOLDS = (20_000, 4, 50)
PERIOD_S = 30.0  # so often all is looked through
CALM_S = 1.0  # once nobody has asked for so long
LONGEST_S = 60.0  # it is put off


def in_calm(application: lane.Application) -> lane.Application:
    """Return `application`, and look for garbage while nobody asks it for anything; called once all is imported."""
    gc.set_threshold(*THRESHOLDS)
    gc.freeze()  # what was imported lasts as long as the process
    asked_at = 0.0  # on the clock of the loop
    looking: asyncio.Task[None] | None = None

    async def route(scope: lane.Message, receive: lane.Receive, send: lane.Send) -> None:
        nonlocal asked_at, looking
        loop = asyncio.get_running_loop()
        asked_at = loop.time()
        if looking is None or looking.get_loop() is not loop:
            looking = loop.create_task(look())
        await application(scope, receive, send)

    async def look() -> None:
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(PERIOD_S)
            latest_at = loop.time() + LONGEST_S
            while asked_at + CALM_S > loop.time() < latest_at:
                await asyncio.sleep(CALM_S / 4)
            if any(gc.get_count()[1:]):  # else nothing came since the last time
                gc.collect()

    return route
