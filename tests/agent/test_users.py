"""Who tasks run as, and that nothing of theirs runs as anybody else."""

import os
import pwd
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster.agent import users
from tests.agent.conftest import Machine, marked, new_id, spec, stand_in


def test_root_has_to_say_who_tasks_run_as(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    with pytest.raises(users.NoSuchUser, match=r"Tasks would run as root: .* --task-user root"):
        users.resolve(None)
    assert users.resolve("root") == ""
    assert users.resolve("4242:17") == "4242:17"
    with pytest.raises(users.NoSuchUser, match=r"There is no user nobody-of-that-name .* --task-user"):
        users.resolve("nobody-of-that-name")


def test_another_user_runs_tasks_only_as_himself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 4242)
    assert users.resolve(None) == ""
    with pytest.raises(users.NoSuchUser, match="Only an agent that is root"):
        users.resolve("17:17")


def test_whom_tasks_run_as_has_his_own_home_and_name_and_not_root_s() -> None:
    own = {"HOME": "/root", "LOGNAME": "root", "USER": "root", "TZ": "UTC"}
    other = pwd.getpwnam("daemon")
    assert users.environment("", own) == own
    assert users.environment(f"{other.pw_uid}:17", own) == {
        "HOME": other.pw_dir,
        "LOGNAME": "daemon",
        "USER": "daemon",
        "TZ": "UTC",
    }
    assert users.environment("424242:17", own) == {"TZ": "UTC"}  # nobody has this number


@pytest.fixture
def open_machine() -> Iterator[Machine]:
    """Return a host whose storage others can get at, unlike what pytest makes."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o711)
        with stand_in(Path(folder)) as machine:
            yield machine


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can run tasks as somebody else")
def test_a_plain_process_runs_as_the_user_of_tasks(open_machine: Machine) -> None:
    platform, instance = open_machine.platform, new_id()
    open_machine.start("--task-user", "4242:4243")
    command = 'id; touch here "$TAIJI_TASK_DIR/there"; echo again >>/dev/stderr; pwd; grep NoNewPrivs /proc/self/status'
    platform.want(instance, spec(command))
    report = platform.phase(instance, "gone")
    log = platform.log_has(instance, b"NoNewPrivs").decode()
    assert (report["exit_code"], report["by_itself"]) == (0, True)
    assert re.match(r"uid=4242 gid=4243( groups=4243)?\nagain\n", log)
    assert log.endswith(f"{open_machine.folder(instance)}/work\nNoNewPrivs:\t1\n")
    assert (open_machine.storage / "ads/task-1/there").stat().st_uid == 4242


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can run tasks as somebody else")
def test_a_process_of_another_user_ends_as_ordered(open_machine: Machine) -> None:
    platform, instance = open_machine.platform, new_id()
    open_machine.start("--task-user", "4242:4243")
    loop = "while :; do sleep 0.05; done"
    platform.want(instance, spec(f"setsid sleep 4242 & echo up; {loop}", exit_command="id -u", grace_s=5.0))
    platform.log_has(instance, b"up")
    platform.stop(instance)
    assert platform.phase(instance, "gone")["exit_signal"] == 15
    assert platform.log_has(instance, b"4242").startswith(b"up\n4242\n")
    assert marked(instance) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can run tasks as somebody else")
def test_a_folder_of_the_storage_that_the_user_of_tasks_may_not_write_is_named(open_machine: Machine) -> None:
    platform, refused, taken = open_machine.platform, new_id(), new_id()
    folder = open_machine.storage / "ads"
    folder.mkdir(mode=0o755)
    os.chown(folder, 4300, 4300)
    open_machine.start("--task-user", "4242:4243")
    platform.want(refused, spec("echo no"))
    gone = platform.phase(refused, "gone")
    assert (gone["exit_code"], gone["detail"]) == (None, f"The folder {folder} cannot be written.")
    os.chown(folder, 4300, 4243)
    folder.chmod(0o770)
    platform.want(taken, spec("echo yes"))
    assert platform.phase(taken, "gone")["exit_code"] == 0


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can run tasks as somebody else")
def test_a_storage_that_the_user_of_tasks_cannot_get_to_is_named(open_machine: Machine) -> None:
    platform, instance = open_machine.platform, new_id()
    (open_machine.storage / "ads/task-1").mkdir(parents=True)
    for folder in ("ads", "ads/task-1"):
        os.chown(open_machine.storage / folder, 4242, 4243)
    open_machine.storage.chmod(0o700)
    open_machine.start("--task-user", "4242:4243")
    platform.want(instance, spec("echo no"))
    gone = platform.phase(instance, "gone")
    assert (gone["exit_code"], gone["detail"]) == (
        None,
        f"The folder {open_machine.storage}/ads cannot be written.",
    )


PRELOADED = """
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
__attribute__((constructor)) static void said(void) {
    FILE *file = fopen(getenv("TRACE"), "a");
    if (file) { fprintf(file, "%d\\n", geteuid()); fclose(file); }
}
"""


@pytest.mark.skipif(
    os.geteuid() != 0 or not shutil.which("gcc"), reason="takes root, who can be somebody else, and gcc"
)
def test_nothing_runs_as_root_with_the_variables_of_a_task(open_machine: Machine) -> None:
    """A library that the task's variables name is loaded by every program that starts with them."""
    platform, instance = open_machine.platform, new_id()
    source, library, trace = (open_machine.storage / name for name in ("mine.c", "mine.so", "trace"))
    source.write_text(PRELOADED)
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", library, source], check=True)
    trace.touch()
    trace.chmod(0o666)
    open_machine.start("--task-user", "4242:4243")
    variables = {"LD_PRELOAD": str(library), "TRACE": str(trace)}
    platform.want(instance, spec("id -u", env=variables, exit_command="id -u"))
    assert platform.phase(instance, "gone")["exit_code"] == 0
    assert set(trace.read_text().split()) == {"4242"}
