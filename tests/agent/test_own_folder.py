"""A task of the agent's own user takes its folder's rights away, and ends and is cleared away all the same."""

import asyncio
import os
import pickle
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from cluster.agent import keeper, processes, records
from cluster.agent.cards import Cards, Simulated
from cluster.agent.cgroup_places import Places
from cluster.agent.kept import Kept
from cluster.agent.offers import Offers
from cluster.agent.orders import read_desired
from cluster.agent.processes import boot_id
from cluster.agent.workspace import Workspace, _remove_now
from cluster.converge import Seen
from tests.agent.conftest import new_id

NOBODY = 65534
pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can be somebody else for a while")


def as_nobody(act: Callable[[], Any]) -> Any:
    """Return what `act` does in a process of another user, whom rights stop as they do not stop root."""
    said, tell = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.setgroups([])
            os.setresgid(NOBODY, NOBODY, NOBODY)
            os.setresuid(NOBODY, NOBODY, NOBODY)
            os.write(tell, pickle.dumps(act()))
        except BaseException as error:
            os.write(tell, pickle.dumps(error))
        finally:
            os._exit(0)
    os.close(tell)
    with open(said, "rb") as pipe:
        content = pipe.read()
    os.waitpid(pid, 0)
    found = pickle.loads(content) if content else None
    if isinstance(found, BaseException):
        raise found
    return found


@pytest.fixture
def home() -> Iterator[Path]:
    """Return the state folder of an agent of that user."""
    folder = Path(tempfile.mkdtemp())
    for path in (folder, folder / "instances", folder / "trash", folder / "storage"):
        path.mkdir(exist_ok=True)
        os.chown(path, NOBODY, NOBODY)
    yield folder
    shutil.rmtree(folder)


def kept(home: Path, command: str) -> Path:
    """Keep an instance with this command to its end, as that user; return its folder."""
    folder = home / "instances" / new_id()
    task = {
        **{"command": command, "exit_command": "", "grace_s": 1.0, "env": {"PATH": os.environ["PATH"]}},
        **{"storage_root": str(home / "storage"), "folders": []},
    }

    def keep() -> None:
        folder.mkdir(mode=0o700)
        records.write(str(folder), records.SPEC, task)
        keeper.main(str(folder))

    as_nobody(keep)
    return folder


@pytest.mark.parametrize(
    "taken", ["chmod 500 ..", "chmod 0 ..", "chmod 500 .. ../..", "chmod 0 ../*.json ..", "chmod 0 .. ."]
)
def test_it_ends_and_its_end_is_known_and_its_folder_goes(home: Path, taken: str) -> None:
    folder = kept(home, f"mkdir -p a/b; chmod 500 a; {taken}; exit 3")

    def look() -> tuple[str, Any, list[str]]:
        seen = Kept(folder, 1000)
        seen.look(boot_id())
        asyncio.run(forget())
        return seen.phase, (seen.exit or {}).get("exit_code"), os.listdir(home / "instances")

    async def forget() -> None:
        offers = Offers(processes=True, engine="none")
        place = Workspace(
            *(home, home / "storage", Cards(Simulated([])), 1000, lambda: None),
            offers=offers,
            places=Places(),
        )
        place.load()
        answer = {"version": "1", "now": 0.0, "instances": [], "forget": [folder.name]}
        place.apply(read_desired(answer))
        while os.listdir(home / "trash"):
            await asyncio.sleep(0.01)

    assert as_nobody(look) == ("gone", 3, [])


def test_what_a_task_made_read_only_is_removed(home: Path) -> None:
    def remove() -> bool:
        folder = home / "trash/one"
        (folder / "deep/er").mkdir(parents=True)
        (folder / "deep/er/file").touch()
        (folder / "away").symlink_to("/")
        for path in (folder / "deep/er", folder / "deep", folder):
            path.chmod(0o500)
        _remove_now(folder)
        return folder.exists()

    assert as_nobody(remove) is False


@pytest.mark.parametrize("as_whom", [as_nobody, lambda act: act()], ids=["nobody", "root"])
def test_folders_in_folders_without_end_are_removed(home: Path, as_whom: Callable[..., Any]) -> None:
    def remove() -> tuple[str, bool]:
        folder = home / f"trash/{new_id()}.1"
        folder.mkdir()
        nest(folder)
        return _remove_now(folder), folder.exists()

    assert as_whom(remove) == ("", False)


def test_a_private_folder_that_a_task_makes_endless_holds_up_no_agent(home: Path) -> None:
    def look() -> tuple[str, bool]:
        folder = home / "instances" / new_id()
        (folder / records.PRIVATE).mkdir(parents=True)
        nest(folder / records.PRIVATE)
        records.write(str(folder), records.EXIT, records.exit_record(detail="", by_itself=True, exit_code=0))
        seen = Kept(folder, 1000)
        seen.look(boot_id())
        return seen.phase, (folder / records.PRIVATE).exists()

    assert as_nobody(look) == ("gone", False)


def nest(folder: Path, depth: int = 3000) -> None:
    """Make folders in folders, deeper than a path can say, and the last one locked."""
    handle = os.open(folder, os.O_RDONLY)
    for _ in range(depth):
        os.mkdir("a", dir_fd=handle)
        below = os.open("a", os.O_RDONLY, dir_fd=handle)
        os.close(handle)
        handle = below
    os.fchmod(handle, 0o500)
    os.close(handle)


def test_records_of_another_kind_than_ours_harm_nobody(home: Path) -> None:
    folder = home / "instances" / new_id()
    folder.mkdir()
    records.write(str(folder), records.GROUPS, {"memory": 7})
    assert Kept(folder, 1000)._group().members() == set()


@pytest.mark.parametrize(
    "claim", [{}, {"boot": "x"}, {"boot": 1, "pid": 1, "start": 1}, {"boot": "x", "pid": "1"}]
)
def test_one_whose_claim_is_spoilt_counts_as_lost(home: Path, claim: dict[str, Any]) -> None:
    folder = home / "instances" / new_id()
    folder.mkdir()
    records.write(str(folder), records.CLAIM, claim)
    seen = Kept(folder, 1000)
    assert seen.look(boot_id())
    assert (seen.lost, seen.seen, seen.report()["phase"]) == (True, Seen.LIVE, "ending")
    asyncio.run(seen.bury())
    assert (seen.report()["phase"], seen.report()["detail"]) == ("gone", "keeper lost")


def test_records_with_other_values_than_ours_stop_no_report(home: Path) -> None:
    folder = home / "instances" / new_id()
    folder.mkdir()
    seen = Kept(folder, 1000)
    me = processes.find(os.getpid())
    assert me is not None
    records.write(str(folder), records.CLAIM, {"boot": boot_id(), "pid": me.pid, "start": me.start})
    records.write(str(folder), records.STATUS, {"phase": ["odd"], "commit": 7})
    seen.look(boot_id())
    assert (seen.report()["phase"], seen.report()["commit"]) == ("starting", "7")
    odd = {"exit_code": 10**12, "exit_signal": "9", "by_itself": 1, "detail": None, "cause": {}}
    records.write(str(folder), records.EXIT, odd)
    seen.look(boot_id())
    told = seen.report()
    assert (told["phase"], told["exit_code"], told["exit_signal"], told["by_itself"]) == (
        "gone",
        None,
        None,
        None,
    )
    assert (told["detail"], told["cause"]) == ("None", "{}")
