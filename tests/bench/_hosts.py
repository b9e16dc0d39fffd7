"""Simulated hosts for `agents`: each speaks the agents' protocol over a connection of its own, and nothing else."""

import asyncio
import json
import time
import uuid
from dataclasses import dataclass, field
from typing import Any

from cluster.agent import pace

CARDS, INSTANCES = 8, 4
PERIOD_S = 10.0  # how long the platform is asked to wait for news: half as long as agents ask it to
MINUTE_S = 60.0
CALLS = {"over_s": 600, "made": 31, "failed": 1, "times": 1, "longest_s": 1, "fault": "It was cut."}
HEADERS = (
    "POST /api/agent/sync/ HTTP/1.1\r\nHost: bench\r\nContent-Type: application/json\r\n"
    "Authorization: Bearer {token}\r\nContent-Length: {length}\r\n\r\n"
)


@dataclass(slots=True)
class Figures:
    """What the hosts saw from `since` on: when each call began, its seconds without those it was held, and faults."""

    since: float
    calls: list[tuple[float, float]] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)

    def note(self, began: float, took_s: float) -> None:
        """Count a call that began then by time.monotonic()."""
        if began >= self.since:
            self.calls.append((time.time() - time.monotonic() + began, took_s))


@dataclass(slots=True)
class SimulatedHost:
    """One host: what it says, and the version of the list that it was told last."""

    name: str
    token: str
    instances: list[str]
    boot: str = field(default_factory=lambda: str(uuid.uuid4()))
    seq: int = 0
    have: str = ""
    measured: int = 0  # the last minute that was reported

    async def live(self, port: int, delay_s: float, until: float, figures: Figures) -> None:
        """Report again and again until then; a call that fails is noted, and made anew on another connection."""
        await asyncio.sleep(delay_s)
        while time.monotonic() < until:
            try:
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
            except OSError as error:
                figures.faults.append(f"{self.name}: {error}")
                await asyncio.sleep(1)
                continue
            try:
                # A server closes connections that are idle: after a pause there is a new one.
                while time.monotonic() < until and await self._call(reader, writer, figures):
                    pass
            except (OSError, asyncio.IncompleteReadError, RuntimeError) as error:
                figures.faults.append(f"{self.name}: {error}")
            finally:
                writer.close()

    async def _call(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, figures: Figures
    ) -> bool:
        """Report once, and pause where the answer came before the period was over; say whether it did not."""
        report = self._report()
        body = json.dumps(report).encode()
        began = time.monotonic()
        writer.write(HEADERS.format(token=self.token, length=len(body)).encode() + body)
        answer = await _answer(reader)
        took_s = time.monotonic() - began
        held_s = report["wait_s"] if answer["version"] == report["have"] else 0.0
        figures.note(began, max(0.0, took_s - held_s))
        self.have = answer["version"]
        pause_s = PERIOD_S - took_s
        await asyncio.sleep(max(0.0, pause_s))
        return pause_s <= 0

    def _report(self) -> dict[str, Any]:
        self.seq += 1
        minute = int((time.time() - pace.lag_s(self.name)) // MINUTE_S) - 1
        fresh, self.measured = minute > self.measured, minute
        return {
            "protocol": 2,
            "version": "0.1.0",
            "name": self.name,
            "machine": f"machine-{self.name}",
            "seat": f"seat-{self.name}",
            "boot": self.boot,
            "seq": self.seq,
            "clock": time.time(),
            "address": f"{self.name}.test",
            "offers": ["process"],
            "trouble": "",
            "cards": [_card(self.name, index) for index in range(CARDS)],
            "minutes": [_minute(index, minute) for index in range(CARDS)] if fresh else [],
            "calls": CALLS,
            "instances": [_instance(pk) for pk in self.instances],
            "have": self.have,
            "wait_s": PERIOD_S if self.have else 0.0,
        }


async def _answer(reader: asyncio.StreamReader) -> dict[str, Any]:
    """Read one answer of HTTP/1.1 with a length; raises RuntimeError for any status but 200."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
    length = int(head.partition("content-length:")[2].partition("\r\n")[0])
    body = await reader.readexactly(length)
    if not head.startswith("http/1.1 200"):
        raise RuntimeError(f"{head.splitlines()[0]} {body[:200]!r}")
    answer: dict[str, Any] = json.loads(body)
    return answer


def _card(name: str, index: int) -> dict[str, Any]:
    return {
        "index": index, "uuid": f"GPU-{name}-{index}", "gpu_type": "P40", "memory_mib": 22919, "state": "ok",
        "reason": "", "fault": "",
    }  # fmt: skip


def _minute(index: int, minute: int) -> dict[str, Any]:
    return {
        "card": index, "minute": minute, "use_mean": 91, "use_max": 100, "memory_mean_mib": 20100,
        "memory_max_mib": 20800, "temperature_max_c": 71, "power_mean_w": 180, "power_max_w": 231,
        "ecc_corrected": 0, "ecc_uncorrected": 0, "outside": 0, "xids": [],
    }  # fmt: skip


def _instance(pk: str) -> dict[str, Any]:
    return {
        "id": pk, "phase": "running", "exit_code": None, "exit_signal": None, "by_itself": None, "detail": "",
        "cause": "", "commit": "", "log_bytes": 4096,
    }  # fmt: skip
