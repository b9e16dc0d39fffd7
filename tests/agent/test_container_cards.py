"""Cards and other devices of a container: they are there when its command starts, or it does not start."""

import json
import os
import shutil
import stat
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster.agent.container import Container
from cluster.agent.workload import CannotStart
from tests.agent import nvidia_runtime
from tests.agent.conftest import new_id, stand_in
from tests.agent.contained import LONG_S, contained, folder_of, gone, task_of
from tests.agent.engines import Service


def test_a_card_that_does_not_reach_the_container_fails_the_start(podman: Service, tmp_path: Path) -> None:
    # By the API of Docker this engine gives no devices and says nothing: the command must not run without.
    workload = Container(
        str(folder_of(tmp_path)), task_of(tmp_path, f"docker:{podman.socket}", gpus=["GPU-1"])
    )
    workload.prepare(lambda: False)
    with pytest.raises(CannotStart, match=r"did not get its cards: /dev/nvidiactl is not there") as fault:
        workload.start()
    assert fault.value.cause == "card"
    assert podman.containers() == []


def ended_well(workload: Container) -> str:
    """Run a workload to its end, which is a good one; return what it printed."""
    workload.prepare(lambda: False)
    workload.start()
    deadline = time.monotonic() + LONG_S
    while not workload.gone():
        assert time.monotonic() < deadline
        time.sleep(0.02)
    assert (workload.status(), workload.clear()) == ((0, None), {})
    return Path(workload.folder, "log").read_text()


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
    task = task_of(tmp_path, podman.choice, gpus=[cdi])
    workload = Container(str(folder_of(tmp_path)), {**task, "command": "ls /dev/nvidiactl"})
    assert ended_well(workload) == "/dev/nvidiactl\n"


def test_docker_is_asked_for_the_cards_themselves_and_they_are_there(podman: Service, tmp_path: Path) -> None:
    with nvidia_runtime.before(podman.socket) as runtime:
        task = task_of(tmp_path, f"docker:{runtime.server_address}", gpus=["GPU-1", "MIG-2"])
        workload = Container(str(folder_of(tmp_path)), {**task, "command": "ls /dev/nvidiactl"})
        assert ended_well(workload) == "/dev/nvidiactl\n"
    assert [(one["DeviceIDs"], one["Capabilities"]) for one in runtime.asked] == [
        (["GPU-1", "MIG-2"], [["gpu"]])
    ]


def test_a_docker_without_the_runtime_of_cards_fails_the_start_with_its_words(
    podman: Service, tmp_path: Path
) -> None:
    with nvidia_runtime.before(podman.socket, installed=False) as runtime:
        task = task_of(tmp_path, f"docker:{runtime.server_address}", gpus=["GPU-1"])
        workload = Container(str(folder_of(tmp_path)), task)
        workload.prepare(lambda: False)
        with pytest.raises(CannotStart, match=r"could not select device driver"):
            workload.start()
    assert podman.containers() == []


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
    workload = Container(str(folder_of(tmp_path)), task_of(tmp_path, podman.choice, gpus=["GPU-unknown"]))
    workload.prepare(lambda: False)
    with pytest.raises(CannotStart, match=r"unresolvable CDI devices nvidia\.com/gpu=GPU-unknown"):
        workload.start()
    assert podman.containers() == []
