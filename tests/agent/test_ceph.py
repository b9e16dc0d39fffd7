"""Private ceph: mounted before the start where only the task sees it, and gone with it.

The client is a stand-in that takes the real one's words and mounts a small disk; mounting itself is real.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cluster.agent import mounts, processes
from cluster.agent.prepare import Preparation
from cluster.agent.workload import CannotStart
from tests.agent.conftest import Machine, marked, new_id, spec, stand_in

SECRET = "AQBhS3cr3tOfCephAAAAAAAAAAAAAAAA=="
MAY_MOUNT = (
    os.geteuid() == 0 and subprocess.run(["unshare", "-m", "true"], capture_output=True).returncode == 0
)
only_root = pytest.mark.skipif(not MAY_MOUNT, reason="mounting takes an agent that may mount")
# Notes its words and what its key file is like, then mounts something.
KERNEL = """#!/bin/sh
key=$(echo "$4" | sed 's/.*secretfile=\\([^,]*\\).*/\\1/')
echo "$0 $*|$(stat -c %a "$key")|$(cat "$key")" >> {notes}
case "$1" in *refused*) echo "mount error 13 = Permission denied" >&2; exit 32;; esac
case "$1" in *hangs*) sleep 100000;; esac
{besides}
exec mount -t tmpfs -o nosuid,nodev none "$2"
"""
FUSE = """#!/bin/sh
echo "$*|$(stat -c %a "$6")|$(cat "$6")|${{TAIJI_INSTANCE_ID:-unmarked}}" >> {notes}
for target; do :; done
mount -t tmpfs ceph-fuse-stand-in "$target"
# As the real one it goes on by itself, until what it serves is unmounted.
exec {python} {daemon} "$@" &
"""
DAEMON = """
import os, sys, time
os.setsid()
if os.fork():
    os._exit(0)
while "ceph-fuse-stand-in" in open("/proc/self/mountinfo").read():
    time.sleep(0.02)
"""


def pids_that_see(place: Path) -> list[int]:
    """Return the processes, in whatever namespace, for which something is mounted at the place."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            mounted = (entry / "mountinfo").read_text()
        except OSError:
            continue  # it ended meanwhile
        if f" {place} " in mounted:
            found.append(int(entry.name))
    return found


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    return tmp_path / "notes.txt"


@pytest.fixture
def ceph_host(tmp_path: Path, notes: Path) -> Iterator[Machine]:
    """Return a host with the kernel's ceph client, in a folder of its own before all others."""
    tools = tmp_path / "tools"
    tools.mkdir()
    program(tools / "mount.ceph", KERNEL.format(notes=notes, besides=""))
    with stand_in(tmp_path) as machine:
        machine.start(PATH=f"{tools}:{os.environ['PATH']}")
        yield machine


def program(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(0o755)


def ceph(
    dst: Path | str, src: str = "/team/data", addr: str = "10.0.0.1:6789,10.0.0.2:6789"
) -> dict[str, Any]:
    return {"kind": "ceph", "addr": addr, "name": "ann", "secret": SECRET, "src": src, "dst": str(dst)}


def mounted() -> str:
    return Path("/proc/self/mountinfo").read_text()


@only_root
def test_data_is_mounted_for_the_task_alone_and_gone_with_it(
    ceph_host: Machine, notes: Path, tmp_path: Path
) -> None:
    platform, first, second = ceph_host.platform, tmp_path / "first", tmp_path / "second"
    instance = new_id()
    command = f"touch {first}/mine; grep -c ' {tmp_path}/[fs]' /proc/self/mountinfo; echo up; sleep 60"
    platform.want(instance, spec(command, data=[ceph(first), ceph(second, src="/other")]))
    log = platform.log_has(instance, b"up\n")
    assert b"2\nup" in log
    assert b"[taiji] mounting 10.0.0.1:6789,10.0.0.2:6789:/team/data at " in log
    assert str(tmp_path / "first") not in mounted()
    assert list(first.iterdir()) == []  # nobody else sees what the task does there
    private = ceph_host.folder(instance) / "private"
    words, mode, key = notes.read_text().splitlines()[0].split("|")
    assert words.split()[1:] == [
        "10.0.0.1:6789,10.0.0.2:6789:/team/data",
        str(ceph_host.folder(instance) / "data/0"),
        "-o",
        f"name=ann,secretfile={private}/key-0,mount_timeout=30,nosuid,nodev",
    ]
    assert (mode, key) == ("600", SECRET)
    assert not private.exists()
    platform.stop(instance)
    platform.phase(instance, "gone")
    found = b"".join(path.read_bytes() for path in ceph_host.state.rglob("*") if path.is_file())
    for place in (found, bytes(platform.logs[instance]), repr(platform.reports).encode()):
        assert SECRET.encode() not in place
    assert platform.reports[-1]["offers"][:3] == ["process", "ceph", "process_ceph"]


@only_root
def test_a_mount_that_fails_says_which_and_why_and_earlier_ones_are_undone(
    ceph_host: Machine, tmp_path: Path
) -> None:
    platform, instance = ceph_host.platform, new_id()
    data = [ceph(tmp_path / "good"), ceph(tmp_path / "bad", src="/refused")]
    platform.want(instance, spec("echo no", data=data))
    gone = platform.phase(instance, "gone")
    assert (gone["exit_code"], gone["cause"]) == (None, "data")
    assert gone["detail"] == (
        "10.0.0.1:6789,10.0.0.2:6789:/refused could not be mounted as ann: mount error 13 = Permission denied"
    )
    assert str(tmp_path / "good") not in mounted()
    assert not (ceph_host.folder(instance) / "private").exists()


@only_root
def test_nothing_of_the_platform_s_own_is_mounted_over(ceph_host: Machine, tmp_path: Path) -> None:
    platform = ceph_host.platform
    state, storage = ceph_host.state, ceph_host.storage
    of_the_agent = (state / "instances", state / "code" / "0.tar.gz", state / "options.json.new")
    for place in (storage / "ads", storage, storage / "others/task-9", tmp_path, *of_the_agent):
        instance = new_id()
        platform.want(instance, spec("echo no", data=[ceph(place)]))
        gone = platform.phase(instance, "gone")
        assert gone["cause"] == "data"
        assert gone["detail"].startswith(f"{place} cannot be mounted there: the platform uses ")
    assert not (state / "code").exists()
    assert not (storage / "others").exists()


@pytest.mark.parametrize("place", ["/taiji", "/taiji/state", "/mnt", "/mnt/taiji/ads", "/mnt/taiji/ads/x"])
def test_data_of_a_container_covers_nothing_of_the_platform_s_in_it(tmp_path: Path, place: str) -> None:
    boxed = spec("true", container={"image": "a:1"}, folders=["/mnt/taiji/ads", "/mnt/taiji/ads/task-1"])
    preparation = Preparation(str(tmp_path), boxed | {"data": [ceph(place)]}, lambda: False, lambda: True)
    with pytest.raises(CannotStart, match=f"{place} cannot be mounted there: the platform uses /"):
        preparation.bring()
    assert preparation.binds == []


@only_root
def test_a_link_of_a_task_s_leads_no_mount_over_what_the_keeper_runs_as_root(
    ceph_host: Machine, notes: Path, tmp_path: Path
) -> None:
    platform, before = ceph_host.platform, notes.read_text() if notes.exists() else ""
    (tmp_path / "usr").symlink_to("/usr")
    pythons = (Path(sys.prefix) / "bin", Path(sys.base_prefix) / "lib/new")
    for place in (tmp_path / "usr/local/sbin", tmp_path / "usr/new", *pythons):
        instance = new_id()
        platform.want(instance, spec("echo no", data=[ceph(place)]))
        gone = platform.phase(instance, "gone")
        assert gone["cause"] == "data"
        assert gone["detail"].startswith(f"{place} cannot be mounted there: the platform uses ")
    assert not Path("/usr/new").exists()
    assert (notes.read_text() if notes.exists() else "") == before  # nothing was even asked to mount


@only_root
def test_a_folder_that_turns_into_a_link_while_it_is_mounted_leads_no_mount_elsewhere(
    tmp_path: Path, notes: Path
) -> None:
    tools, parent = tmp_path / "tools", tmp_path / "parent"
    tools.mkdir()
    parent.mkdir()
    swap = f"mv {parent} {parent}.away; ln -s /usr/local {parent}"
    program(tools / "mount.ceph", KERNEL.format(notes=notes, besides=swap))
    with stand_in(tmp_path) as machine:
        machine.start(PATH=f"{tools}:{os.environ['PATH']}")
        instance = new_id()
        machine.platform.want(instance, spec("echo no", data=[ceph(parent / "share")]))
        gone = machine.platform.phase(instance, "gone")
        assert (gone["exit_code"], gone["cause"]) == (None, "data")
        assert gone["detail"] == f"{parent}/share cannot be mounted there: the platform uses /usr."
        assert str(machine.folder(instance)) not in mounted()


def test_no_link_is_followed_on_the_way_to_where_something_is_mounted(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    with pytest.raises(NotADirectoryError):
        mounts.folder_at(str(tmp_path / "link/new/folder"))
    assert list((tmp_path / "real").iterdir()) == []
    handle = mounts.folder_at(str(tmp_path / "real/new/folder"))
    assert os.readlink(f"/proc/self/fd/{handle}") == str(tmp_path / "real/new/folder")
    os.close(handle)


def test_a_folder_that_another_task_makes_at_the_same_moment_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mkdir = os.mkdir

    def late(name: str, mode: int, *, dir_fd: int) -> None:
        mkdir(name, mode, dir_fd=dir_fd)  # the other one's
        mkdir(name, mode, dir_fd=dir_fd)

    monkeypatch.setattr(os, "mkdir", late)
    handle = mounts.folder_at(str(tmp_path / "new/folder"))
    assert os.readlink(f"/proc/self/fd/{handle}") == str(tmp_path / "new/folder")
    os.close(handle)


@only_root
def test_data_that_lies_over_a_client_s_program_is_run_by_nobody_as_root(
    ceph_host: Machine, tmp_path: Path
) -> None:
    platform, instance, second = ceph_host.platform, new_id(), tmp_path / "second"
    command = f"ls {tmp_path}/tools; grep -c ' {tmp_path}/[ts]' /proc/self/mountinfo; echo up"
    platform.want(instance, spec(command, data=[ceph(tmp_path / "tools"), ceph(second)]))
    assert platform.phase(instance, "gone")["exit_code"] == 0
    assert b"2\nup" in platform.log_has(instance, b"up\n")


@only_root
def test_one_that_is_stopped_while_a_mount_hangs_ends_at_once(ceph_host: Machine, tmp_path: Path) -> None:
    platform, instance = ceph_host.platform, new_id()
    platform.want(instance, spec("echo no", data=[ceph(tmp_path / "x", src="/hangs")], grace_s=20))
    platform.until(lambda: len(marked(instance)) >= 2)
    platform.stop(instance)
    assert platform.phase(instance, "gone")["detail"] == "It was stopped before it started."
    assert marked(instance) == []


@only_root
def test_a_keeper_that_is_killed_leaves_nothing_mounted(ceph_host: Machine, tmp_path: Path) -> None:
    platform, instance, place = ceph_host.platform, new_id(), tmp_path / "place"
    platform.want(instance, spec("echo up; sleep 60", data=[ceph(place)]))
    platform.log_has(instance, b"up\n")
    pid = marked(instance)[0]
    process = processes.find(pid)
    assert process is not None
    assert pid in pids_that_see(place)
    os.kill(process.session, signal.SIGKILL)
    assert platform.phase(instance, "gone")["detail"] == "keeper lost"
    # With the last of its processes the kernel unmounted all that was there. The place tells, and not the number of
    # the namespace, which the kernel gives anew at once.
    assert pids_that_see(place) == []


@only_root
def test_without_the_kernel_s_client_the_daemon_mounts_and_outlives_the_order_to_end(
    tmp_path: Path, notes: Path
) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    program(
        tools / "ceph-fuse", FUSE.format(notes=notes, python=sys.executable, daemon=tools / "ceph-fuse.py")
    )
    (tools / "ceph-fuse.py").write_text(DAEMON)
    place = tmp_path / "place"
    with stand_in(tmp_path) as machine:
        machine.start(PATH=f"{tools}:{os.environ['PATH']}")
        platform, instance = machine.platform, new_id()
        at_term = f"sleep 0.3; touch {place}/saved && echo saved; exit 0"
        command = f"trap '{at_term}' TERM; echo up; while :; do sleep 0.05; done"
        platform.want(instance, spec(command, data=[ceph(place)], grace_s=10))
        platform.log_has(instance, b"up\n")
        words, mode, key, mark = notes.read_text().strip().split("|")
        private = machine.folder(instance) / "private"
        assert words == (
            f"--conf /dev/null --id ann --keyfile {private}/key-0 "
            f"-m 10.0.0.1:6789,10.0.0.2:6789 -r /team/data {machine.folder(instance)}/data/0"
        )
        assert (mode, key, mark) == ("600", SECRET, "unmarked")
        platform.stop(instance)
        assert platform.phase(instance, "gone")["exit_code"] == 0
        assert b"saved" in platform.log_has(instance, b"saved")
        platform.until(lambda: not serving(machine.folder(instance)))


def serving(place: Path) -> list[int]:
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if str(place).encode() in path.read_bytes() and b"ceph-fuse" in path.read_bytes():
                found.append(int(path.parent.name))
        except OSError:
            continue
    return found


@only_root
def test_what_is_still_mounted_below_a_folder_is_unmounted_before_the_folder_is_removed(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "a b"
    for place in (folder / "data" / "0", folder / "data" / "1"):
        place.mkdir(parents=True)
        subprocess.run(["mount", "-t", "tmpfs", "none", place], check=True)
    busy = subprocess.Popen(["sleep", "60"], cwd=folder / "data" / "1")  # so that only the lazy way works
    try:
        assert mounts.below(str(folder)) == [str(folder / "data" / "1"), str(folder / "data" / "0")]
        mounts.release(str(folder))
        assert mounts.below(str(folder)) == []
    finally:
        busy.kill()
        busy.wait()


def test_a_host_without_a_client_offers_no_ceph_and_says_why_it_cannot_mount(
    host: Machine, tmp_path: Path
) -> None:
    platform, instance = host.platform, new_id()
    platform.want(instance, spec("echo no", data=[ceph(tmp_path / "x")]))
    gone = platform.phase(instance, "gone")
    assert (gone["exit_code"], gone["cause"]) == (None, "data_away")
    expected = "ceph-fuse: not found" if MAY_MOUNT else "only by an agent that may mount"
    assert expected in gone["detail"]
    assert set(platform.reports[-1]["offers"]) <= {"process", "limits"}
