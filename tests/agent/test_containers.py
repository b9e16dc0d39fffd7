"""Containers of a real Podman, from order to forgetting, on a real agent."""

import base64
import json
import os
import shutil
import signal
import stat
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cluster.agent.container import Container
from cluster.agent.engine import LABEL, OWNER, EngineFault, open_engine
from cluster.agent.workload import CannotStart
from tests.agent import engines
from tests.agent.conftest import Machine, marked, new_id, spec, stand_in
from tests.agent.engines import IMAGE, PASSWORD, USER, Service
from tests.agent.platform import Platform

LOOP = "while :; do sleep 0.05; done"
LONG_S = 60.0  # starting and removing a container takes a loaded machine a while


@pytest.fixture(scope="module")
def podman() -> Iterator[Service]:
    """Return a Podman, the same for all tests of this file."""
    with engines.service() as service:
        yield service


@pytest.fixture(scope="module")
def host(podman: Service, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    """Return a host whose agent runs containers."""
    with stand_in(tmp_path_factory.mktemp("host")) as machine:
        machine.start("--engine", podman.choice)
        yield machine


@pytest.fixture
def platform(host: Machine) -> Platform:
    return host.platform


def contained(command: str | None, container: dict[str, Any] | None = None, **changes: Any) -> dict[str, Any]:
    """Return a spec that runs `command` in a container."""
    return spec(command, container={"image": IMAGE, **(container or {})}, **changes)


def gone(platform: Platform, instance: str) -> dict[str, Any]:
    """Return the last report of `instance`, of which nothing may be left."""
    report = platform.phase(instance, "gone", LONG_S)
    assert marked(instance) == []
    return report


def ran(platform: Platform, podman: Service, command: str, **changes: Any) -> tuple[dict[str, Any], bytes]:
    """Run `command` in a container to its end; return the last report and the log."""
    instance = new_id()
    platform.want(instance, contained(command, **changes))
    report = gone(platform, instance)
    platform.until(lambda: len(platform.logs.get(instance, b"")) == report["log_bytes"])
    assert f"taiji-{instance}" not in podman.containers()
    return report, bytes(platform.logs.get(instance, b""))


def test_the_host_offers_containers_and_processes(platform: Platform) -> None:
    platform.until(lambda: platform.reports)
    assert {"container", "process"} <= set(platform.reports[-1]["offers"])


def test_a_command_runs_in_its_image_and_its_end_and_log_follow(platform: Platform, podman: Service) -> None:
    report, log = ran(platform, podman, "ls /bin/busybox; ls /usr; pwd; exit 3")
    assert (report["exit_code"], report["exit_signal"], report["by_itself"]) == (3, None, True)
    assert (report["detail"], report["cause"]) == ("", "")
    assert log == b"/bin/busybox\nls: /usr: No such file or directory\n/taiji/work\n"


def test_odd_bytes_of_the_log_arrive_as_they_are(platform: Platform, podman: Service) -> None:
    command = r"printf '\000\377\304\343\r\033[31m<script>'; printf 'err' >&2"
    _report, log = ran(platform, podman, command)
    assert log == b"\x00\xff\xc4\xe3\r\x1b[31m<script>err"


def test_it_gets_its_variables_and_none_of_the_host(
    platform: Platform, podman: Service, host: Machine
) -> None:
    env = {"MINE": "ü=1 $x 'y'\nz"}
    members = [{"name": "a", "address": "10.0.0.1", "cards": 2}, {"name": "b", "address": "h", "cards": 2}]
    command = 'env; printf "%s|" "$MINE"; cat "$TAIJI_HOSTFILE"; touch "$TAIJI_TASK_DIR/checkpoint"'
    report, log = ran(platform, podman, command, env=env, cards=[3, 5], hosts=members, rank=1)
    found = dict(line.split("=", 1) for line in log.decode().splitlines() if "=" in line)
    assert report["exit_code"] == 0
    assert (found["RANK"], found["WORLD_SIZE"], found["CUDA_VISIBLE_DEVICES"]) == ("1", "2", "3,5")
    assert found["MASTER_ADDR"] == "10.0.0.1"
    assert found["TAIJI_TASK_DIR"] == str(host.storage / "ads/task-1")
    assert b"\xc3\xbc=1 $x 'y'\nz|10.0.0.1 slots=2\nh slots=2\n" in log
    assert (host.storage / "ads/task-1/checkpoint").exists()
    assert found.keys().isdisjoint({"VIRTUAL_ENV", "LANG", "CONTAINER_NAME"})


def test_it_sees_only_the_storage_of_its_business(platform: Platform, podman: Service, host: Machine) -> None:
    (host.storage / "others").mkdir(exist_ok=True)
    _report, log = ran(platform, podman, f"ls {host.storage}; ls {host.state}")
    assert log.startswith(b"ads\n")
    assert b"others" not in log
    assert b"No such file" in log


def test_the_exit_command_runs_in_the_container_before_the_process_is_told(platform: Platform) -> None:
    instance = new_id()
    command = f"echo 7 >kept; trap 'echo told; exit 5' TERM; echo up; {LOOP}"
    platform.want(instance, contained(command, exit_command="echo exit $(cat kept) $RANK", grace_s=5.0))
    platform.log_has(instance, b"up\n", LONG_S)
    platform.stop(instance)
    report = gone(platform, instance)
    log = platform.log_has(instance, b"told\n")
    assert log.startswith(b"up\nexit 7 0\n")  # behind it a shell may say that its sleep was terminated
    assert (report["exit_code"], report["by_itself"], report["cause"]) == (5, False, "")


def test_all_of_exit_command_and_process_ends_within_the_grace(platform: Platform) -> None:
    instance = new_id()
    stubborn = f"trap '' TERM; echo up; {LOOP}"
    platform.want(instance, contained(stubborn, exit_command=f"echo exit; {stubborn}", grace_s=2.0))
    platform.log_has(instance, b"up\n", LONG_S)
    began = time.monotonic()
    platform.stop(instance)
    platform.phase(instance, "ending")
    while marked(instance):
        assert time.monotonic() < began + LONG_S
        time.sleep(0.02)
    assert time.monotonic() - began >= 2.0  # not before the grace was over …
    report = gone(platform, instance)
    assert (report["exit_code"], report["exit_signal"], report["cause"]) == (None, signal.SIGKILL, "")


def test_whatever_the_command_left_ends_with_it(platform: Platform, podman: Service) -> None:
    report, log = ran(platform, podman, "(env -i sleep 4711 &) ; sleep 4711 & exit 4")
    assert (report["exit_code"], report["by_itself"], log) == (4, True, b"")
    assert not [path for path in Path("/proc").glob("[0-9]*/cmdline") if _is(path, b"sleep\x004711\x00")]


def _is(path: Path, line: bytes) -> bool:
    try:
        return path.read_bytes() == line
    except OSError:
        return False


def test_an_idle_member_keeps_its_place_until_it_is_told_to_end(platform: Platform) -> None:
    instance = new_id()
    platform.want(instance, contained(None))
    platform.phase(instance, "running", LONG_S)
    assert marked(instance)
    platform.stop(instance)
    report = gone(platform, instance)
    assert (report["exit_code"], report["exit_signal"], report["by_itself"]) == (None, None, False)


def test_a_secret_is_on_no_command_line(platform: Platform) -> None:
    instance = new_id()
    platform.want(instance, contained(f"echo up $AWS_SECRET; {LOOP}", env={"AWS_SECRET": "s3cr3t-of-mine"}))
    platform.log_has(instance, b"up s3cr3t-of-mine", LONG_S)
    lines = [path for path in Path("/proc").glob("[0-9]*/cmdline") if _holds(path, b"s3cr3t-of-mine")]
    assert lines == []
    platform.stop(instance)
    gone(platform, instance)


def _holds(path: Path, word: bytes) -> bool:
    try:
        return word in path.read_bytes()
    except OSError:
        return False


def test_an_image_that_nobody_has_fails_the_start_with_the_cause(platform: Platform, podman: Service) -> None:
    image = f"{podman.registry.address}/nobody/has:1"
    registry = {"username": USER, "password": PASSWORD}
    report, log = ran(platform, podman, "echo never", container={"image": image, "registry": registry})
    assert (report["exit_code"], report["by_itself"], report["cause"]) == (None, True, "image")
    assert report["detail"].startswith(f"The image {image} cannot be had: ")
    assert b"manifest unknown" in report["detail"].encode()
    assert f"[taiji] pulling {image}\n".encode() in log


def test_an_image_is_pulled_with_credentials_that_are_left_nowhere(
    platform: Platform, podman: Service, host: Machine
) -> None:
    image = f"{podman.registry.address}/team/tool:1"
    wrong, _log = ran(platform, podman, "echo never", container={"image": image})
    assert (wrong["cause"], wrong["exit_code"]) == ("image", None)
    instance = new_id()
    registry = {"username": USER, "password": PASSWORD}
    platform.want(instance, contained(f"echo up; {LOOP}", container={"image": image, "registry": registry}))
    log = platform.log_has(instance, b"up\n", LONG_S)
    assert log.startswith(f"[taiji] pulling {image}\n".encode())
    kept = [host.folder(instance), podman.folder, Path("/run/containers"), Path("/root/.docker")]
    files = [path for folder in kept for path in folder.rglob("*") if path.is_file()]
    secret = base64.b64encode(f"{USER}:{PASSWORD}".encode())
    assert files
    assert not [path for path in files if _holds(path, PASSWORD.encode()) or _holds(path, secret)]
    assert not [path for path in Path("/proc").glob("[0-9]*/cmdline") if _holds(path, PASSWORD.encode())]
    platform.stop(instance)
    gone(platform, instance)


def test_a_pull_that_takes_too_long_is_given_up(platform: Platform, podman: Service) -> None:
    image = f"{podman.registry.address}/stuck/image:1"
    began = time.monotonic()
    report, _log = ran(platform, podman, "echo never", container={"image": image, "pull_timeout_s": 1})
    assert report["detail"] == f"The image {image} was not here within 1 s."
    assert (report["cause"], report["by_itself"]) == ("image", True)
    assert time.monotonic() - began >= 1


def test_an_order_to_end_is_heard_while_the_image_is_pulled(platform: Platform, podman: Service) -> None:
    instance = new_id()
    podman.registry.asked.clear()
    image = f"{podman.registry.address}/stuck/image:1"
    platform.want(instance, contained("echo never", container={"image": image}))
    platform.log_has(instance, b"pulling", LONG_S)
    assert platform.phase(instance, "starting")
    platform.stop(instance)
    report = gone(platform, instance)
    assert (report["by_itself"], report["detail"]) == (False, "It was stopped before it started.")
    assert f"taiji-{instance}" not in podman.containers()


@pytest.mark.parametrize("after_s", [0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8])
def test_an_order_to_end_at_any_moment_of_the_start_leaves_nothing(
    platform: Platform, podman: Service, after_s: float
) -> None:
    instance = new_id()
    platform.want(instance, contained(LOOP))
    time.sleep(after_s)
    platform.stop(instance)
    report = gone(platform, instance)
    assert report["by_itself"] is False, report
    assert f"taiji-{instance}" not in podman.containers()


def test_an_image_without_a_shell_fails_the_start(platform: Platform, podman: Service) -> None:
    empty = "localhost/taiji-empty:1"
    podman.client().api.post(
        "/images/import",
        params={"reference": empty},
        data=b"\0" * 10240,
        headers={"Content-Type": "application/x-tar"},
    ).raise_for_status()
    report, _log = ran(platform, podman, "echo never", container={"image": empty})
    assert report["detail"].startswith("The container could not be started: ")
    assert "/bin/sh" in report["detail"]
    assert report["by_itself"] is True


def test_the_limits_hold(platform: Platform, podman: Service) -> None:
    limits = {"memory_mib": 64, "cpus": 0.5, "shm_mib": 8, "pids": 20, "network": "none", "read_only": True}
    command = (
        "cat /sys/fs/cgroup/memory/memory.limit_in_bytes /sys/fs/cgroup/memory.max 2>/dev/null;"
        "cat /sys/fs/cgroup/pids/pids.max /sys/fs/cgroup/pids.max 2>/dev/null;"
        "cat /sys/fs/cgroup/cpu/cpu.cfs_quota_us 2>/dev/null || cat /sys/fs/cgroup/cpu.max;"
        "df /dev/shm | tail -n1; ls /sys/class/net;"
        "touch /new || touch /tmp/new work.txt && echo writable"
    )
    _report, log = ran(platform, podman, command, container=limits)
    lines = log.decode().splitlines()
    assert lines[0] == str(64 * 2**20)
    assert lines[1] == "20"
    assert lines[2].split()[0] == "50000"
    assert lines[3].split()[1] == str(8 * 1024)
    assert lines[4] == "lo"
    assert lines[5:] == ["touch: /new: Read-only file system", "writable"]


def test_it_runs_as_the_user_it_is_given_and_can_write_what_is_its_own(
    platform: Platform, podman: Service, host: Machine
) -> None:
    command = 'id; touch here "$TAIJI_TASK_DIR/there" /new; echo again >>/dev/stderr; echo $HOME'
    report, log = ran(platform, podman, command, container={"user": "4242:4243"}, storage="of-4242")
    assert log.startswith(b"uid=4242 gid=4243")
    assert b"touch: /new: Permission denied\nagain\n/taiji/work\n" in log
    assert (host.storage / "of-4242/task-1/there").stat().st_uid == 4242
    assert report["exit_code"] == 0


def test_memory_that_runs_out_is_told_apart(platform: Platform, podman: Service) -> None:
    hungry = "dd if=/dev/zero of=/dev/null bs=200M count=1"
    report, _log = ran(platform, podman, hungry, container={"memory_mib": 32})
    assert (report["exit_code"], report["cause"]) == (137, "oom")
    report, _log = ran(platform, podman, "kill -KILL $$", container={"memory_mib": 32})
    assert (report["exit_code"], report["cause"]) == (137, "maybe_oom")


def test_a_card_that_does_not_reach_the_container_fails_the_start(podman: Service, tmp_path: Path) -> None:
    # By the API of Docker this engine gives no devices and says nothing: the command must not run without.
    workload = Container(str(_folder(tmp_path)), _task(tmp_path, f"docker:{podman.socket}", gpus=["GPU-1"]))
    workload.prepare(lambda: False)
    with pytest.raises(CannotStart, match=r"did not get its cards: /dev/nvidiactl is not there") as fault:
        workload.start()
    assert fault.value.cause == "card"
    assert podman.containers() == []


@pytest.fixture
def cdi() -> Iterator[str]:
    """Give this host a card by CDI, which is a stand-in for the null device, and return its uuid."""
    uuid = f"GPU-{new_id()}"
    node = {"path": "/dev/nvidiactl", "type": "c", "major": 1, "minor": 3, "permissions": "rw"}
    device = {"name": uuid, "containerEdits": {"deviceNodes": [node]}}
    path = Path("/var/run/cdi") / f"taiji-test-{uuid}.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps({"cdiVersion": "0.3.0", "kind": "nvidia.com/gpu", "devices": [device]}))
    yield uuid
    path.unlink()


def test_a_card_comes_by_cdi(podman: Service, tmp_path: Path, cdi: str) -> None:
    task = _task(tmp_path, podman.choice, gpus=[cdi])
    workload = Container(str(_folder(tmp_path)), {**task, "command": "ls /dev/nvidiactl"})
    workload.prepare(lambda: False)
    workload.start()
    deadline = time.monotonic() + LONG_S
    while not workload.gone():
        assert time.monotonic() < deadline
        time.sleep(0.02)
    assert (workload.status(), workload.clear()) == ((0, None), {})
    assert Path(workload.folder, "log").read_text() == "/dev/nvidiactl\n"


@pytest.fixture
def fabric() -> Iterator[Path]:
    """Give this host a folder of devices as a network card has, which are stand-ins for the null device."""
    folder = Path("/dev") / f"taiji-test-{new_id()[:8]}"
    folder.mkdir()
    for name in ("uverbs0", "rdma_cm"):
        os.mknod(folder / name, stat.S_IFCHR, os.makedev(1, 3))
        (folder / name).chmod(0o666)
    yield folder
    shutil.rmtree(folder)


@pytest.mark.parametrize("kind", ["podman", "docker"])
def test_a_container_gets_the_devices_that_its_host_s_operator_gives_to_all(
    podman: Service, tmp_path: Path, fabric: Path, kind: str
) -> None:
    instance, late = new_id(), new_id()
    with stand_in(tmp_path) as machine:
        machine.start("--engine", f"{kind}:{podman.socket}", "--devices", f"{fabric},/dev/full")
        command = f"ls {fabric} && echo x >{fabric}/uverbs0 && [ -c /dev/full ]"
        machine.platform.want(instance, contained(command, container={"user": "4242:4242"}))
        assert gone(machine.platform, instance)["exit_code"] == 0
        assert machine.platform.log_has(instance, b"uverbs0\n") == b"rdma_cm\nuverbs0\n"
        for path in fabric.iterdir():
            path.unlink()
        machine.platform.want(late, contained("echo never"))
        said = f"This host's --devices name {fabric}, where no device is."
        assert gone(machine.platform, late)["detail"] == said


def test_a_card_that_the_engine_does_not_know_fails_the_start(podman: Service, tmp_path: Path) -> None:
    workload = Container(str(_folder(tmp_path)), _task(tmp_path, podman.choice, gpus=["GPU-unknown"]))
    workload.prepare(lambda: False)
    with pytest.raises(CannotStart, match=r"unresolvable CDI devices nvidia\.com/gpu=GPU-unknown"):
        workload.start()
    assert podman.containers() == []


def test_only_what_can_be_an_exit_code_is_taken_for_one_whoever_wrote_it(tmp_path: Path) -> None:
    workload = Container(str(_folder(tmp_path)), _task(tmp_path, "podman:/nowhere"))
    state = Path(workload.folder, "state")
    state.mkdir()
    (state / "started").touch()
    for said, found in (("7", (7, None)), ("255", (255, None)), ("99999999999", (None, signal.SIGKILL))):
        (state / "status").write_text(said)
        assert workload.status() == found


def _folder(tmp_path: Path) -> Path:
    folder = tmp_path / new_id()
    (folder / "work").mkdir(parents=True)
    (folder / "hosts").touch()
    return folder


def _task(tmp_path: Path, engine: str, **changes: Any) -> dict[str, Any]:
    (tmp_path / "storage").mkdir(exist_ok=True)
    container = {
        "image": IMAGE, "engine": engine, "owner": str(tmp_path), "registry": None, "pull_timeout_s": 5,
        "gpus": [], "devices": ["/dev/nvidiactl"], "besides": [], "memory_mib": 0, "cpus": 0, "shm_mib": 0, "pids": 0,
        "network": "none", "read_only": False, **changes,
    }  # fmt: skip
    env = {"TAIJI_STORAGE": str(tmp_path / "storage")}
    return {
        "command": "ls /dev; sleep 60",
        "user": "",
        "env": env,
        "exit_command": "",
        "container": container,
    }


def test_the_engine_is_killed_and_what_runs_runs_on(
    platform: Platform, podman: Service, host: Machine
) -> None:
    instance = new_id()
    platform.want(instance, contained("echo up; while ! test -e go; do sleep 0.05; done; echo down; exit 6"))
    platform.log_has(instance, b"up\n", LONG_S)
    platform.phase(instance, "running", LONG_S)
    podman.kill()
    try:
        time.sleep(0.3)
        assert platform.phase(instance, "running")
    finally:
        podman.start()
    (host.folder(instance) / "work/go").touch()
    report = gone(platform, instance)
    assert platform.log_has(instance, b"down") == b"up\ndown\n"
    assert (report["exit_code"], report["by_itself"]) == (6, True)
    assert f"taiji-{instance}" not in podman.containers()


@pytest.mark.parametrize("after_s", [0.2, 0.35, 0.5, 0.65])
def test_an_engine_killed_at_any_moment_of_the_start_leaves_nothing(
    platform: Platform, podman: Service, after_s: float
) -> None:
    instance = new_id()
    platform.want(instance, contained(LOOP, grace_s=5.0))
    time.sleep(after_s)
    podman.kill()
    try:
        time.sleep(0.5)
    finally:
        podman.start()
    platform.stop(instance)
    gone(platform, instance)
    assert f"taiji-{instance}" not in podman.containers()


def monitors(instance: str) -> list[int]:
    """Return the pids of the processes with which Podman watches the container of `instance`."""
    word = f"\0taiji-{instance}\0".encode()
    paths = [path for path in Path("/proc").glob("[0-9]*/cmdline") if _holds(path, word)]
    return [int(path.parent.name) for path in paths if _holds(path, b"conmon\0")]


@pytest.mark.parametrize("after_s", [0.0, 0.02, 0.05])
def test_an_engine_killed_between_making_and_starting_leaves_no_process_of_its_runtime(
    platform: Platform, podman: Service, after_s: float
) -> None:
    instance = new_id()
    platform.want(instance, contained(LOOP, grace_s=5.0))
    platform.until(lambda: monitors(instance), LONG_S)
    time.sleep(after_s)
    podman.kill()
    podman.start()
    platform.stop(instance)
    gone(platform, instance)
    assert f"taiji-{instance}" not in podman.containers()
    platform.until(lambda: not monitors(instance), LONG_S)


def test_a_container_that_an_engine_half_removed_when_it_was_killed_is_removed_whole(podman: Service) -> None:
    """Podman then knows it still, by name and label, and its own store does not: it can be read no more."""
    engine = open_engine(podman.choice)
    podman.client().containers.create(
        IMAGE, ["true"], name="taiji-half", labels={LABEL: "half", OWNER: "/nobody"}
    )
    podman.kill()
    store = podman.folder / "root/vfs-containers/containers.json"
    known = json.loads(store.read_text())
    store.write_text(json.dumps([one for one in known if "taiji-half" not in one["names"]]))
    podman.start()
    assert engine.owned("/nobody") == {"half": "taiji-half"}
    with pytest.raises(EngineFault, match="container not known"):
        engine.pid("taiji-half")
    engine.remove("taiji-half")
    assert engine.owned("/nobody") == {}


def test_an_engine_that_is_away_holds_up_no_end(platform: Platform, podman: Service, host: Machine) -> None:
    instance = new_id()
    platform.want(instance, contained(f"echo up; {LOOP}", exit_command="echo exit"))
    platform.log_has(instance, b"up\n", LONG_S)
    platform.phase(instance, "running", LONG_S)
    podman.kill()
    try:
        platform.stop(instance)
        deadline = time.monotonic() + LONG_S
        while marked(instance):
            assert time.monotonic() < deadline
            time.sleep(0.05)
    finally:
        podman.start()
    report = gone(platform, instance)
    assert (report["exit_code"], report["by_itself"]) == (143, False)
    assert f"taiji-{instance}" not in podman.containers()


def test_a_keeper_that_is_killed_leaves_no_container(
    platform: Platform, podman: Service, host: Machine
) -> None:
    instance = new_id()
    platform.want(instance, contained(f"trap '' TERM; echo up; {LOOP}"))
    platform.log_has(instance, b"up\n", LONG_S)
    os.kill(keeper_of(host, instance), signal.SIGKILL)
    report = gone(platform, instance)
    assert (report["exit_code"], report["by_itself"], report["detail"]) == (None, None, "keeper lost")
    assert f"taiji-{instance}" not in podman.containers()


def keeper_of(host: Machine, instance: str) -> int:
    """Return the pid of the keeper of `instance`."""
    return int(json.loads((host.folder(instance) / "claim.json").read_text())["pid"])


def test_nothing_starts_on_the_cards_of_a_stray_container_while_it_lives(
    platform: Platform, podman: Service, host: Machine
) -> None:
    stray, new = new_id(), new_id()
    platform.want(stray, contained(f"trap '' TERM; echo up; {LOOP}", grace_s=1.0))
    platform.log_has(stray, b"up\n", LONG_S)
    before = marked(stray)
    platform.drop(stray)
    platform.want(new, contained("echo next; sleep 0.1"))
    gone(platform, new)
    assert before
    ended = (host.folder(stray) / "exit.json").stat().st_mtime
    assert (host.folder(new) / "claim.json").stat().st_mtime >= ended


def test_an_agent_that_is_killed_finds_its_container_again(podman: Service, tmp_path: Path) -> None:
    instance, late = new_id(), new_id()
    with stand_in(tmp_path) as machine:
        platform = machine.platform
        machine.start("--engine", podman.choice)
        platform.want(instance, contained(f"echo up $$; {LOOP}"))
        line = platform.log_has(instance, b"up", LONG_S)
        machine.end(signal.SIGKILL)
        left = podman.client().containers.create(
            IMAGE,
            ["true"],
            name=f"taiji-{late}",
            labels={"taiji.instance": late, "taiji.agent": str(machine.state)},
        )
        machine.start("--engine", podman.choice)
        assert platform.phase(instance, "running", LONG_S)["log_bytes"] == len(line)
        platform.until(lambda: left.name not in podman.containers(), LONG_S)
        assert f"taiji-{instance}" in podman.containers()
        platform.stop(instance)
        assert gone(platform, instance)["exit_code"] == 143
        assert platform.logs[instance].startswith(line)
        assert platform.logs[instance].count(b"up") == 1


def test_a_host_whose_engine_is_away_offers_none_until_it_is_back(podman: Service, tmp_path: Path) -> None:
    with stand_in(tmp_path) as machine:
        platform = machine.platform
        machine.start("--engine", f"podman:{tmp_path}/nowhere.sock", "--processes", "no")
        platform.until(lambda: platform.reports)
        assert not {"container", "process"} & set(platform.reports[-1]["offers"])
        alone, boxed = new_id(), new_id()
        platform.want(alone, spec("echo never"))
        platform.want(boxed, contained("echo never"))
        assert (
            gone(platform, alone)["detail"]
            == "This host runs no plain processes, and the order names no image."
        )
        assert gone(platform, boxed)["detail"] == "This host runs no containers."


def test_the_api_of_docker_does_as_well(podman: Service, tmp_path: Path) -> None:
    first, second = new_id(), new_id()
    limits = {"memory_mib": 32, "cpus": 1, "shm_mib": 8, "pids": 20, "network": "none", "read_only": True}
    image = f"{podman.registry.address}/team/docker:1"
    registry = {"username": USER, "password": PASSWORD}
    with stand_in(tmp_path) as machine:
        platform = machine.platform
        machine.start("--engine", f"docker:{podman.socket}")
        command = "dd if=/dev/zero of=/dev/null bs=200M count=1"
        box = {"image": image, "registry": registry, **limits}
        platform.want(first, contained(f"touch /tmp/new work.txt; {command}", container=box))
        report = gone(platform, first)
        assert (report["exit_code"], report["cause"]) == (137, "oom")
        platform.want(second, contained(f"echo up; {LOOP}", exit_command="echo exit", grace_s=5.0))
        platform.log_has(second, b"up", LONG_S)
        platform.stop(second)
        assert gone(platform, second)["exit_code"] == 143
        assert platform.log_has(second, b"exit\n").startswith(b"up\nexit\n")
        assert podman.containers() == []


def test_a_member_of_a_gang_waits_in_its_place_until_all_are_ready(
    platform: Platform, podman: Service
) -> None:
    instance = new_id()
    platform.want(instance, contained("echo $RANK", wait_for_go=True, rank=1))
    platform.phase(instance, "ready", LONG_S)
    assert (marked(instance), podman.containers()) == ([], [])
    platform.orders[instance]["go"] = True
    platform.change()
    assert gone(platform, instance)["exit_code"] == 0
    assert platform.log_has(instance, b"1\n") == b"1\n"
