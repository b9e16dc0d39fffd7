"""Private ceph of a container: bound into it, gone with it, and seen by nobody else of the host."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster.agent import mounts
from tests.agent.conftest import Machine, marked, new_id, stand_in
from tests.agent.contained import LONG_S, contained, gone, keeper_of
from tests.agent.engines import Service
from tests.agent.test_ceph import KERNEL, SECRET, ceph, only_root, program
from tests.agent.test_own_folder import as_nobody

pytestmark = only_root


@pytest.fixture(scope="module")
def host(podman: Service, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    """Return a host that runs containers and has the kernel's ceph client, its folders open to other users."""
    folder = tmp_path_factory.mktemp("host")
    (folder / "tools").mkdir()
    program(folder / "tools/mount.ceph", KERNEL.format(notes=folder / "notes.txt", besides=""))
    for path in (folder, *folder.parents):
        if path.owner() == "root" and path != Path("/"):
            path.chmod(path.stat().st_mode | 0o011)
    with stand_in(folder) as machine:
        machine.storage.chmod(0o777)
        tools = f"{folder}/tools:{os.environ['PATH']}"
        machine.start("--engine", podman.choice, "--task-user", "4242:4242", PATH=tools)
        yield machine


def test_data_is_seen_in_the_container_alone_and_gone_with_it(host: Machine, podman: Service) -> None:
    platform, instance = host.platform, new_id()
    command = "echo mine >/data/mine/it || echo refused; df /data/mine /data/other | grep -c none; echo up; sleep 60"
    data = [ceph("/data/mine"), ceph("/data/other", src="/other")]
    platform.want(instance, contained(command, data=data))
    log = platform.log_has(instance, b"up\n", LONG_S)
    assert b"2\nup\n" in log
    place = host.folder(instance) / "data/0"
    assert mounts.below(str(host.folder(instance)))[-1] == str(place)
    assert as_nobody(lambda: os.access(host.folder(instance) / "work", os.F_OK)), (
        "the way is open up to there"
    )
    assert not as_nobody(lambda: os.access(place, os.R_OK) or os.access(place / "it", os.F_OK))
    platform.stop(instance)
    gone(platform, instance)
    assert mounts.below(str(host.folder(instance))) == []
    assert SECRET.encode() not in platform.logs[instance]


def test_a_keeper_that_is_killed_leaves_neither_container_nor_mount(host: Machine, podman: Service) -> None:
    platform, instance = host.platform, new_id()
    platform.want(instance, contained("echo up; sleep 60", data=[ceph("/data/mine")]))
    platform.log_has(instance, b"up\n", LONG_S)
    os.kill(keeper_of(host, instance), signal.SIGKILL)
    assert gone(platform, instance)["detail"] == "keeper lost"
    assert mounts.below(str(host.folder(instance))) == []
    assert (marked(instance), f"taiji-{instance}" in podman.containers()) == ([], False)


def test_data_that_would_cover_the_platform_s_own_in_the_container_fails_the_start(host: Machine) -> None:
    platform, instance = host.platform, new_id()
    platform.want(instance, contained("true", data=[ceph("/taiji/state")]))
    report = gone(platform, instance)
    assert (report["detail"], report["cause"]) == (
        "/taiji/state cannot be mounted there: the platform uses /taiji.",
        "data",
    )
