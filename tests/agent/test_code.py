"""Packed code on its way to an instance: it arrives once, is unpacked, and starts; or the reason is told."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.agent.conftest import Machine, marked, new_id, spec
from tests.agent.packing import code, digest, member, packed
from tests.agent.platform import Platform


@pytest.fixture
def platform(host: Machine) -> Platform:
    return host.platform


def upload(archive: bytes, **changes: Any) -> dict[str, Any]:
    """Return what a spec says of an uploaded archive."""
    return {"kind": "upload", "digest": digest(archive), "files": 1000, "bytes": 10**7, **changes}


def ended(platform: Platform, archive: bytes, command: str | None = "", **changes: Any) -> tuple[str, Any]:
    """Run the code of `archive`, its own start by default; return the instance and its end."""
    platform.code[digest(archive)] = archive
    instance = new_id()
    platform.want(instance, spec(command, code=upload(archive), **changes))
    return instance, platform.phase(instance, "gone")


@pytest.mark.parametrize(
    ("archive", "said"),
    [
        (code(start_sh="#!/bin/sh\necho sh; cat start.py", start_py="print('no')"), b"sh\nprint('no')"),
        (packed((member("start.sh"), b"echo plain $0")), b"plain ./start.sh"),
        (packed((member("start.sh"), b"#!/usr/bin/env -S sh -u\r\necho $-; :")), b"u"),
        (code(start_py="#!/usr/bin/env python3\nprint('py')"), b"py"),
        (packed((member("start.py"), b"print('python3')")), b"python3"),
    ],
)
def test_without_a_command_start_sh_else_start_py_runs_in_the_folder_of_the_code(
    platform: Platform, archive: bytes, said: bytes
) -> None:
    instance, gone = ended(platform, archive)
    assert (gone["exit_code"], gone["detail"], gone["cause"]) == (0, "", "")
    log = platform.log_has(instance, said)
    assert b"[taiji] waiting for the code sha256:" + digest(archive).encode() in log


def test_a_command_runs_in_the_folder_of_the_code_and_needs_no_start_file(platform: Platform) -> None:
    instance, gone = ended(platform, code(train_py="print(6 * 7)"), "python3 train.py")
    assert gone["exit_code"] == 0
    assert b"42" in platform.log_has(instance, b"42")


def test_code_that_starts_nothing_is_a_failure_of_the_code(platform: Platform) -> None:
    _, gone = ended(platform, code(main_sh="echo no"))
    assert (gone["exit_code"], gone["by_itself"], gone["cause"]) == (None, True, "code")
    assert "neither start.sh nor start.py" in gone["detail"]


def test_an_idle_member_has_the_code_too(platform: Platform, host: Machine) -> None:
    archive = code(worker_sh="echo hello")
    platform.code[digest(archive)] = archive
    instance = new_id()
    platform.want(instance, spec(None, code=upload(archive)))
    platform.phase(instance, "running")
    assert (host.folder(instance) / "work" / "worker.sh").read_text() == "echo hello"
    platform.stop(instance)
    platform.phase(instance, "gone")


def test_code_that_comes_slowly_holds_no_other_code_up(platform: Platform) -> None:
    slow, quick = code(start_sh="#!/bin/sh\necho slow"), code(start_sh="#!/bin/sh\necho quick")
    platform.code[digest(slow)] = slow
    platform.held.add(digest(slow))
    instance = new_id()
    try:
        platform.want(instance, spec("", code=upload(slow)))
        platform.until(lambda: digest(slow) in platform.downloads)
        assert ended(platform, quick)[1]["exit_code"] == 0
    finally:
        platform.held.clear()
    assert platform.phase(instance, "gone")["exit_code"] == 0


def test_the_same_code_comes_to_a_host_once(platform: Platform) -> None:
    archive = code(start_sh="#!/bin/sh\necho once")
    first, second = (ended(platform, archive)[0] for _ in range(2))
    both = [new_id(), new_id()]
    for instance in both:
        platform.want(instance, spec("", code=upload(archive)))
    for instance in (first, second, *both):
        platform.phase(instance, "gone")
        platform.log_has(instance, b"once")
    assert platform.downloads.count(digest(archive)) == 1


def test_code_that_leads_out_of_its_folder_is_not_started(platform: Platform, host: Machine) -> None:
    instance, gone = ended(platform, packed((member("../../../out"), b"x"), (member("start.sh"), b"echo no")))
    assert gone["cause"] == "code"
    assert gone["detail"] == "The code could not be unpacked: ../../../out does not stay in the folder."
    assert not list(host.state.rglob("out"))
    assert b"no\n" not in platform.logs[instance]


def test_code_larger_than_its_limit_is_not_started(platform: Platform) -> None:
    archive = packed((member("start.sh"), b"#" * 2000))
    platform.code[digest(archive)] = archive
    instance = new_id()
    platform.want(instance, spec("", code=upload(archive, bytes=1999)))
    gone = platform.phase(instance, "gone")
    assert (gone["cause"], "which is the most" in gone["detail"]) == ("code", True)


def test_code_that_the_platform_does_not_have_or_that_arrives_damaged_is_told(platform: Platform) -> None:
    missing, damaged = code(start_sh="echo 1"), code(start_sh="echo 2")
    platform.code[digest(damaged)] = missing
    found = []
    for archive in (missing, damaged):
        instance = new_id()
        platform.want(instance, spec("", code=upload(archive)))
        gone = platform.phase(instance, "gone")
        found.append((gone["cause"], gone["detail"]))
    assert found == [
        ("code", "The platform does not hand out the code: There is no such code."),
        ("code_away", "The code arrived damaged: it is not what its digest says."),
    ]


def put_stalled(host: Machine, archive: bytes) -> None:
    """Let the host have the archive, as something whose reader waits for ever."""
    place = host.state / "code" / f"{digest(archive)}.tar.gz"
    place.parent.mkdir(exist_ok=True)
    os.mkfifo(place)


def test_code_that_never_comes_is_given_up_when_its_time_is_over(platform: Platform, host: Machine) -> None:
    archive = code(start_sh="echo 3")
    put_stalled(host, archive)
    instance = new_id()
    platform.want(instance, spec("", code=upload(archive), prepare_s=1))
    gone = platform.phase(instance, "gone")
    assert (gone["cause"], gone["detail"]) == ("code_away", "The code was not there within 1 s.")
    assert marked(instance) == []


def test_one_that_is_stopped_while_its_code_is_brought_ends_at_once(
    platform: Platform, host: Machine
) -> None:
    archive = code(start_sh="echo 4")
    put_stalled(host, archive)
    instance = new_id()
    platform.want(instance, spec("", code=upload(archive), grace_s=20, exit_command="echo leaving"))
    platform.log_has(instance, b"unpacking")
    platform.until(lambda: len(marked(instance)) == 1)  # the program that unpacks
    platform.stop(instance)
    gone = platform.phase(instance, "gone")
    assert (gone["by_itself"], gone["detail"]) == (False, "It was stopped before it started.")
    assert marked(instance) == []
    assert b"leaving" not in platform.logs[instance]


def test_a_keeper_that_waits_for_code_gets_it_from_the_next_agent(machine: Machine) -> None:
    archive, platform = code(start_sh="#!/bin/sh\necho late"), machine.platform
    platform.code[digest(archive)] = archive
    platform.code_status = 503
    machine.start()
    instance = new_id()
    platform.want(instance, spec("", code=upload(archive)))
    platform.until(lambda: platform.downloads)
    machine.end(signal.SIGKILL)
    platform.code_status = None
    machine.start()
    gone = platform.phase(instance, "gone")
    assert (gone["exit_code"], gone["cause"]) == (0, "")
    assert b"late" in platform.log_has(instance, b"late")


def test_a_full_disk_is_told_as_the_reason(tmp_path: Path) -> None:
    if os.geteuid():
        pytest.skip("only root can make a small disk")
    archive = packed((member("start.sh"), os.urandom(3 * 2**20)))
    disk = tmp_path / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "none", disk], check=True)
    try:
        path = tmp_path / "code.tar.gz"
        path.write_bytes(archive)
        call = "import sys; from cluster.agent.bundle import main; main(sys.argv[1:])"
        command = [sys.executable, "-c", call, str(path), str(disk), "10", str(10**9)]
        run = subprocess.run(command, capture_output=True, text=True)
        assert (run.returncode, run.stderr) == (1, "It could not be written: No space left on device.\n")
    finally:
        subprocess.run(["umount", disk], check=True)
