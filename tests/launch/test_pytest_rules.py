"""The rules of `script/test`."""

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import pytest

from launch.places import ROOT
from launch.pytest_rules import ON_POSTGRESQL_ALONE, runs_once

SKIPS = """
import pytest

def test_good() -> None:
    pass

@pytest.mark.skip(reason="no browser")
def test_skipped() -> None:
    pass
"""


DRAWS = """
from hypothesis import given, settings, strategies as st

@given(st.integers())
@settings(max_examples=1)
def test_drawn(number: int) -> None:
    pass
"""


def outcome(folder: Path, *options: str) -> int:
    """Run pytest with our rules in a folder of its own and return its exit status."""
    (folder / "test_one.py").write_text(SKIPS)
    (folder / "pytest.ini").write_text("[pytest]\n")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "launch.pytest_rules", *options]
    command += ["-c", str(folder / "pytest.ini"), "--rootdir", str(folder), str(folder)]
    env = os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    return subprocess.run(command, cwd=ROOT, env=env, capture_output=True).returncode


@pytest.mark.parametrize("workers", [[], ["-p", "xdist", "-n", "1"]])
def test_a_skipped_test_fails_the_run_where_none_may_be_skipped(tmp_path: Path, workers: list[str]) -> None:
    assert outcome(tmp_path, *workers) == 0
    assert outcome(tmp_path, "--no-skips", *workers) == 1


def test_without_a_test_of_the_database_there_is_nothing_to_run_on_it(tmp_path: Path) -> None:
    assert outcome(tmp_path, "--only-database") == 5


def test_exploring_runs_the_files_whose_tests_draw_examples(tmp_path: Path) -> None:
    assert outcome(tmp_path, "--only-drawn") == 5
    (tmp_path / "test_two.py").write_text(DRAWS)
    assert outcome(tmp_path, "--only-drawn", "--no-skips") == 0


def test_what_postgresql_alone_is_enough_for_is_there_and_says_why() -> None:
    assert [name for name in ON_POSTGRESQL_ALONE if not (ROOT / name).exists()] == []
    assert all(ON_POSTGRESQL_ALONE.values())


@dataclass(frozen=True, kw_only=True)
class Item:
    """What the rules look at of a collected test."""

    place: str
    marks: tuple[pytest.Mark, ...] = ()

    @property
    def path(self) -> Path:
        return ROOT / self.place

    def get_closest_marker(self, name: str) -> pytest.Mark | None:
        return next((mark for mark in self.marks if mark.name == name), None)


ALONE = pytest.mark.postgresql_alone.mark


@pytest.mark.parametrize(
    ("item", "once"),
    [
        (Item(place="tests/kubernetes/test_loop.py"), True),
        (Item(place="tests/api/test_whole_schema.py"), True),
        (Item(place="tests/api/test_schema.py"), False),
        (Item(place="tests/life/test_stops.py"), False),
        (Item(place="tests/life/test_stops.py", marks=(ALONE,)), True),
    ],
)
def test_a_test_runs_once_where_its_place_or_its_mark_says_so(item: Item, once: bool) -> None:
    assert runs_once(cast(pytest.Item, item)) is once
