"""The instances of this host: find them on the disk, look at them, bring them to what should be."""

import asyncio
import contextlib
import logging
import os
import uuid
from collections.abc import Callable, Coroutine, Iterator, Sequence
from pathlib import Path
from typing import Any

from cluster.agent import mounts, records, removal, users
from cluster.agent.cards import Cards
from cluster.agent.cgroup_places import Places
from cluster.agent.container_spec import container_task, nodes_below
from cluster.agent.engine import INSIDE, Engine, EngineAway, EngineFault, open_engine
from cluster.agent.environment import environment, hostfile_text
from cluster.agent.kept import RETRY_S, Kept, group_of
from cluster.agent.logs import Tail
from cluster.agent.offers import PROCESS, Offers
from cluster.agent.orders import BadSpec, Desired, Order, Spec, agreed_commit, read_spec
from cluster.agent.outside import Ours
from cluster.agent.processes import boot_id
from cluster.agent.task import task_of
from cluster.converge import Seen, converge

log = logging.getLogger(__name__)

TRASH_S = 60.0  # until it is tried again to remove what could not be


class Workspace:
    """All instances on this host, each in a folder of its own below `home`."""

    def __init__(
        self,
        home: Path,
        storage: Path,
        cards: Cards,
        log_cap: int,
        wake: Callable[[], None],
        *,
        offers: Offers,
        user: str = "",
        places: Places,
        devices: Sequence[str] = (),
    ) -> None:
        """Keep instances below `home`; `wake` is called when one of them may have changed.

        `user` is the UID:GID that tasks run as, blank for the agent's own; `places` where control groups are made;
        `devices` what every container gets besides its cards.
        """
        self._home = home
        self._offers = offers
        self._user = user
        self._variables = users.environment(user, os.environ)
        self._groups = places.parents
        self._devices = devices
        self._instances = home / "instances"
        self._trash = home / "trash"
        self._storage = storage
        self._cards = cards
        self._log_cap = log_cap
        self._wake = wake
        self._boot = boot_id()
        self.doubtful = False  # whether the last look saw something fail by itself
        self._kept: dict[str, Kept] = {}
        self._chores: set[asyncio.Task[None]] = set()
        self._engines: set[str] = set()  # those that this host used to have, and may have containers of ours
        self._complained: set[str] = set()  # of which instances and engines

    def load(self) -> None:
        """Find the instances that earlier agents left; raises OSError where the folders cannot be used."""
        for folder in (self._instances, self._trash):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for folder in (self._home, self._instances):
            # Another user's task has to get through to its own folder, and sees nothing on the way.
            folder.chmod(0o711 if self._user else 0o700)
        for folder in sorted(self._instances.iterdir()):
            if _is_id(folder.name):
                self._keep(folder.name)
        self.look()
        for kept in self._kept.values():
            kept.tail.measure()
            kept.attach(self._wake)
            with contextlib.suppress(OSError):  # of its disk: the look says so
                self._engines |= {kept.engine} - {""}
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

    def ours(self) -> Ours:
        """Return what runs here for the platform; asked by other threads too."""
        kept = list(self._kept.values())  # one step, so nothing comes or goes while it is copied
        keepers = (one.keeper for one in kept)
        return Ours(
            instances=frozenset(one.id for one in kept),
            keepers=frozenset(keeper for keeper in keepers if keeper is not None),
        )

    def tails(self) -> Iterator[tuple[str, Tail]]:
        """Return the logs by instance id."""
        return iter([(kept.id, kept.tail) for kept in self._kept.values()])

    def wanted(self) -> set[str]:
        """Return the digests of the code that instances wait for."""
        return {kept.wants for kept in self._kept.values() if kept.wants and not kept.told}

    def tell(self, digest: str, words: dict[str, str]) -> None:
        """Tell those who wait for the code `digest` what became of it."""
        for kept in self._kept.values():
            if kept.wants == digest:
                kept.tell(**words)

    def look(self) -> bool:
        """Look at everything that may change; return whether a phase did."""
        changed = self.doubtful = False
        for kept in self._kept.values():
            moved = kept.look(self._boot)
            self.doubtful |= moved and kept.failed
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
        for order in desired.orders.values():
            if not order.run or order.id not in self._kept:
                continue
            if order.go:
                self._kept[order.id].go()
            if commit := agreed_commit(order):
                self._kept[order.id].tell(commit=commit)
        for instance in steps.void:
            if not self._keep(instance).find_lost():  # else the next look buries it
                self._kept[instance].void(records.STOPPED_EARLY, by_itself=False)
        started = [self._start(desired.orders[instance]) for instance in steps.start]
        if any(started) or steps.void:
            self._wake()
        return sum(self._forget(instance) for instance in steps.forget) > 0

    def _keep(self, instance: str) -> Kept:
        return self._kept.setdefault(instance, Kept(self._instances / instance, self._log_cap))

    def _start(self, order: Order) -> bool:
        """Start what is ordered, or void it; return False where it has to wait: it is tried again at every look."""
        kept = self._keep(order.id)
        try:
            spec = read_spec(order.spec)
            if spec.container and not self._offers.looked:
                return False
            env = environment(
                order.id,
                spec,
                cards=self._cards.now,
                storage=self._storage,
                hostfile=Path(f"{INSIDE}/hosts") if spec.container else kept.hostfile,
                host=None if spec.container else self._variables,
            )
            kept.start(self._task(spec, env), hostfile_text(spec), self._wake)
        except BadSpec as fault:
            kept.void(str(fault), by_itself=True)
        except OSError as error:
            kept.void(f"The host could not start a keeper: {error.strerror or error}.", by_itself=True)
        return True

    def _task(self, spec: Spec, env: dict[str, str]) -> dict[str, Any]:
        wanted = spec.container
        if wanted is None:
            if PROCESS not in self._offers.now:
                raise BadSpec("This host runs no plain processes, and the order names no image.")
            return task_of(spec, env, self._storage, user=self._user, groups=self._groups)
        if self._offers.engine is None:
            raise BadSpec("This host runs no containers.")
        cards = [card for card in self._cards.now if card.index in spec.cards]
        if any(card.shares for card in cards):
            raise BadSpec(
                "Shares of a card are for plain processes: this container would get the whole card."
            )
        try:
            besides = nodes_below(self._devices)
        except FileNotFoundError as error:
            raise BadSpec(f"This host's --devices name {error}, where no device is.") from error
        container = container_task(
            wanted,
            engine=self._offers.engine,
            owner=self._home,
            user=self._user,
            cards=cards,
            besides=besides,
        )
        return task_of(spec, env, self._storage, container, container["user"])

    async def sweep(self) -> None:
        """Remove the containers of this agent that nothing here keeps any more, also those of an earlier engine."""
        if self._offers.engine:
            self._engines.add(self._offers.engine)
        for address in sorted(self._engines):
            await self._sweep(address)

    async def _sweep(self, address: str) -> None:
        try:
            engine = await asyncio.to_thread(open_engine, address)
            owned = await asyncio.to_thread(engine.owned, str(self._home))
            self._complained.discard(address)
        except (EngineAway, EngineFault) as fault:
            self._complain(address, f"Nobody knows which containers {address} has left behind: {fault}.")
            return
        # Looked at after they were listed: what is listed was known here before it was made.
        for instance, name in owned.items():
            kept = self._kept.get(instance)
            if kept is None or kept.exit is not None:
                await self._remove_left(engine, name)

    async def _remove_left(self, engine: Engine, name: str) -> None:
        """Remove a container that nobody keeps; one that cannot be removed holds up no other."""
        self._complain(f"{name} left", f"The container {name} was left behind and is removed.")
        try:
            await asyncio.to_thread(engine.remove, name)
        except (EngineAway, EngineFault) as fault:
            self._complain(name, f"The container {name} stays: {fault}.")
        else:
            self._complained -= {name, f"{name} left"}

    def _complain(self, name: str, sentence: str) -> None:
        """Say what is wrong with an instance or an engine, once for as long as anything is."""
        if name not in self._complained:
            log.warning("%s", sentence)
            self._complained.add(name)

    def _forget(self, instance: str) -> bool:
        kept = self._kept[instance]
        kept.tail.measure()
        kept.leaving = kept.tail.unsent
        if kept.leaving:
            return False
        # Moved before it is removed: a folder half removed would look like a keeper that died.
        rest = self._trash / f"{instance}.{uuid.uuid4().hex}"
        try:
            places = map(str, (kept.folder, self._instances, self._trash))
            records.insist(lambda: kept.folder.rename(rest), *places)
        except FileNotFoundError:
            pass  # the disk was full when it should have been made
        except OSError as error:
            self._complain(instance, f"{kept.folder} stays on the disk: {error}")
            return False
        self._complained.discard(instance)
        del self._kept[instance]
        self._chore(_remove(rest))
        return True

    async def _bury(self, kept: Kept) -> None:
        """Bury it, however often that is disturbed: nobody else ever would, and its cards stay taken until then."""
        while kept.exit is None:
            try:
                await kept.bury()
            except OSError as error:
                log.warning("What is left of %s is not ended yet: %s.", kept.id, error.strerror or error)
                await asyncio.sleep(RETRY_S)
        self._wake()

    def _chore(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._chores.add(task)
        task.add_done_callback(self._chores.discard)


async def _remove(folder: Path) -> None:
    """Remove the folder of an instance that is forgotten, with what lies elsewhere of it, whenever that can be."""
    said = ""
    while why := await asyncio.to_thread(_remove_now, folder):
        if why != said:
            log.warning("%s stays on the disk: %s", folder, why)
            said = why
        await asyncio.sleep(TRASH_S)


def _remove_now(folder: Path) -> str:
    """Remove it, or return why not."""
    mounts.release(str(folder))
    if left := mounts.below(str(folder)):
        return f"{left[0]} cannot be unmounted"  # it is somebody's data: nothing may remove that
    try:
        group = group_of(folder, folder.name.partition(".")[0])
    except OSError as error:
        return error.strerror or str(error)
    if not group.remove():  # afterwards nobody would know that it is ours
        return f"the control group {group.folders[0]} cannot be removed"
    return removal.remove(str(folder))


def _is_id(name: str) -> bool:
    try:
        return str(uuid.UUID(name)) == name
    except ValueError:
        return False
