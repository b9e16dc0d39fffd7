"""Containers of a real Podman, from order to forgetting, on a real agent."""

import base64
import signal
import time
from pathlib import Path

import pytest

from cluster.agent.container import Container
from tests.agent.conftest import Machine, marked, new_id, stand_in
from tests.agent.contained import LONG_S, LOOP, contained, folder_of, gone, holds, ran, task_of
from tests.agent.engines import PASSWORD, USER, Service
from tests.agent.platform import Platform


@pytest.fixture(scope="module")
def host(podman_host: Machine) -> Machine:
    """Return a host whose agent runs containers."""
    return podman_host


@pytest.fixture
def platform(host: Machine) -> Platform:
    return host.platform


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
    lines = [path for path in Path("/proc").glob("[0-9]*/cmdline") if holds(path, b"s3cr3t-of-mine")]
    assert lines == []
    platform.stop(instance)
    gone(platform, instance)


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
    told = log.decode().splitlines()
    assert told[0] == f"[taiji] pulling {image}"
    assert any(line.startswith("[taiji] Copying blob ") for line in told), told  # how far it is
    kept = [host.folder(instance), podman.folder, Path("/run/containers"), Path("/root/.docker")]
    files = [path for folder in kept for path in folder.rglob("*") if path.is_file()]
    secret = base64.b64encode(f"{USER}:{PASSWORD}".encode())
    assert files
    assert not [path for path in files if holds(path, PASSWORD.encode()) or holds(path, secret)]
    assert not [path for path in Path("/proc").glob("[0-9]*/cmdline") if holds(path, PASSWORD.encode())]
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


def test_only_what_can_be_an_exit_code_is_taken_for_one_whoever_wrote_it(tmp_path: Path) -> None:
    workload = Container(str(folder_of(tmp_path)), task_of(tmp_path, "podman:/nowhere"))
    state = Path(workload.folder, "state")
    state.mkdir()
    (state / "started").touch()
    for said, found in (("7", (7, None)), ("255", (255, None)), ("99999999999", (None, signal.SIGKILL))):
        (state / "status").write_text(said)
        assert workload.status() == found


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
