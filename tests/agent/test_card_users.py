"""Who is on the cards of a host: people, tasks and what those start, the servers of MPS."""

import signal
import subprocess
from pathlib import Path
from typing import Any

from cluster.agent import processes
from tests.agent import engines
from tests.agent.conftest import Machine, new_id, spec
from tests.agent.nvml import Nvml
from tests.agent.nvml_machine import LOOP, cards, machine, nvml, somebody, start, until

__all__ = ["machine", "nvml"]  # the fixtures


def test_a_card_that_a_person_uses_is_external_until_that_ends(machine: Machine, nvml: Nvml) -> None:
    platform = start(machine, nvml)
    until(platform, {})
    with somebody() as pid:
        nvml.set("3", pids=pid)
        until(platform, {3: "external"})
        reason = cards(platform)[3]["reason"]
        assert reason.startswith(f"used from outside: sh (pid {pid}) of ")
    until(platform, {})  # the driver may still name it: it is no more


def test_what_tasks_start_is_never_taken_for_a_person_s(machine: Machine, nvml: Nvml, tmp_path: Path) -> None:
    platform = start(machine, nvml)
    task = new_id()
    # The command itself, a child without environment, and one in a session of its own whose parent has ended.
    pids = tmp_path / "pids"
    command = f"echo $$ >> {pids}; env -i sh -c 'echo $$ >> {pids}; {LOOP}' & "
    command += f"(env -i setsid sh -c 'echo $$ >> {pids}; {LOOP}' &) ; {LOOP}"
    platform.want(task, spec(command, cards=[0]))
    platform.until(lambda: pids.exists() and len(pids.read_text().split()) == 3)
    nvml.set("0", pids=",".join(pids.read_text().split()))
    nvml.set("1", pids=pids.read_text().split()[2])  # a card that is not even the task's
    with somebody() as pid:
        nvml.set("2", pids=pid)
        until(platform, {2: "external"})  # so all cards were looked at
        machine.end(signal.SIGKILL)
        seen = len(platform.reports)
        platform = start(machine, nvml)  # found again, before anybody is taken for a stranger
        until(platform, {2: "external"})
        assert {state for report in platform.reports[seen:] for state in _of(report, 0, 1)} == {"ok"}
    platform.stop(task)
    platform.phase(task, "gone")


def _of(report: dict[str, Any], *indexes: int) -> list[str]:
    return [card["state"] for card in report["cards"] if card["index"] in indexes]


def test_the_servers_of_mps_compute_for_others_and_are_no_strangers(
    machine: Machine, nvml: Nvml, tmp_path: Path
) -> None:
    server = tmp_path / "nvidia-cuda-mps-server"
    server.write_bytes(Path("/bin/sleep").resolve().read_bytes())
    server.chmod(0o755)
    platform = start(machine, nvml)
    process = subprocess.Popen([server, "60"])
    try:
        with somebody() as pid:
            nvml.set("0", pids=process.pid)
            nvml.set("1", pids=pid)
            until(platform, {1: "external"})
    finally:
        process.kill()
        process.wait()


def test_what_runs_in_a_container_of_ours_is_ours(machine: Machine, nvml: Nvml) -> None:
    with engines.service() as podman:
        platform = start(machine, nvml, "--engine", podman.choice)
        task = new_id()
        container = {"image": engines.IMAGE}
        inside = f"(env -i sh -c '{LOOP}' &); echo here; {LOOP}"
        platform.want(task, spec(inside, cards=[], container=container))
        platform.log_has(task, b"here")
        everything = _everything_of(task)
        assert len(everything) > 1
        nvml.set("0", pids=",".join(map(str, everything)))
        with somebody() as pid:
            nvml.set("1", pids=pid)
            until(platform, {1: "external"})
        platform.stop(task)
        platform.phase(task, "gone")


def _everything_of(instance: str) -> list[int]:
    """Return the processes of an instance by its mark, with what descends from those."""
    everything = processes.table()
    roots = [process.pid for process in processes.marked(instance, everything)]
    return sorted({*roots, *(process.pid for process in processes.below(roots, everything))})
