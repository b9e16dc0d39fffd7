"""A real agent on a host whose driver a test has in its hand: cards that break, hang, are divided."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from cluster.agent import processes
from tests.agent.conftest import Machine, marked, new_id, spec
from tests.agent.nvml import Nvml
from tests.agent.nvml_machine import (
    EVERY,
    LOOP,
    cards,
    machine,
    measured,
    nvml,
    somebody,
    start,
    states,
    until,
)
from tests.agent.platform import Platform
from tests.patience import WITHIN_S

__all__ = ["machine", "nvml"]  # the fixtures


def test_cards_that_fail_go_and_the_task_on_others_stays(machine: Machine, nvml: Nvml) -> None:
    platform = start(machine, nvml)
    task = new_id()
    platform.want(task, spec(f"echo $CUDA_VISIBLE_DEVICES; {LOOP}", cards=[0, 1, 2, 3]))
    platform.log_has(task, b"GPU-0,GPU-1,GPU-2,GPU-3\n")
    nvml.set("5", use="!15")
    nvml.xid(6, 79)
    until(platform, {5: "broken", 6: "broken"})
    assert (cards(platform)[5]["reason"], cards(platform)[6]["reason"]) == (
        "NVML says: GPU is lost",
        "Xid 79",
    )
    nvml.xid(2, 48)  # one that is in use
    until(platform, {2: "broken", 5: "broken", 6: "broken"})
    assert platform.phase(task, "running")
    assert marked(task)


def test_a_fault_that_operators_take_for_cured_is_forgotten_and_the_card_offered_again(
    machine: Machine, nvml: Nvml
) -> None:
    platform = start(machine, nvml, "--cards-every", "60")
    until(platform, {})
    machine.end()
    nvml.xid(3, 79)
    platform = start(machine, nvml)  # an Xid of before nobody listened is not known
    until(platform, {})
    nvml.xid(3, 79)
    until(platform, {3: "broken"})
    machine.end()
    platform = start(machine, nvml, "--cards-every", "60")
    until(platform, {3: "broken"})
    platform.cleared = [cards(platform)[3]["fault"]]
    platform.change()
    until(platform, {})  # at once, not at the next look


def test_a_card_that_fails_with_a_task_is_reported_with_its_end(machine: Machine, nvml: Nvml) -> None:
    platform = start(machine, nvml, "--cards-every", "60")
    until(platform, {})
    nvml.set(slow_ms=500)
    task = new_id()
    platform.want(task, spec(f"echo 4 -1 79 >> {nvml.folder}/events; exit 1", cards=[4]))

    def gone_while_much_is_told() -> bool:
        platform.change()
        seen = platform.seen(task)
        return seen is not None and seen["phase"] == "gone"

    platform.until(gone_while_much_is_told)
    first = next(
        report
        for report in platform.reports
        if any(one["id"] == task and one["phase"] == "gone" for one in report["instances"])
    )
    assert {card["index"]: card["reason"] for card in first["cards"] if card["state"] != "ok"} == {
        4: "Xid 79"
    }


def test_a_driver_that_hangs_holds_neither_reports_nor_tasks_nor_the_agent_s_end_up(
    machine: Machine, nvml: Nvml
) -> None:
    platform = start(machine, nvml)
    until(platform, {})
    machine.end()
    nvml.set(count="~")
    started = time.monotonic()
    platform = start(machine, nvml)
    assert time.monotonic() - started < WITHIN_S
    assert set(states(platform).values()) == {"broken"}  # they are not gone: nobody knows
    assert cards(platform)[0]["reason"] == "NVML has not answered since the agent was started"
    task = new_id()
    platform.want(task, spec("echo $CUDA_VISIBLE_DEVICES; exit 3", cards=[1]))
    assert platform.phase(task, "gone")["exit_code"] == 3
    platform.log_has(task, b"GPU-1\n")
    assert machine.end() == 0


def test_what_asks_nvml_is_started_anew_when_it_was_killed(machine: Machine, nvml: Nvml) -> None:
    platform = start(machine, nvml)
    until(platform, {})
    (asking,) = _children(machine)
    os.kill(asking, signal.SIGKILL)
    platform.until(lambda: _children(machine) not in ([], [asking]))

    def heard() -> bool:
        nvml.xid(1, 79)  # what happens before the new one listens, nobody hears
        return states(platform)[1] == "broken"

    platform.until(heard)


def _children(machine: Machine) -> list[int]:
    """Return the processes that ask NVML for an agent."""
    assert machine.agent is not None
    pid = machine.agent.pid
    everything = processes.table().values()
    found = [process.pid for process in everything if process.parent == pid and not process.dead]
    return [child for child in found if b"cluster.agent.nvml" in Path(f"/proc/{child}/cmdline").read_bytes()]


def test_an_agent_that_is_killed_takes_what_asks_nvml_along(machine: Machine, nvml: Nvml) -> None:
    platform = start(machine, nvml)
    until(platform, {})
    (asking,) = _children(machine)
    machine.end(signal.SIGKILL)
    platform.until(lambda: (left := processes.find(asking)) is None or left.dead)


def test_a_host_whose_driver_is_being_upgraded_says_so_of_every_card(machine: Machine, nvml: Nvml) -> None:
    platform = start(machine, nvml)
    until(platform, {})
    machine.end()
    nvml.set(init="!18")
    platform = start(machine, nvml)
    until(platform, dict.fromkeys(range(8), "broken"))
    assert cards(platform)[0]["reason"].startswith("The NVIDIA driver was changed")
    nvml.set(init=None)
    until(platform, {})


def test_a_task_on_a_slice_sees_that_slice_and_a_card_that_is_divided_anew_leaves_no_ghost(
    machine: Machine, nvml: Nvml
) -> None:
    nvml.gpus("NVIDIA A100-SXM4-40GB")
    nvml.slices(0, "3g.20gb", "1g.5gb")
    platform = start(machine, nvml)
    platform.until(lambda: {100, 101} == set(cards(platform)))
    assert cards(platform)[101]["gpu_type"] == "A100-1g.5gb"
    task = new_id()
    platform.want(task, spec(f"echo $CUDA_VISIBLE_DEVICES $NVIDIA_VISIBLE_DEVICES; {LOOP}", cards=[101]))
    platform.log_has(task, b"MIG-0-1 MIG-0-1\n")
    nvml.slices(0)
    platform.until(lambda: {0} == set(cards(platform)))
    assert (cards(platform)[0]["uuid"], cards(platform)[0]["gpu_type"]) == ("GPU-0", "A100-SXM4-40GB")
    late = new_id()
    platform.want(late, spec("true", cards=[101]))  # ordered before the platform knew
    assert platform.phase(late, "gone")["detail"] == "This host has no card 101."


def test_shares_hold_a_task_to_its_part_and_are_not_offered_without_the_daemon(
    machine: Machine, nvml: Nvml, tmp_path: Path
) -> None:
    nvml.gpus("NVIDIA A10", "NVIDIA A10", "Tesla T4")
    pipes = tmp_path / "mps"
    pipes.mkdir()
    platform = start(machine, nvml, "--mps", "A10:4", CUDA_MPS_PIPE_DIRECTORY=str(pipes))
    platform.until(lambda: len(platform.reports[-1]["cards"]) == 9)
    until(platform, dict.fromkeys([*range(100, 104), *range(200, 204)], "broken"))
    assert cards(platform)[100]["reason"] == f"nvidia-cuda-mps-control does not run ({pipes})"
    with somebody() as daemon:
        (pipes / "nvidia-cuda-mps-control.pid").write_text(f"{daemon}\n")
        until(platform, {})
        facts = {(card["gpu_type"], card["memory_mib"], card["uuid"]) for card in cards(platform).values()}
        assert facts == {("A10/4", 6144, "GPU-0"), ("A10/4", 6144, "GPU-1"), ("T4", 24576, "GPU-2")}
        assert _mps_of(platform, 101) == ("GPU-0", "25", "0=6144M", str(pipes))
        assert _mps_of(platform, 100, 101, 203) == ("GPU-0,GPU-1", "25", "0=12288M,1=6144M", str(pipes))
        assert _mps_of(platform, 100, 101) == ("GPU-0", "50", "0=12288M", str(pipes))
        assert _mps_of(platform, 2) == ("GPU-2", "", "", "")
    until(platform, dict.fromkeys([*range(100, 104), *range(200, 204)], "broken"))


def _mps_of(platform: Platform, *indexes: int) -> tuple[str, ...]:
    """Return what a task with these cards is told."""
    names = (
        "VISIBLE_DEVICES",
        "MPS_ACTIVE_THREAD_PERCENTAGE",
        "MPS_PINNED_DEVICE_MEM_LIMIT",
        "MPS_PIPE_DIRECTORY",
    )
    task = new_id()
    command = f'echo "{" ".join(f"$CUDA_{name};" for name in names)}"'
    platform.want(task, spec(command, cards=list(indexes)))
    platform.phase(task, "gone")
    said = platform.log_has(task, b"\n").decode().split(";")
    platform.done_with(task)
    return tuple(part.strip() for part in said[:-1])


@pytest.mark.parametrize("given", ["A10", "A10:1", "A10:99", ":4", "A10:x"])
def test_shares_that_cannot_be_are_refused_with_a_sentence(machine: Machine, nvml: Nvml, given: str) -> None:
    command = [sys.executable, "-m", "cluster.agent", *machine.command("--mps", given)[3:]]
    refused = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **nvml.environment})
    assert refused.returncode == 1
    assert refused.stderr.strip().endswith(f"{given!r} is not TYPE:N with N from 2 to 48, such as A10:4.")


def test_what_is_measured_in_a_minute_is_reported_once_the_platform_s_clock_is_past_it(
    machine: Machine, nvml: Nvml
) -> None:
    platform = machine.platform
    platform.clock = lambda: 6000.0
    nvml.set("0", use=87, used_mib=12000, temperature_c=71, power_mw=187400)
    start(machine, nvml)
    # It knows the platform's clock from the first answer on.
    platform.until(lambda: len(platform.reports) > 1)
    nvml.xid(0, 13)
    time.sleep(2)  # some looks in minute 100, also where this machine does much else
    told = measured(platform, 100)
    row = next(row for row in told if row["card"] == 0)
    assert (row["use_mean"], row["memory_max_mib"], row["temperature_max_c"], row["power_mean_w"]) == (
        87,
        12000,
        71,
        187,
    )
    assert row["xids"] == [13]
    assert json.dumps(row)
    assert {row["card"] for row in told} == set(range(8))
    platform.change()
    platform.until(lambda: platform.reports[-1]["minutes"] == [])  # told once it was answered


def test_simulated_cards_report_no_minutes(machine: Machine) -> None:
    machine.simulate = "P40:2"
    platform = machine.platform
    platform.clock = lambda: 6000.0
    machine.start(*EVERY)
    platform.until(lambda: platform.reports)
    platform.clock = lambda: 6120.0
    for _ in range(5):
        platform.change()
        time.sleep(0.15)
    assert all(report["minutes"] == [] for report in platform.reports)
