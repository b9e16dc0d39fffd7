"""Whatever a task prints, and however much: its state, its host and the platform bear it, and no byte is changed."""

import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.test import AsyncClient

from cluster import logs
from jobs import services
from jobs.models import Task
from quotas.models import ApiToken
from tests.agent.conftest import marked
from tests.life.house import House

CAP = 300_000
MARK = f"\n[taiji] This log is longer than {CAP} bytes: the rest is not kept.\n".encode()
SOME_MB = 120  # several times what an agent may take, and more than it cuts a log at


def downloaded(task: Task) -> bytes:
    """Return the log as a browser gets it, piece by piece."""

    async def fetch() -> bytes:
        headers = {"Authorization": f"Token {token}"}
        address = f"/api/v1/tasks/{task.pk}/log/?download=1"
        response: Any = await AsyncClient().get(address, headers=headers)
        if not response.streaming:
            return bytes(response.content)
        return b"".join([piece async for piece in response.streaming_content])

    token = ApiToken.objects.issue(task.user, "test")
    return async_to_sync(fetch)()


def peak_mib(pid: int) -> int:
    """Return the most memory that a process ever took."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(next(line for line in status.splitlines() if line.startswith("VmHWM")).split()[1]) // 1024


ODD = {
    "every byte there is": bytes(range(256)) * 40,
    "what is no UTF-8, and characters cut anywhere": "中文".encode("gbk") + "中文".encode()[:4] + b"\xff\xfe",
    "colours, progress bars and bells": b"".join(b"\x1b[32m%d %%\x1b[0m\r" % n for n in range(5000))
    + b"\x07\n",
    "one line of ten megabytes": b"x" * 10_000_000 + b"\nend",
    "no line at all": b"no newline",
    "markup": b"<script>alert(1)</script>\x00&amp;\n",
}


@pytest.mark.parametrize("name", ODD)
def test_odd_output_is_kept_byte_for_byte(house: House, name: str) -> None:
    house.host("h1")
    (house.storage / "odd").write_bytes(ODD[name])
    task = house.submit(f"cat {house.storage}/odd; exit 4")
    house.reach(task, "failed")
    assert house.member(task).exit_code == 4
    house.until(lambda: logs.end_of(house.member(task).pk) == len(ODD[name]))
    assert downloaded(task) == ODD[name]


def size_of(path: Path) -> int:
    """Return the size of a file; 0 where it is gone, its instance being forgotten."""
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def test_far_too_much_output_is_cut_with_a_mark_and_nothing_else_suffers(house: House) -> None:
    host = house.host("h1", 2, log_cap=str(CAP))
    endless = house.submit(f"head -c {SOME_MB * 2**20} /dev/zero | tr '\\0' x; echo ended >&2; exit 6")
    house.reach(endless, "failed", within_s=60)
    member = house.member(endless)
    assert member.exit_code == 6
    house.until(lambda: logs.end_of(member.pk) >= CAP + len(MARK))
    assert downloaded(endless) == b"x" * CAP + MARK
    other = house.submit("echo still here")
    house.reach(other, "succeeded")
    assert house.printed(other, "still") == "still here\n"
    assert host.agent is not None
    assert peak_mib(host.agent.pid) < 120
    assert size_of(host.folder(member) / "log") < SOME_MB * 2**19


@pytest.fixture
def small_disk(house: House) -> Iterator[Path]:
    """Return the state folder of the host h1, a disk of 100 MiB."""
    folder = house.folder / "h1"
    folder.mkdir()
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=100m", "tmpfs", str(folder)], capture_output=True
    )
    if done.returncode:
        pytest.skip("only root may mount a disk here")
    yield folder
    for host in house.hosts:
        host.clear()
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


def fill(disk: Path) -> Path:
    """Write to a disk until it takes no more; return the file to remove."""
    path = disk / "filler"
    with path.open("wb", buffering=0) as file, suppress(OSError):
        while file.write(bytes(2**16)):
            pass
    return path


def test_a_full_disk_of_a_host_is_told_and_loses_no_state(house: House, small_disk: Path) -> None:
    house.host("h1", 3)
    command = 'n=0; while ! test -e "$TAIJI_TASK_DIR/end"; do n=$((n + 1)); echo $n; sleep 0.02; done; exit 3'
    counting, sleeping = house.submit(command), house.submit("echo up; exec sleep 1000")
    house.reach(counting, "running")
    house.reach(sleeping, "running")
    filler = fill(small_disk)
    refused = house.submit("echo never")
    house.reach(refused, "failed")
    assert "No space left on device" in house.attempt(refused).outcome_args["detail"]
    house.until(
        lambda: (row := house.hosts[0].row) and row.trouble.startswith(f"The disk of {small_disk} is full")
    )
    services.stop(sleeping, sleeping.user)
    (house.storage / f"business-{counting.business_id}/task-{counting.pk}/end").touch()
    for task in (sleeping, counting):
        house.until(lambda: not marked(str(house.member(task).pk)))  # noqa: B023 - called at once
    time.sleep(0.5)  # their ends cannot be written down, so nobody says that they are gone
    house.reach(sleeping, "stopping")
    house.reach(counting, "running")
    filler.unlink()
    house.reach(sleeping, "stopped")
    house.reach(counting, "failed")
    assert house.attempt(counting).outcome_args["exit_code"] == 3
