"""A host that cannot use the platform's storage says so and offers nothing, until it can."""

import os
import tempfile
import threading
import time
from pathlib import Path

import pytest

from cluster.agent import agent, storage
from cluster.agent.storage import Storage
from tests.agent.conftest import Machine, new_id, spec
from tests.agent.test_own_folder import as_nobody
from tests.patience import WITHIN_S


def test_a_storage_that_is_there_and_can_be_written_is_usable(tmp_path: Path) -> None:
    found = Storage(tmp_path)
    assert (found.usable, found.refresh(), found.usable, found.trouble) == (False, True, True, "")
    assert found.refresh() is False


@pytest.mark.parametrize("made", ["nothing", "file"])
def test_what_is_no_folder_is_no_storage(tmp_path: Path, made: str) -> None:
    place = tmp_path / "storage"
    if made == "file":
        place.touch()
    found = Storage(place)
    assert (found.refresh(), found.usable) == (False, False)
    assert found.trouble == f"The storage {place} is not there: nothing can start here."


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be somebody else for a while")
@pytest.mark.parametrize(("business", "usable"), [(None, False), (0o755, False), (0o777, True)])
def test_a_storage_that_may_not_be_written_is_usable_where_a_business_has_a_folder_of_its_own(
    business: int | None, usable: bool
) -> None:
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        place.chmod(0o755)
        if business is not None:
            (place / "business-1").mkdir()
            (place / "business-1").chmod(business)

        def look() -> tuple[bool, str]:
            found = Storage(place)
            found.refresh()
            return found.usable, found.trouble

        said = "" if usable else f"The storage {place} cannot be written: nothing can start here."
        assert as_nobody(look) == (usable, said)


def test_a_storage_that_hangs_is_told_and_asked_no_second_time_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    back, asked = threading.Event(), list[Path]()

    def hang(folder: Path) -> bool:
        asked.append(folder)
        return back.wait(WITHIN_S)

    monkeypatch.setattr(storage, "_takes_work", hang)
    found = Storage(tmp_path, answer_s=0.05)
    for _ in range(2):
        found.refresh()
        assert found.trouble == f"The storage {tmp_path} does not answer: nothing can start here."
    back.set()
    deadline = time.monotonic() + WITHIN_S
    while not found.refresh() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert (found.usable, len(asked)) == (True, 1)


def test_a_host_offers_nothing_while_its_storage_is_away(machine: Machine) -> None:
    platform, instance = machine.platform, new_id()
    machine.storage.rmdir()
    machine.start()
    platform.until(lambda: platform.reports)
    said = f"The storage {machine.storage} is not there: nothing can start here."
    assert (platform.reports[0]["offers"], platform.reports[0]["trouble"]) == ([], said)
    machine.storage.mkdir()
    platform.until(lambda: platform.reports[-1]["offers"], agent.STORAGE_S + 8)
    assert platform.reports[-1]["trouble"] == ""
    platform.want(instance, spec("true"))
    assert platform.phase(instance, "gone")["exit_code"] == 0
    assert f"The storage {machine.storage} can be used again." in machine.said()
