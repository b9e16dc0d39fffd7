"""What an agent says to the platform, and how it bears the platform's absence."""

import stat
import time
from pathlib import Path

import pytest

from cluster.agent.__main__ import lock
from cluster.agent.options import arguments
from cluster.agent.protocol import PROTOCOL, WAIT_S
from tests.agent.conftest import Machine, new_id, spec


def test_a_new_host_registers_once_and_keeps_its_token_to_itself(machine: Machine) -> None:
    platform = machine.platform
    machine.start("--region", "SZ")
    platform.until(lambda: platform.reports)
    asked = {"name": "h1", "region": "SZ", "address": "127.0.0.1", "protocol": PROTOCOL}
    assert platform.registered == [asked]
    assert stat.S_IMODE((machine.state / "host.json").stat().st_mode) == 0o600
    machine.end()
    machine.join.unlink()
    before = len(platform.reports)
    machine.start()
    platform.until(lambda: len(platform.reports) > before)
    assert len(platform.registered) == 1


def test_a_report_has_the_cards_and_a_number_that_only_grows(machine: Machine) -> None:
    platform = machine.platform
    machine.start()
    for _ in range(3):
        instance = new_id()
        platform.want(instance, spec("true"))
        platform.phase(instance, "gone")
    numbers = [report["seq"] for report in platform.reports]
    assert numbers == sorted(set(numbers))
    assert len(set(platform.received)) == len(platform.received)  # none was given twice, taken or not
    assert len({report["boot"] for report in platform.reports}) == 1
    first = platform.reports[0]
    assert (first["protocol"], first["have"], first["wait_s"], first["offers"][0]) == (
        PROTOCOL,
        "",
        0,
        "process",
    )
    assert [(card["index"], card["gpu_type"], card["uuid"]) for card in first["cards"]] == [
        (index, "P40", "") for index in range(8)
    ]
    assert abs(first["clock"] - time.time()) < 30


def test_an_idle_host_makes_one_call_and_waits(machine: Machine) -> None:
    platform = machine.platform
    machine.start()
    platform.until(lambda: len(platform.reports) >= 2)
    time.sleep(0.6)
    assert [report["wait_s"] > 0 for report in platform.reports] == [False, True]
    assert machine.agent is not None
    with open(f"/proc/{machine.agent.pid}/stat") as file:
        before = sum(map(int, file.read().split()[13:15]))
    time.sleep(1)
    with open(f"/proc/{machine.agent.pid}/stat") as file:
        assert sum(map(int, file.read().split()[13:15])) - before <= 1  # hundredths of a second


def test_the_first_call_that_waits_is_cut_short_since_a_start_and_after_the_platform_was_away(
    machine: Machine,
) -> None:
    platform = machine.platform

    def waits(number: int) -> list[float]:
        platform.until(lambda: len(platform.reports) >= number)
        return [report["wait_s"] for report in platform.reports[:number]]

    machine.start()
    told, first = waits(2)
    assert told == 0
    assert WAIT_S / 4 <= first < WAIT_S
    platform.change()
    assert waits(3)[2] == WAIT_S
    platform.sync_status = 503
    platform.change()
    platform.until(lambda: "answers 503" in machine.said())
    platform.sync_status = None
    again = waits(4)[3]
    assert WAIT_S / 4 <= again < WAIT_S
    platform.change()
    assert waits(5)[4] == WAIT_S


def test_a_platform_that_is_away_is_found_again_and_what_runs_runs_on(machine: Machine) -> None:
    platform, instance = machine.platform, new_id()
    machine.start()
    platform.want(instance, spec("echo up; while ! test -e go; do sleep 0.02; done; echo down"))
    platform.log_has(instance, b"up")
    platform.close()
    (machine.folder(instance) / "work/go").touch()
    time.sleep(0.5)
    platform.open()
    assert platform.phase(instance, "gone")["exit_code"] == 0
    assert platform.log_has(instance, b"down") == b"up\ndown\n"
    assert machine.said().count("does not answer") <= 2  # once for the reports, once for the log


def test_a_platform_that_answers_with_an_error_is_asked_again(machine: Machine) -> None:
    platform = machine.platform
    platform.sync_status = 503
    machine.start()
    platform.until(lambda: "answers 503" in machine.said())
    platform.sync_status = 426
    platform.until(lambda: "answers 426" in machine.said())
    platform.sync_status = None
    platform.until(lambda: platform.reports)


def test_a_wrong_join_token_is_named_and_a_right_one_is_taken_later(machine: Machine) -> None:
    platform = machine.platform
    machine.join.write_text("wrong")
    machine.start()
    platform.until(lambda: "does not register h1: This join token is not valid." in machine.said())
    machine.join.unlink()
    platform.until(lambda: "The join token cannot be read" in machine.said())
    machine.join.write_text("join-me")
    platform.until(lambda: platform.reports)


def test_a_token_that_is_refused_is_replaced_once_the_name_is_free(machine: Machine) -> None:
    platform = machine.platform
    machine.start()
    platform.until(lambda: platform.reports)
    platform.tokens = ["of-another"]
    platform.change()
    platform.until(lambda: "does not register h1: name: It is registered already." in machine.said())
    assert "refuses this host's report: The host token is not valid." in machine.said()
    platform.registered.clear()
    before = len(platform.reports)
    platform.until(lambda: len(platform.reports) > before)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--url", "platform:8000"], "'platform:8000' is not an address such as https://taiji.example.com"),
        (["--simulate", "P40"], "'P40' is not of the form TYPE:N, such as P40:8, with N from 1 to 1024"),
    ],
)
def test_a_wrong_option_is_answered_with_a_sentence(
    machine: Machine, options: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        arguments().parse_args([*machine.command()[3:], *options])
    assert capsys.readouterr().err.strip().endswith(sentence)


def test_a_state_folder_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(SystemExit, match=r"The state folder .*/file/state cannot be used: Not a directory"):
        lock(tmp_path / "file" / "state")


def test_help_names_every_option(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        arguments().parse_args(["run", "--help"])
    text = capsys.readouterr().out
    for option in (
        "--url",
        "--name",
        "--region",
        "--state",
        "--storage",
        "--join-token-file",
        "--simulate",
        "--ca",
    ):
        assert option in text
