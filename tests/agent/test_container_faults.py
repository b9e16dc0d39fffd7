"""Containers whose engine, keeper or agent is killed: what runs runs on, what is left goes."""

import json
import os
import signal
import time
from pathlib import Path

import pytest

from cluster.agent.engine import LABEL, OWNER, EngineFault, open_engine
from tests.agent.conftest import Machine, marked, new_id, spec, stand_in
from tests.agent.contained import LONG_S, LOOP, contained, gone, holds, keeper_of
from tests.agent.engines import IMAGE, Service
from tests.agent.platform import Platform


@pytest.fixture(scope="module")
def host(podman_host: Machine) -> Machine:
    """Return a host whose agent runs containers."""
    return podman_host


@pytest.fixture
def platform(host: Machine) -> Platform:
    return host.platform


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
    paths = [path for path in Path("/proc").glob("[0-9]*/cmdline") if holds(path, word)]
    return [int(path.parent.name) for path in paths if holds(path, b"conmon\0")]


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
