"""The instances of this host: find them on the disk, look at them, bring them to what should be."""

import asyncio
import logging
import os
import shutil
import uuid
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

from cluster.agent import records
from cluster.agent.cards import Cards
from cluster.agent.environment import environment, hostfile_text
from cluster.agent.kept import Kept, task_of
from cluster.agent.logs import Tail
from cluster.agent.orders import BadSpec, Desired, Order, read_spec
from cluster.agent.processes import boot_id
from cluster.converge import Seen, converge

log = logging.getLogger(__name__)


class Workspace:
    """All instances on this host, each in a folder of its own below `home`."""

    def __init__(
        self, home: Path, storage: Path, cards: Cards, log_cap: int, wake: Callable[[], None]
    ) -> None:
        """Keep instances below `home`; `wake` is called when one of them may have changed."""
        self._instances = home / "instances"
        self._trash = home / "trash"
        self._storage = storage
        self._cards = cards
        self._log_cap = log_cap
        self._wake = wake
        self._boot = boot_id()
        self._kept: dict[str, Kept] = {}
        self._chores: set[asyncio.Task[None]] = set()

    def load(self) -> None:
        """Find the instances that earlier agents left; raises OSError where the folders cannot be used."""
        for folder in (self._instances, self._trash):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for folder in sorted(self._instances.iterdir()):
            if _is_id(folder.name):
                self._keep(folder.name)
        self.look()
        for kept in self._kept.values():
            kept.tail.measure()
            kept.attach(self._wake)
        for folder in self._trash.iterdir():
            self._chore(_remove(folder))

    @property
    def busy(self) -> bool:
        """Whether something may change here without the platform's doing."""
        return any(kept.exit is None or kept.tail.unsent or kept.leaving for kept in self._kept.values())

    def reports(self) -> list[dict[str, Any]]:
        """Return all instances in the form of a report."""
        # One that is only prepared was started by nobody: it is not there yet.
        return [kept.report() for kept in self._kept.values() if kept.seen is not Seen.PREPARED]

    def tails(self) -> Iterator[tuple[str, Tail]]:
        """Return the logs by instance id."""
        return iter([(kept.id, kept.tail) for kept in self._kept.values()])

    def look(self) -> bool:
        """Look at everything that may change; return whether a phase did."""
        changed = False
        for kept in self._kept.values():
            moved = kept.look(self._boot)
            if moved or kept.exit is None:
                kept.tail.measure()
            if moved:
                log.info("%s: %s", kept.id, kept.report()["detail"] or kept.phase)
                changed = True
                if kept.lost:
                    self._chore(self._bury(kept))
        return changed

    def apply(self, desired: Desired) -> bool:
        """Start, stop and forget what `desired` asks for; return whether something was forgotten."""
        seen = {kept.id: kept.seen for kept in self._kept.values()}
        steps = converge(desired.wanted(), desired.forget, seen)
        for instance in steps.stop:
            self._kept[instance].stop()
        for instance in steps.void:
            self._keep(instance).void(records.STOPPED_EARLY, by_itself=False)
        for instance in steps.start:
            self._start(desired.orders[instance])
        if steps.start or steps.void:
            self._wake()
        return sum(self._forget(instance) for instance in steps.forget) > 0

    def _keep(self, instance: str) -> Kept:
        return self._kept.setdefault(instance, Kept(self._instances / instance, self._log_cap))

    def _start(self, order: Order) -> None:
        kept = self._keep(order.id)
        try:
            spec = read_spec(order.spec)
            env = environment(
                order.id,
                spec,
                cards=self._cards.now,
                storage=self._storage,
                hostfile=kept.hostfile,
                host=os.environ,
            )
            kept.start(task_of(spec, env, self._storage), hostfile_text(spec), self._wake)
        except BadSpec as fault:
            kept.void(str(fault), by_itself=True)
        except OSError as error:
            kept.void(f"The host could not start a keeper: {error.strerror or error}.", by_itself=True)

    def _forget(self, instance: str) -> bool:
        kept = self._kept[instance]
        kept.tail.measure()
        kept.leaving = kept.tail.unsent
        if kept.leaving:
            return False
        # Moved before it is removed: a folder half removed would look like a keeper that died.
        rest = self._trash / f"{instance}.{uuid.uuid4().hex}"
        try:
            kept.folder.rename(rest)
        except FileNotFoundError:
            pass  # the disk was full when it should have been made
        except OSError as error:
            log.warning("%s stays on the disk: %s", kept.folder, error)
            return False
        del self._kept[instance]
        self._chore(_remove(rest))
        return True

    async def _bury(self, kept: Kept) -> None:
        await kept.bury()
        self._wake()

    def _chore(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._chores.add(task)
        task.add_done_callback(self._chores.discard)


async def _remove(folder: Path) -> None:
    await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)


def _is_id(name: str) -> bool:
    try:
        return str(uuid.UUID(name)) == name
    except ValueError:
        return False
