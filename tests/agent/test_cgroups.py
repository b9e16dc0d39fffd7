"""Limits of plain processes: real ones by control groups of version 1, and the words of both versions."""

import errno
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cluster.agent import cgroup_places, cgroups
from cluster.agent.cgroups import Group
from tests.agent.conftest import Machine, marked, new_id, spec
from tests.agent.platform import Platform
from tests.agent.test_life import keeper_of

PLACES = cgroup_places.find()
real = pytest.mark.skipif(not PLACES.complete, reason=f"no control groups can be made here: {PLACES.missing}")
LIMITS = {"memory_mib": 64, "cpus": 0.5, "pids": 20}


@pytest.fixture
def platform(host: Machine) -> Platform:
    return host.platform


def ran(platform: Platform, command: str, limits: dict[str, Any]) -> tuple[dict[str, Any], str]:
    """Run `command` to its end; return the last report and the log."""
    instance = new_id()
    platform.want(instance, spec(command, limits=limits))
    report = platform.phase(instance, "gone")
    platform.until(lambda: len(platform.logs.get(instance, b"")) == report["log_bytes"])
    assert not [path for path in Group(PLACES.parents, instance).folders if os.path.exists(path)]
    return report, platform.logs.get(instance, bytearray()).decode()


@real
def test_the_host_offers_limits(platform: Platform) -> None:
    platform.until(lambda: platform.reports)
    assert "limits" in platform.reports[-1]["offers"]


@real
def test_memory_that_runs_out_ends_it_and_is_told_by_its_own_counter(platform: Platform) -> None:
    hungry = f"exec {sys.executable} -c 'x = bytearray(2**28); print(len(x))'"
    report, log = ran(platform, hungry, LIMITS)
    assert (report["exit_signal"], report["cause"], log) == (signal.SIGKILL, "oom", "")
    report, log = ran(platform, hungry, {**LIMITS, "memory_mib": 1024})
    assert (report["exit_code"], report["cause"], log) == (0, "", f"{2**28}\n")


@real
def test_memory_is_one_limit_for_the_whole_tree(platform: Platform) -> None:
    one = f"env -i setsid {sys.executable} -c 'import time; x = bytearray(40 * 2**20); time.sleep(1)'"
    report, _log = ran(platform, f"{one} & {one} & wait; exit 3", LIMITS)
    assert (report["exit_code"], report["cause"]) == (
        3,
        "oom",
    )  # the second one was ended, though not the command
    report, _log = ran(platform, f"{one}; exit 3", LIMITS)
    assert (report["exit_code"], report["cause"]) == (3, "")


@real
def test_who_kills_himself_under_a_limit_did_not_run_out_of_memory(platform: Platform) -> None:
    report, _log = ran(platform, "kill -KILL $$", LIMITS)
    assert (report["exit_signal"], report["cause"]) == (signal.SIGKILL, "")


@real
def test_so_many_processes_and_no_more(platform: Platform) -> None:
    many = f"{sys.executable} -c 'import os, time\nfor n in range(100):\n    if not os.fork(): time.sleep(9)' 2>&1"
    report, log = ran(platform, many, LIMITS)
    assert report["exit_code"] == 1
    assert "BlockingIOError: [Errno 11]" in log
    report, log = ran(platform, many, {})
    assert (report["exit_code"], log) == (0, "")


@real
def test_so_much_of_the_processors_and_no_more(platform: Platform) -> None:
    spin = "import time\nend = time.monotonic() + 2\nwhile time.monotonic() < end: pass\nprint(time.process_time())"
    report, log = ran(platform, f'exec {sys.executable} -c "{spin}"', {"cpus": 0.25})
    assert report["exit_code"] == 0
    assert float(log) < 0.9  # of two seconds: half a second, what is counted late, and Python's own start


@real
def test_the_exit_command_is_in_the_group_too(platform: Platform, host: Machine) -> None:
    instance = new_id()
    loop = "while :; do sleep 0.05; done"
    platform.want(
        instance,
        spec(f"echo up; {loop}", exit_command="cat /proc/self/cgroup", grace_s=5.0, limits=LIMITS),
    )
    platform.log_has(instance, b"up")
    platform.stop(instance)
    platform.phase(instance, "gone")
    assert f"/taiji/{instance}\n".encode() in platform.log_has(instance, b":memory:")


# Each generation lives a millisecond, in a session of its own and without the mark, and writes that it was there.
RACING = """\
import os, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
os.setsid()
trace = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
while True:
    try:
        if os.fork():
            os._exit(0)
        os.write(trace, b".")
    except BlockingIOError:
        pass
    time.sleep(0.001)
"""


@real
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL], ids=["ordered", "keeper killed"])
def test_a_tree_that_forks_faster_than_others_look_is_not_reported_gone_while_it_lives(
    platform: Platform, host: Machine, number: int, tmp_path: Path
) -> None:
    instance, trace = new_id(), tmp_path / "trace"
    script = tmp_path / "racing.py"
    script.write_text(RACING)
    command = f"env -i {sys.executable} -S {script} {trace} & sleep 0.5; echo up; exec sleep 100"
    platform.want(instance, spec(command, limits={"pids": 1000}))
    platform.log_has(instance, b"up")
    platform.until(lambda: trace.exists() and trace.stat().st_size > 10)
    if number == signal.SIGTERM:
        platform.stop(instance)
    else:
        os.kill(keeper_of(host, instance), number)
    platform.phase(instance, "gone")
    generations = trace.stat().st_size
    assert marked(instance) == []
    time.sleep(0.5)
    assert trace.stat().st_size == generations
    assert not [path for path in Group(PLACES.parents, instance).folders if os.path.exists(path)]


class Kernel:
    """Control groups of version 2 as a tree of files that keeps the kernel's rules for them.

    What stands in its documentation (cgroup-v2): a group has the files of the controllers that its parent hands
    on; only what a group has can be handed on; a group that holds processes hands nothing on (but the topmost);
    one that is not empty cannot be removed; a process is in one group.
    """

    FILES = {
        "memory": ("memory.max", "memory.swap.max", "memory.events"),
        "pids": ("pids.max",),
        "cpu": ("cpu.max",),
    }

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Mount it at `root`."""
        self.root = root
        self.written: list[tuple[str, str]] = []
        self.me = str(os.getpid())
        self._rmdir = os.rmdir
        self._make(root, tuple(self.FILES))
        for name, mine in (("makedirs", self.makedirs), ("rmdir", self.rmdir)):
            monkeypatch.setattr(os, name, self._here(mine, getattr(os, name)))
        monkeypatch.setattr(cgroups, "write", self.write)

    def _here(self, mine: Callable[[str], None], real: Callable[..., None]) -> Callable[..., None]:
        def call(path: Any, *rest: Any, **named: Any) -> None:
            if str(path).startswith(str(self.root)):
                mine(str(path))
            else:
                real(path, *rest, **named)

        return call

    def _make(self, folder: Path, controllers: tuple[str, ...]) -> None:
        folder.mkdir(exist_ok=True)
        files = {
            "cgroup.controllers": " ".join(controllers),
            "cgroup.subtree_control": "",
            "cgroup.procs": "",
        }
        files |= {name: "" for controller in controllers for name in self.FILES[controller]}
        if folder != self.root:
            files["cgroup.kill"] = ""
        for name, content in files.items():
            (folder / name).write_text(content)

    def makedirs(self, path: str) -> None:
        folder = Path(path)
        if not folder.parent.exists():
            self.makedirs(str(folder.parent))
        if not folder.exists():
            self._make(folder, tuple((folder.parent / "cgroup.subtree_control").read_text().split()))

    def rmdir(self, path: str) -> None:
        folder = Path(path)
        if (folder / "cgroup.procs").read_text() or any(each.is_dir() for each in folder.iterdir()):
            raise OSError(errno.EBUSY, os.strerror(errno.EBUSY))
        for file in folder.iterdir():
            file.unlink()
        self._rmdir(path)

    def write(self, path: str, value: str) -> None:
        file = Path(path)
        if not file.exists():
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
        self.written.append((str(file.relative_to(self.root)), value))
        if file.name == "cgroup.procs":
            self.move(self.me if value == "0" else value, file)
        elif file.name == "cgroup.subtree_control":
            self.hand_on(file, value.removeprefix("+"))
        elif file.name == "cgroup.kill":
            (file.parent / "cgroup.procs").write_text("")
        else:
            file.write_text(value)

    def move(self, pid: str, to: Path) -> None:
        for file in self.root.rglob("cgroup.procs"):
            left = [line for line in file.read_text().split() if line != pid]
            file.write_text("".join(f"{line}\n" for line in left))
        to.write_text(f"{to.read_text()}{pid}\n")

    def hand_on(self, file: Path, controller: str) -> None:
        if controller not in (file.parent / "cgroup.controllers").read_text().split():
            raise OSError(errno.ENOENT, os.strerror(errno.ENOENT))
        if file.parent != self.root and (file.parent / "cgroup.procs").read_text():
            raise OSError(errno.EBUSY, os.strerror(errno.EBUSY))
        file.write_text(f"{file.read_text()} {controller}".strip())
        for below in [each for each in file.parent.iterdir() if each.is_dir()]:
            has = below / "cgroup.controllers"
            has.write_text(f"{has.read_text()} {controller}".strip())
            for name in self.FILES[controller]:
                (below / name).touch()

    def find(self, own: str, *, kind: str = "cgroup2") -> cgroup_places.Places:
        """Look for places as an agent in the group `own` does."""
        lines = self.root.with_name("groups")
        lines.write_text(f"0::{own}\n")
        mounts = self.root.with_name("mounts")
        mounts.write_text(f"31 23 0:28 / {self.root} rw,nosuid - {kind} cgroup2 rw,nsdelegate\n")
        return cgroup_places.find(str(mounts), str(lines))


@pytest.fixture
def two(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Kernel:
    """Return a stand-in for version 2."""
    return Kernel(tmp_path / "cgroup", monkeypatch)


def as_user(uid: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: uid)


@pytest.mark.parametrize("own", ["/", "/system.slice/taiji-agent.service", "/user.slice/user-0.slice"])
def test_root_makes_its_groups_beside_what_is_systemd_s(
    two: Kernel, own: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    as_user(0, monkeypatch)
    os.makedirs(f"{two.root}{own}", exist_ok=True)
    places = two.find(own)
    assert places.parents == dict.fromkeys(cgroups.CONTROLLERS, str(two.root / "taiji"))
    assert places.complete
    assert [path.name for path in (two.root / "taiji").iterdir() if path.is_dir()] == []


def test_another_user_needs_a_group_that_was_handed_to_it_and_leaves_it_to_the_groups(
    two: Kernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    as_user(4242, monkeypatch)
    own = "/system.slice/taiji-agent.service"
    for path in (two.root, two.root / "system.slice"):
        os.makedirs(path, exist_ok=True)
        for controller in cgroups.CONTROLLERS:
            cgroups.write(f"{path}/cgroup.subtree_control", f"+{controller}")
    os.makedirs(f"{two.root}{own}")
    cgroups.write(f"{two.root}{own}/cgroup.procs", "0")
    places = two.find(own)
    assert places.parents["memory"] == f"{two.root}{own}/taiji"
    assert places.complete
    assert (Path(f"{two.root}{own}") / "agent/cgroup.procs").read_text() == f"{two.me}\n"
    assert two.find(f"{own}/agent").parents == places.parents  # a later agent that starts there


def test_a_group_in_which_others_live_is_left_alone(two: Kernel, monkeypatch: pytest.MonkeyPatch) -> None:
    as_user(4242, monkeypatch)
    for controller in cgroups.CONTROLLERS:
        cgroups.write(f"{two.root}/cgroup.subtree_control", f"+{controller}")
    os.makedirs(two.root / "box")
    cgroups.write(f"{two.root}/box/cgroup.procs", "1")
    places = two.find("/box")
    assert (places.parents, set(places.missing)) == ({}, set(cgroups.CONTROLLERS))
    assert "such as 1" in places.missing["memory"]
    assert [path.name for path in (two.root / "box").iterdir() if path.is_dir()] == []


def test_what_is_not_handed_on_is_named_and_the_rest_holds(
    two: Kernel, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    as_user(4242, monkeypatch)
    cgroups.write(f"{two.root}/cgroup.subtree_control", "+pids")
    os.makedirs(two.root / "box")
    places = two.find("/box")
    assert (list(places.parents), sorted(places.missing)) == (["pids"], ["cpu", "memory"])
    assert not places.complete
    with caplog.at_level("INFO"):
        places.say()
    assert caplog.messages[0] == "Limits of plain processes hold here: pids."
    assert caplog.messages[1].startswith("Limits of plain processes do not hold here (memory: ")


def test_a_group_of_version_2_is_limited_sealed_read_and_removed(
    two: Kernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    as_user(0, monkeypatch)
    places = two.find("/")
    group = Group(places.parents, "one")
    two.written.clear()
    group.make(LIMITS)
    assert two.written == [
        ("taiji/one/memory.max", str(64 * 2**20)),
        ("taiji/one/memory.swap.max", "0"),
        ("taiji/one/pids.max", "20"),
        ("taiji/one/cpu.max", "50000 100000"),
    ]
    group.join()
    assert group.members() == {os.getpid()}
    assert group.out_of_memory() is None
    (two.root / "taiji/one/memory.events").write_text(
        "low 0\nhigh 0\nmax 8\noom 2\noom_kill 1\noom_group_kill 0\n"
    )
    assert group.out_of_memory() == 1
    monkeypatch.setattr(cgroups, "REMOVE_S", 0.1)
    assert not group.remove()  # somebody is in there
    group.seal()
    assert ("taiji/one/pids.max", "0") in two.written
    assert (group.members(), group.remove(), group.folders[0]) == (set(), True, str(two.root / "taiji/one"))
    assert not (two.root / "taiji/one").exists()


def test_a_controller_without_any_of_its_files_promises_no_limit(
    two: Kernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    as_user(0, monkeypatch)
    monkeypatch.setitem(two.FILES, "cpu", ())  # a kernel that only weighs what groups use of the processors
    places = two.find("/")
    assert (set(places.parents), set(places.missing)) == ({"memory", "pids"}, {"cpu"})
    assert "none of the files of cpu" in places.missing["cpu"]
    with pytest.raises(FileNotFoundError, match="none of the files of cpu"):
        Group({"cpu": str(two.root / "taiji")}, "one").make(LIMITS)


def test_without_limits_a_group_only_says_who_is_in_it(two: Kernel, monkeypatch: pytest.MonkeyPatch) -> None:
    as_user(0, monkeypatch)
    group = Group(two.find("/").parents, "one")
    two.written.clear()
    group.make({"memory_mib": 0, "cpus": 0, "pids": 0})
    assert two.written == []


def test_a_host_without_control_groups_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mounts").write_text("22 1 0:20 / /proc rw - proc proc rw\n")
    (tmp_path / "groups").write_text("0::/\n")
    places = cgroup_places.find(str(tmp_path / "mounts"), str(tmp_path / "groups"))
    assert places.missing["cpu"] == "no control groups with cpu are mounted"
    assert cgroup_places.find(str(tmp_path / "none"), str(tmp_path / "none")).missing["cpu"]
    nobody = Group(places.parents, "one")
    (tmp_path / "memory.events").write_text("oom_kill 7\n")  # as a task may leave one in its work folder
    monkeypatch.chdir(tmp_path)
    nobody.make(LIMITS)
    nobody.seal()
    assert (nobody.members(), nobody.out_of_memory(), nobody.remove()) == (set(), None, True)


def test_hierarchies_of_version_1_are_found_where_they_are_mounted(tmp_path: Path) -> None:
    (tmp_path / "groups").write_text(
        "9:name=systemd:/x\n4:memory:/jobs/a\n3:cpu,cpuacct:/\n2:pids:/docker/1\n0::/\n"
    )
    (tmp_path / "mounts").write_text(
        "30 23 0:28 / /sys/fs/cgroup ro - tmpfs tmpfs ro\n"
        "31 30 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,nosuid shared:9 - cgroup cgroup rw,cpu,cpuacct\n"
        "32 30 0:30 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
        "33 30 0:31 /docker/1 /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids\n"
        "34 30 0:32 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,name=systemd\n"
    )
    found = cgroup_places.read(str(tmp_path / "mounts"), str(tmp_path / "groups"))
    assert [(one.version, one.controllers, one.mount, one.own) for one in found] == [
        (1, ("cpu",), "/sys/fs/cgroup/cpu,cpuacct", "/"),
        (1, ("memory",), "/sys/fs/cgroup/memory", "/jobs/a"),
        (1, ("pids",), "/sys/fs/cgroup/pids", "/"),
    ]
