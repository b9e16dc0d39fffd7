"""Why code or data did not come: for any host, or for this one alone; and what code a host keeps."""

import asyncio
import hashlib
import os
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from cluster.agent import growth, keeper, records, steps
from cluster.agent.courier import RECENT_S, Courier
from cluster.agent.git import Git
from cluster.agent.keeper import Keeper
from cluster.agent.link import Away, Link, Refused
from cluster.agent.mounts import KERNEL, Mounts
from cluster.agent.prepare import Preparation
from cluster.agent.steps import NOT_WRITTEN, Failed, Steps
from cluster.agent.workload import CannotStart, note

URL = "https://git.example.com/a.git"


def steps_in(folder: Path) -> Steps:
    return Steps(str(folder), 60, lambda: False, lambda line: None)


def let_say(monkeypatch: pytest.MonkeyPatch, said: str) -> None:
    """Let every program fail with these words."""

    def run(*_: object) -> str:
        raise Failed(said)

    monkeypatch.setattr(Steps, "run", run)


@pytest.mark.parametrize(
    ("said", "sentence", "cause"),
    [
        ("fatal: Authentication failed for 'x'", f"{URL} refuses the token, or has no such project", "code"),
        ("remote: HTTP Basic: Access denied", f"{URL} refuses the token, or has no such project", "code"),
        ("fatal: repository 'x' not found", f"There is no project at {URL}.", "code"),
        ("fatal: transport 'file' not allowed", f"{URL} is not an address that may be used.", "code"),
        ("fatal: Could not resolve host: git", f"{URL} cannot be reached: fatal: Could not", "code_away"),
        ("error: SSL certificate problem", f"{URL} cannot be reached: error: SSL", "code_away"),
        ("fatal: write error: No space left on device", "The disk is full: fatal: write", "code_away"),
        ("warning: x\nfatal: odd", f"git could not fetch {URL}: fatal: odd", "code"),
    ],
)
def test_what_git_says_is_told_in_our_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str, sentence: str, cause: str
) -> None:
    let_say(monkeypatch, said)
    with pytest.raises(CannotStart) as caught:
        Git({"url": URL}, str(tmp_path), steps_in(tmp_path), {}).fetch("")
    assert str(caught.value).startswith(sentence)
    assert caught.value.cause == cause


def test_a_host_without_git_is_no_fault_of_the_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steps, "find", lambda program, path: None)
    with pytest.raises(CannotStart, match="This host has no git") as caught:
        Git({"url": URL}, str(tmp_path), steps_in(tmp_path), {}).fetch("")
    assert caught.value.cause == "code_away"


def test_code_that_would_fill_the_disk_is_no_fault_of_the_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Steps, "run", lambda *_: "")
    monkeypatch.setattr(growth, "LEAST", 2**62)
    with pytest.raises(CannotStart, match=f"The disk is full: {URL} does not fit on it") as caught:
        Git({"url": URL}, str(tmp_path), steps_in(tmp_path), {}).fetch("")
    assert caught.value.cause == "code_away"


@pytest.mark.parametrize(
    ("said", "cause"), [(f"{NOT_WRITTEN}: No space left.", "code_away"), ("x is there twice.", "code")]
)
def test_code_that_finds_no_room_is_no_fault_of_the_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str, cause: str
) -> None:
    records.write(str(tmp_path), records.TOLD, {"bundle": "code.tar.gz"})
    let_say(monkeypatch, said)
    spec = {"command": "true", "code": {"kind": "upload", "digest": "d", "files": 1, "bytes": 1}}
    with pytest.raises(CannotStart, match="could not be unpacked") as caught:
        Preparation(str(tmp_path), spec, lambda: False, lambda: True).bring()
    assert caught.value.cause == cause


def test_what_the_agent_is_to_bring_is_asked_for_again_where_the_disk_was_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(records, "RETRY_S", 0.01, raising=False)
    monkeypatch.setattr(Steps, "run", lambda *_: "")
    spec = {"command": "true", "code": {"kind": "upload", "digest": "d", "files": 1, "bytes": 1}}
    written: list[str | None] = []
    asked = 0

    def record() -> bool:
        nonlocal asked
        asked += 1
        if asked % 3:  # full, twice each time
            return False
        written.append(preparation.facts.get("wants"))
        records.write(str(tmp_path), records.TOLD, {"bundle": "code.tar.gz"})
        return True

    preparation = Preparation(str(tmp_path), {**spec, "prepare_s": 3}, lambda: False, record)
    preparation.bring()
    assert written == ["d", None]


@pytest.mark.parametrize(
    ("ordered", "detail", "cause"), [(False, "No.", "code"), (True, records.STOPPED_EARLY, "")]
)
def test_what_breaks_off_after_the_order_to_end_is_no_failure_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ordered: bool, detail: str, cause: str
) -> None:
    def start(_: Keeper) -> None:
        raise CannotStart("No.", "code")

    monkeypatch.setattr(Keeper, "start", start)
    monkeypatch.setattr(keeper, "end_ordered", lambda: ordered)
    Keeper(str(tmp_path), {"command": "true"}).keep()
    end = records.read(str(tmp_path), records.EXIT) or {}
    assert (end["by_itself"], end["detail"], end["cause"]) == (not ordered, detail, cause)


@pytest.mark.parametrize(
    ("said", "cause"),
    [
        ("mount error 13 = Permission denied", "data"),
        ("ceph mount failed with (1) Operation not permitted", "data"),
        ("mount error 2 = No such file or directory", "data"),
        ("mount error 110 = Connection timed out", "data_away"),
        ("mount error: ceph filesystem not supported by the system", "data_away"),
        (f"{KERNEL}: not found", "data_away"),
    ],
)
def test_data_that_is_refused_is_told_from_data_that_this_host_cannot_reach(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str, cause: str
) -> None:
    let_say(monkeypatch, f"some more\n{said}")
    data = {"addr": "10.0.0.1", "src": "/a", "dst": "/data/a", "name": "ann", "secret": "x"}
    private = tmp_path / "private"
    private.mkdir()
    mounts = Mounts(str(tmp_path), str(private), {"PATH": ""}, contained=True)
    with pytest.raises(CannotStart) as caught:
        mounts.mount([data], [], steps_in(tmp_path))
    assert str(caught.value) == f"10.0.0.1:/a could not be mounted as ann: {said}"
    assert caught.value.cause == cause
    assert list(private.iterdir()) == []


class Line(Link):
    """A line to a platform that gives out `content`, or refuses with `status`."""

    def __init__(self, content: bytes = b"", status: int = 200, pause_s: float = 0.0) -> None:
        self.content = content
        self.status = status
        self.pause_s = pause_s

    async def download(self, token: str, digest: str) -> AsyncIterator[bytes]:
        if self.status != 200:
            raise Refused(self.status, "No.")
        for byte in self.content:
            await asyncio.sleep(self.pause_s)
            yield bytes([byte])


def brought(line: Line, folder: Path, content: bytes = b"code", **options: Any) -> dict[str, Any]:
    digest = hashlib.sha256(content).hexdigest()
    return asyncio.run(Courier(line, folder, **options).bring("token", digest))


def test_code_comes_whole_or_is_told_why_not(tmp_path: Path) -> None:
    path = tmp_path / f"{hashlib.sha256(b'code').hexdigest()}.tar.gz"
    assert brought(Line(b"other"), tmp_path)["cause"] == "code_away"
    assert brought(Line(status=404), tmp_path)["cause"] == "code"
    assert list(tmp_path.iterdir()) == []
    assert brought(Line(b"code"), tmp_path) == {"bundle": str(path)}
    assert path.read_bytes() == b"code"
    path.with_name("file").touch()
    assert brought(Line(b"code"), tmp_path / "file") == {
        "fault": "The code could not be kept on this host: File exists.",
        "cause": "code_away",
    }


def test_code_that_comes_a_byte_now_and_then_is_given_up(tmp_path: Path) -> None:
    with pytest.raises(Away, match=r"did not come within 0\.2 s"):
        brought(Line(b"code" * 10, pause_s=0.02), tmp_path, b"code" * 10, limit_s=0.2)
    assert list(tmp_path.iterdir()) == []


def test_a_line_of_ours_survives_characters_that_cannot_be_written(tmp_path: Path) -> None:
    records.write(str(tmp_path), records.TOLD, {"fault": "No."})
    odd = {"kind": "upload", "digest": "\ud800", "files": 1, "bytes": 1}
    with pytest.raises(CannotStart, match=r"No\."):
        Preparation(str(tmp_path), {"command": "true", "code": odd}, lambda: False, lambda: True).bring()
    assert (tmp_path / records.LOG).read_text() == "[taiji] waiting for the code sha256:?\n"


def test_what_is_tried_again_and_again_is_noted_once(capsys: pytest.CaptureFixture[str]) -> None:
    for number in range(3):
        note(f"the engine is away: <Connection object at {hex(id(number))}{number}> says no")
        note("and it is not killed")
    note("something else")
    said = capsys.readouterr().err.splitlines()
    assert [line.split(":")[0] for line in said] == [
        "the engine is away",
        "and it is not killed",
        "something else",
    ]


def test_a_token_that_is_refused_is_no_fault_of_the_code(tmp_path: Path) -> None:
    with pytest.raises(Away):
        brought(Line(status=401), tmp_path)


def test_code_that_nobody_ran_for_longest_makes_room(tmp_path: Path) -> None:
    ages = {"oldest": 3 * RECENT_S, "older": 2 * RECENT_S, "recent": RECENT_S / 2}
    for name, age in ages.items():
        (tmp_path / name).write_bytes(b"x" * 10)
        os.utime(tmp_path / name, (time.time() - age,) * 2)
    assert "bundle" in brought(Line(b"code"), tmp_path, cap=20)
    assert sorted(path.name for path in tmp_path.iterdir() if not path.suffix) == ["older", "recent"]
    assert "bundle" in brought(Line(b"more"), tmp_path, content=b"more", cap=0)
    assert sorted(path.name for path in tmp_path.iterdir() if not path.suffix) == ["recent"]
