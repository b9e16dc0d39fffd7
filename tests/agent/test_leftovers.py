"""What instances leave behind is removed later where it could not be at once, and what cannot be is said once."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cluster.agent import cgroups, processes, records, workspace
from cluster.agent.cards import Cards, Simulated
from cluster.agent.cgroup_places import Places
from cluster.agent.engine import EngineAway, EngineFault
from cluster.agent.kept import Kept
from cluster.agent.offers import Offers
from cluster.agent.orders import read_desired
from cluster.agent.protocol import HOST_RESTARTED
from cluster.agent.workspace import Workspace
from tests.agent.conftest import new_id
from tests.patience import WITHIN_S

SECRET = {"token": "s3cr3t"}


def workspace_in(home: Path) -> Workspace:
    offers = Offers(processes=True, engine="none")
    cards = Cards(Simulated([]))
    return Workspace(home, home / "storage", cards, 1000, lambda: None, offers=offers, places=Places())


def instance_in(home: Path, instance: str, **kept: dict[str, Any]) -> Path:
    """Make the folder of an instance with the records named so."""
    folder = home / "instances" / instance
    folder.mkdir(parents=True)
    for name, record in kept.items():
        records.write(str(folder), getattr(records, name), record)
    return folder


def gone() -> dict[str, Any]:
    return records.exit_record(detail="", by_itself=True, exit_code=0)


def claim(boot: str) -> dict[str, Any]:
    return {"boot": boot, "pid": 2**22 + 1, "start": 1}


async def until(found: Callable[[], bool]) -> None:
    async with asyncio.timeout(WITHIN_S):
        while not found():
            await asyncio.sleep(0.01)


def test_a_control_group_that_could_not_be_removed_is_removed_when_it_can_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cgroups, "REMOVE_S", 0.0)
    monkeypatch.setattr(workspace, "TRASH_S", 0.02, raising=False)
    instance = new_id()
    group = tmp_path / "groups" / instance
    (group / "busy").mkdir(parents=True)
    (group / "busy/member").touch()
    folder = instance_in(tmp_path, instance, GROUPS={"memory": str(group.parent)})
    (tmp_path / "trash").mkdir()
    folder.rename(tmp_path / "trash" / f"{instance}.1")

    async def story() -> None:
        workspace_in(tmp_path).load()
        await asyncio.sleep(0.1)
        assert group.exists()
        (group / "busy/member").unlink()
        await until(lambda: not group.exists() and not list((tmp_path / "trash").iterdir()))

    asyncio.run(story())


class Stayed:
    """An engine that still has the containers of instances."""

    def __init__(self, *instances: str) -> None:
        self.left = {instance: f"taiji-{instance}" for instance in instances}

    def owned(self, owner: str) -> dict[str, str]:
        return dict(self.left)

    def remove(self, name: str) -> None:
        self.left = {instance: known for instance, known in self.left.items() if known != name}


def test_containers_of_the_engine_that_a_host_had_before_are_removed_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    ended, elsewhere = new_id(), new_id()
    instance_in(tmp_path, ended, EXIT=gone(), CONTAINER={"engine": "docker:/old"})
    instance_in(tmp_path, elsewhere, EXIT=gone(), CONTAINER={"engine": "docker:/away"})
    old = Stayed(ended)

    def open_engine(address: str) -> Stayed:
        if address != "docker:/old":
            raise EngineAway("nobody listens")
        return old

    monkeypatch.setattr(workspace, "open_engine", open_engine)

    async def story() -> None:
        place = workspace_in(tmp_path)
        place.load()
        await place.sweep()
        await place.sweep()

    asyncio.run(story())
    assert old.left == {}
    assert len([said for said in caplog.messages if "docker:/away has left behind" in said]) == 1


def test_a_container_that_cannot_be_removed_holds_up_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    names = [new_id() for _ in range(3)]
    for name in names:
        instance_in(tmp_path, name, EXIT=gone(), CONTAINER={"engine": "docker:/old"})
    left = Stayed(*names)
    stuck = left.left[names[0]]

    def remove(name: str) -> None:
        if name == stuck:
            raise EngineFault("device or resource busy")
        Stayed.remove(left, name)

    monkeypatch.setattr(left, "remove", remove)
    monkeypatch.setattr(workspace, "open_engine", lambda _address: left)

    async def story() -> None:
        place = workspace_in(tmp_path)
        place.load()
        await place.sweep()
        await place.sweep()

    asyncio.run(story())
    assert left.left == {names[0]: stuck}
    assert [said for said in caplog.messages if "stays" in said] == [
        f"The container {stuck} stays: device or resource busy."
    ]


@pytest.mark.parametrize("record", [{}, {"engine": 7}, {"engine": "cri-o:/x"}, {"engine": "none"}])
def test_a_spoilt_record_of_a_container_holds_no_end_up(tmp_path: Path, record: dict[str, Any]) -> None:
    folder = instance_in(tmp_path, new_id(), CONTAINER=record)
    kept = Kept(folder, 1000)
    asyncio.run(asyncio.wait_for(kept.bury(), WITHIN_S))
    assert kept.report()["detail"] == "keeper lost"


def test_a_folder_that_stays_on_the_disk_is_told_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    instance = new_id()
    instance_in(tmp_path, instance, EXIT=gone())

    def insist(*_: object) -> None:
        raise OSError(30, "Read-only file system")

    async def story() -> None:
        place = workspace_in(tmp_path)
        place.load()
        monkeypatch.setattr(records, "insist", insist)
        answer = {"version": "1", "now": 0.0, "instances": [], "forget": [instance]}
        for _ in range(3):
            place.apply(read_desired(answer))

    asyncio.run(story())
    assert len([said for said in caplog.messages if "stays on the disk" in said]) == 1


def test_a_host_that_was_restarted_keeps_no_secret_of_what_was_being_fetched(tmp_path: Path) -> None:
    folder = instance_in(tmp_path, new_id(), CLAIM=claim("another"))
    (folder / records.PRIVATE).mkdir()
    (folder / records.PRIVATE / "token").write_text("s3cr3t")
    kept = Kept(folder, 1000)
    kept.look(processes.boot_id())
    assert kept.report()["detail"] == HOST_RESTARTED
    assert not (folder / records.PRIVATE).exists()


@pytest.mark.parametrize("known", [{"STATUS": {"phase": "running"}}, {"EXIT": gone()}], ids=["runs", "gone"])
def test_a_spec_that_a_slower_agent_wrote_beside_a_keeper_that_has_its_own_is_removed(
    tmp_path: Path, known: dict[str, Any]
) -> None:
    me = processes.find(1)
    assert me is not None
    keeper = {"boot": processes.boot_id(), "pid": 1, "start": me.start}
    folder = instance_in(tmp_path, new_id(), CLAIM=keeper, SPEC=SECRET)
    kept = Kept(folder, 1000)
    kept.look(processes.boot_id())
    assert (folder / records.SPEC).exists()  # the keeper may be about to read it
    for name, record in known.items():
        records.write(str(folder), getattr(records, name), record)
    kept.look(processes.boot_id())
    assert not (folder / records.SPEC).exists()
