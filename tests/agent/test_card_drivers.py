"""Drivers that are away, hang, or are replaced: the cards stay what they were, and the host says so."""

import subprocess
from pathlib import Path

import pytest

from cluster.agent.cards import Cards, Look, Simulated
from cluster.agent.gpus import read_nvml
from cluster.agent.probe import NoCards
from tests.agent.cards_host import Host, driver, host, nvml
from tests.agent.nvml import Nvml

__all__ = ["host", "nvml"]  # the fixtures


def test_without_nvml_there_are_no_cards_and_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))
    (tmp_path / "libnvidia-ml.so.1").write_text("no library")
    with pytest.raises(NoCards, match=r"NVML cannot be used \(NVML Shared Library Not Found\)"):
        read_nvml()


def test_a_driver_that_is_being_upgraded_is_told_plainly_and_takes_no_card_away(
    nvml: Nvml, host: Host
) -> None:
    host.look()
    nvml.set(init="!18")
    host.probe.end()
    said = set(host.states().values())
    assert len(said) == 1
    assert said.pop().startswith(
        "broken The NVIDIA driver was changed and its kernel module was not loaded anew"
    )
    host.start()
    assert {card.gpu_type for card in host.gpus.remembered()} == {"P40"}
    assert {card.state for card in host.look().values()} == {"broken"}
    nvml.set(init=None)
    assert host.states() == {0: "ok", 1: "ok"}


def test_a_library_that_was_replaced_on_the_disk_is_noticed_by_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, host: Host
) -> None:
    nvml = driver(tmp_path, monkeypatch, "Tesla P40")
    mine = tmp_path / "lib"
    mine.mkdir()
    library = Path(nvml.environment["LD_LIBRARY_PATH"]) / "libnvidia-ml.so.1"
    for name in ("libnvidia-ml.so.1", "new"):
        (mine / name).write_bytes(library.read_bytes())
    monkeypatch.setenv("LD_LIBRARY_PATH", str(mine))
    assert host.states() == {0: "ok"}
    nvml.set(init="!18")
    assert host.states() == {0: "ok"}  # what is loaded goes on working
    (mine / "new").replace(mine / "libnvidia-ml.so.1")
    assert host.states()[0].startswith("broken The NVIDIA driver was changed")


def test_a_driver_that_hangs_is_given_up_and_asked_again(nvml: Nvml, host: Host) -> None:
    host.look()
    nvml.set("0", use="~")
    assert set(host.states().values()) == {"broken NVML does not answer within 0.5 s: the driver hangs"}
    nvml.set("0", use=0)
    assert host.states() == {0: "ok", 1: "ok"}


def test_a_driver_that_not_even_a_kill_gets_out_of_is_asked_by_no_second_process(
    nvml: Nvml, host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    host.look()
    nvml.set("0", use="~")

    def not_gone(process: object, timeout: float) -> None:
        raise subprocess.TimeoutExpired("nvml", timeout)  # as the kernel keeps one that waits for a device

    with monkeypatch.context() as patched:
        patched.setattr(subprocess.Popen, "wait", not_gone)
        patched.setattr(subprocess.Popen, "poll", lambda process: None)
        host.look()
        nvml.set("0", use=0)
        said = "broken NVML does not answer, and its process cannot be ended: the driver hangs"
        assert host.states() == {0: said, 1: said}
    hung = host.probe._hung
    assert hung is not None
    hung.wait(10)  # it is gone after all
    assert host.states() == {0: "ok", 1: "ok"}


def test_a_process_that_somebody_killed_is_started_anew(nvml: Nvml, host: Host) -> None:
    host.look()
    process = host.probe._process
    assert process is not None
    process.kill()
    assert host.states() == {0: "ok", 1: "ok"}


def test_a_host_that_has_no_driver_any_more_has_no_cards_unless_it_had_some() -> None:
    class Away(Simulated):
        def look(self, ours: object) -> Look:
            raise NoCards("NVML cannot be used (Driver Not Loaded)")

    cards = Cards(Away([]))
    assert not cards.refresh()
    assert cards.now == ()
