"""The agent: report what is here, learn what should be, close the gap, and again when either changes."""

import asyncio
import contextlib
import logging
import os
import random
import time
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cluster.agent import VERSION, cgroup_places, courier, disk, machine, mounts, pace
from cluster.agent.address import own_address
from cluster.agent.cards import Cards
from cluster.agent.courier import Courier
from cluster.agent.link import Away, Link, Refused
from cluster.agent.logs import CAP, Shipper
from cluster.agent.membership import Membership, NotAdmitted
from cluster.agent.offers import PROCESS, Offers
from cluster.agent.orders import Desired, read_desired
from cluster.agent.outage import Outage
from cluster.agent.pace import RETRY_S
from cluster.agent.protocol import PROTOCOL
from cluster.agent.storage import Storage
from cluster.agent.workspace import Workspace

log = logging.getLogger(__name__)

LOOK_S = 0.02  # between two looks at the instances while something happens …
LOOK_AT_MOST_S = 0.25  # … and while they only run; when there are none, nobody looks
CARDS_S = 10.0  # between two looks at the cards
MINUTES_AT_ONCE = 512  # of what was measured on the cards, in one report
CODES_AT_ONCE = 8  # on their way here
ENGINE_S = 10.0
STORAGE_S = 10.0
FIRST_LOOK_S = 5.0  # the first report waits so long at most for an engine that does not answer
DOUBT_S = 5.0  # a failure is reported so much later at most because cards do not answer
HELD_S = 1.0  # an answer sooner than this, and without news, was not held: the next call waits as long


class Agent:
    """The agent of one host."""

    def __init__(
        self,
        *,
        membership: Membership,
        link: Link,
        cards: Cards,
        storage: Path,
        offers: Offers,
        user: str = "",
        devices: Sequence[str] = (),
        address: str = "",
        log_cap: int = CAP,
        code_cap: int = courier.CAP,
        cards_s: float = CARDS_S,
    ) -> None:
        """Serve the host `membership` describes; a blank `address` means the one that faces the platform.

        `user` is the UID:GID that tasks run as, blank for the agent's own; `devices` what every container gets
        besides its cards.
        """
        self._membership = membership
        self._link = link
        self._cards = cards
        self._cards_s = cards_s
        self._cleared = asyncio.Event()  # an operator says that a card's fault is no more
        self._address = address
        self._changed = asyncio.Event()  # the platform should hear of something now
        self._awake = asyncio.Event()  # something may have happened here: look now
        self._certain = (
            asyncio.Event()
        )  # of what failed it is known whether its cards did: it may be reported
        self._certain.set()
        self._grown = asyncio.Event()  # there are logs to send
        self._offers = offers
        self._storage = Storage(storage)
        self._places = cgroup_places.find()
        self._workspace = Workspace(
            membership.folder,
            storage,
            cards,
            log_cap,
            self._awake.set,
            offers=offers,
            user=user,
            places=self._places,
            devices=devices,
        )
        cards.ours = self._workspace.ours
        self._wanted = asyncio.Event()  # there is code to fetch
        self._shipper = Shipper(link)
        self._courier = Courier(link, membership.folder / "code", code_cap)
        self._path = os.environ.get("PATH", os.defpath)
        self._boot = str(uuid.uuid4())
        self._machine, self._seat = machine.machine(), machine.seat(membership.folder)
        self._lag_s = pace.lag_s(membership.name)
        self._seq = 0
        self._token: str | None = None
        # It did not wait for news yet since the platform answers: others come at the same moment.
        self._joins = True
        self._desired: Desired | None = None
        self._refused: str | None = None  # a token that the platform did not take
        self._said: set[str] = set()

    async def run(self) -> None:
        """Work until cancelled; what runs on the host runs on."""
        self._places.say()
        self._workspace.load()  # before the cards are looked at: who uses them may be ours
        engine = asyncio.create_task(asyncio.to_thread(self._offers.refresh))
        cards = asyncio.create_task(asyncio.to_thread(self._cards.refresh))
        storage = asyncio.create_task(asyncio.to_thread(self._storage.refresh))
        try:
            await asyncio.wait({engine, cards, storage}, timeout=FIRST_LOOK_S)
            async with asyncio.TaskGroup() as group:
                group.create_task(self._talk())
                group.create_task(self._watch())
                group.create_task(self._ship())
                group.create_task(self._fetch())
                group.create_task(self._watch_cards(cards))
                group.create_task(self._watch_engine(engine))
                group.create_task(self._watch_storage(storage))
        finally:
            self._cards.close()

    async def _talk(self) -> None:
        """Call the platform for ever; when it is away, try again, later each time."""
        failures, outage = 0, Outage()
        while True:
            try:
                await self._exchange()
            except (Away, NotAdmitted) as fault:
                self._complain(str(fault))
                if said := outage.goes_on(time.time(), time.monotonic(), str(fault)):
                    log.warning("%s", said)
                self._joins = True
                await asyncio.sleep(pace.retry_s(failures))
                failures += 1
            else:
                if failures or self._seq == 1:
                    log.info("The platform at %s has this host's report.", self._link.url)
                    self._said.clear()
                    outage = Outage()
                failures = 0

    def _complain(self, sentence: str) -> None:
        """Say what is wrong, once until it is right again."""
        if sentence not in self._said:
            log.warning("%s", sentence)
            self._said.add(sentence)

    async def _exchange(self) -> None:
        """Report once and act on the answer; wait for news unless there is something to tell."""
        if self._token is None:
            await self._be_admitted()
        while not self._certain.is_set():
            await self._certain.wait()
        telling = self._changed.is_set() or self._desired is None
        self._changed.clear()
        began = time.monotonic()
        have = self._desired.version if self._desired else ""
        answer = await self._sync(wait_s=0 if telling else pace.wait_s(first=self._joins))
        if answer is None:
            return
        self._desired = answer
        self._joins = self._joins and telling
        if not answer.cleared.isdisjoint(card.fault for card in self._cards.now):
            self._cleared.set()
        if answer.notice:
            self._complain(answer.notice)
        self._workspace.apply(answer)
        self._awake.set()
        if not telling and answer.version == have and time.monotonic() - began < HELD_S:
            # Not wait_for: before Python 3.12 it can swallow a cancellation, and the agent would never end.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(HELD_S):
                    await self._changed.wait()

    async def _sync(self, wait_s: float) -> Desired | None:
        """Return the platform's answer to a report, or None where a change here made the report stale."""
        report = self._report(wait_s)
        call = asyncio.create_task(self._link.sync(self._token or "", report))
        change = asyncio.create_task(self._changed.wait())
        try:
            # A call that waits is given up for news of ours; one that tells is heard out, whatever comes.
            await asyncio.wait({call, change} if wait_s else {call}, return_when=asyncio.FIRST_COMPLETED)
            if not call.done():
                return None
            answer = read_desired(call.result())
            self._cards.minutes.sent(report["minutes"], answer.now)
            return answer
        except Refused as fault:
            if fault.status == 401:
                self._refused, self._token = self._token, None
            raise Away(f"The platform refuses this host's report: {fault}") from fault
        except ValueError as fault:
            raise Away(f"The platform's answer cannot be read: {fault}.") from fault
        finally:
            for task in (call, change):
                task.cancel()
            await asyncio.gather(call, change, return_exceptions=True)

    async def _be_admitted(self) -> None:
        """Take the token from the disk; register where there is none, or where the platform refused it."""
        self._address = self._address or await asyncio.to_thread(own_address, self._link.url)
        self._token = self._membership.token()
        if self._token is None or self._token == self._refused:
            self._token = self._refused = None  # not admitted again: the next try is with the old token
            self._token = await self._membership.register(self._link, self._address)

    def _report(self, wait_s: float) -> dict[str, Any]:
        self._seq += 1
        return {
            "protocol": PROTOCOL,
            "version": VERSION,
            "name": self._membership.name,
            "machine": self._machine,
            "seat": self._seat,
            "boot": self._boot,
            "seq": self._seq,
            "clock": time.time(),
            "address": self._address,
            "offers": self._offered(),
            "trouble": self._storage.trouble or disk.trouble(self._membership.folder),
            "cards": [card.report() for card in self._cards.now],
            "minutes": self._cards.minutes.report(MINUTES_AT_ONCE, self._lag_s),
            "calls": self._link.calls.report(time.monotonic()),
            "instances": self._workspace.reports(),
            "have": self._desired.version if self._desired else "",
            "wait_s": wait_s,
        }

    def _offered(self) -> list[str]:
        """Return what this host offers, in protocol.py's words: nothing where nothing could start."""
        if not self._storage.usable:
            return []
        kinds = list(self._offers.now)
        limits = ["limits"] if PROCESS in kinds and self._places.complete else []
        return mounts.offers(kinds, self._path) + limits

    async def _watch(self) -> None:
        """Look at the instances: often while something happens, seldom else, never when there are none."""
        pause = LOOK_S
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause if self._workspace.busy else None):
                    await self._awake.wait()
            woken = self._awake.is_set()
            self._awake.clear()
            changed = self._workspace.look()
            if changed:
                if self._workspace.doubtful:
                    await self._look_at_cards()
                self._changed.set()
            # Some of what should be waited for a stray's end, or for a log to be sent.
            if self._desired is not None and self._workspace.apply(self._desired):
                self._changed.set()
            self._grown.set()
            if self._workspace.wanted():
                self._wanted.set()
            pause = LOOK_S if changed or woken else min(pause * 1.3, LOOK_AT_MOST_S)

    async def _ship(self) -> None:
        """Send logs as they grow, beside and never before the reports."""
        while True:
            await self._grown.wait()
            self._grown.clear()
            if self._token is not None and await self._shipper.ship(self._token, self._workspace.tails()):
                self._grown.set()

    async def _look_at_cards(self) -> None:
        """Look at the cards now: one that broke is to be reported with what failed because of it."""

        async def look() -> None:
            if await asyncio.to_thread(self._cards.refresh):
                self._changed.set()  # also where that comes too late for the failure's own report

        self._certain.clear()
        try:
            await asyncio.wait({asyncio.create_task(look())}, timeout=DOUBT_S)
        finally:
            self._certain.set()

    async def _fetch(self) -> None:
        """Fetch the code that instances wait for, some digests beside one another: a slow one holds no other up."""
        coming: set[str] = set()
        async with asyncio.TaskGroup() as group:
            while True:
                await self._wanted.wait()
                self._wanted.clear()
                for digest in sorted(self._workspace.wanted() - coming)[: CODES_AT_ONCE - len(coming)]:
                    coming.add(digest)
                    group.create_task(self._bring(digest, coming))

    async def _bring(self, digest: str, coming: set[str]) -> None:
        try:
            self._workspace.tell(digest, await self._courier.bring(self._token or "", digest))
        except Away as fault:
            self._complain(str(fault))
            await asyncio.sleep(RETRY_S * random.uniform(0.1, 0.2))
        finally:
            coming.discard(digest)

    async def _watch_engine(self, looking: asyncio.Task[bool]) -> None:
        """Look whether containers can be run, beginning with `looking`, and remove those that nobody keeps."""
        while True:
            if await looking:
                self._changed.set()
            await self._workspace.sweep()
            await asyncio.sleep(ENGINE_S)
            looking = asyncio.create_task(asyncio.to_thread(self._offers.refresh))

    async def _watch_storage(self, looking: asyncio.Task[bool]) -> None:
        """Look whether the storage can be used, beginning with `looking`."""
        while True:
            if await looking:
                self._changed.set()
            await asyncio.sleep(STORAGE_S)
            looking = asyncio.create_task(asyncio.to_thread(self._storage.refresh))

    async def _watch_cards(self, looking: asyncio.Task[bool]) -> None:
        """Look at the cards again and again, beginning with `looking`; at once where a fault was cleared."""
        while True:
            if await looking:
                self._changed.set()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._cards_s):
                    await self._cleared.wait()
            self._cleared.clear()
            cleared = self._desired.cleared if self._desired else frozenset[str]()
            looking = asyncio.create_task(asyncio.to_thread(self._cards.refresh, cleared))
