"""A full disk is told in a sentence."""

import os
from pathlib import Path

import pytest

from cluster.agent import disk


@pytest.mark.parametrize(("free", "full"), [(disk.LEAST - 1, True), (disk.LEAST, False)])
def test_a_disk_with_too_little_room_is_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, free: int, full: bool
) -> None:
    monkeypatch.setattr(
        os, "statvfs", lambda _: os.statvfs_result((4096, 1, 10**9, 10**9, free, 0, 0, 0, 0, 255))
    )
    assert disk.trouble(tmp_path).startswith(f"The disk of {tmp_path} is full") is full


def test_a_folder_that_is_not_made_yet_is_no_trouble(tmp_path: Path) -> None:
    assert disk.trouble(tmp_path / "later") == ""
