"""Cards that fail: what takes one out, for how long, and what makes it well again."""

from pathlib import Path

import pytest

from cluster.agent import faults
from tests.agent.cards_host import A100, Host, driver, host, nvml
from tests.agent.nvml import Nvml

__all__ = ["host", "nvml"]  # the fixtures


def test_an_xid_takes_a_card_out_and_one_of_a_program_does_not(nvml: Nvml, host: Host) -> None:
    host.look()
    nvml.xid(0, 31)
    nvml.xid(1, 13)
    nvml.xid(1, 79)
    look = host.gpus.look()
    assert [(card.state, card.reason) for card in look.cards] == [("ok", ""), ("broken", "Xid 79")]
    assert (look.samples[0].xids, look.samples[1].xids) == ((31,), (13, 79))
    assert host.gpus.look().samples[1].xids == ()
    assert host.states() == {0: "ok", 1: "broken Xid 79"}  # for as long as nobody says otherwise


def test_an_xid_of_a_slice_leaves_the_other_slices_and_one_of_the_card_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, host: Host
) -> None:
    nvml = driver(tmp_path, monkeypatch, A100)
    nvml.slices(0, "3g.20gb", "3g.20gb")
    host.look()
    nvml.xid(0, 95, part=8)
    look = host.gpus.look()
    assert [(card.index, card.state, card.reason) for card in look.cards] == [
        (100, "ok", ""),
        (101, "broken", "Xid 95"),
    ]
    assert (look.samples[100].xids, look.samples[101].xids) == ((), (95,))
    nvml.xid(0, 79)
    assert host.states() == {100: "broken Xid 79", 101: "broken Xid 79"}


def test_a_fault_outlives_the_agent_and_ends_by_the_word_of_an_operator(nvml: Nvml, host: Host) -> None:
    host.look()
    nvml.xid(0, 79)
    fault = host.look()[0].fault
    host.start()
    assert host.look()[0].fault == fault != ""
    host.gpus.clear(["another"])
    assert host.states()[0] == "broken Xid 79"
    host.gpus.clear([fault])
    assert host.states()[0] == "ok"
    host.start()
    assert host.states()[0] == "ok"
    nvml.xid(0, 79)
    assert host.look()[0].fault not in {"", fault}


def test_a_fault_ends_when_the_driver_is_loaded_anew(
    nvml: Nvml, host: Host, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = tmp_path / "module"
    module.mkdir()
    monkeypatch.setattr(faults.Faults.__init__, "__defaults__", (module,))
    host.start()
    host.look()
    nvml.xid(0, 79)
    assert host.states()[0] == "broken Xid 79"
    other = tmp_path / "other"
    other.mkdir()  # before the first one goes, so that it is another inode
    module.rmdir()
    other.rename(module)
    assert host.states()[0] == "ok"


def test_uncorrectable_errors_take_a_card_out_until_it_is_reset(nvml: Nvml, host: Host) -> None:
    nvml.set("0", ecc_corrected=500)
    assert host.states()[0] == "ok"
    nvml.set("0", ecc_uncorrected=2)
    assert host.states()[0] == "broken 2 uncorrectable ECC errors"
    nvml.set("0", ecc_uncorrected=0)
    assert host.states()[0] == "ok"


def test_errors_that_an_operator_knows_of_are_no_news_and_further_ones_are(nvml: Nvml, host: Host) -> None:
    nvml.set("0", ecc_uncorrected=2)
    host.gpus.clear([host.look()[0].fault])
    assert host.states()[0] == "ok"
    host.start()
    assert host.states()[0] == "ok"
    nvml.set("0", ecc_uncorrected=3)
    assert host.states()[0] == "broken 3 uncorrectable ECC errors"


def test_a_card_without_spare_rows_is_out_for_good(nvml: Nvml, host: Host) -> None:
    nvml.set("1", remap_failed=1)
    assert host.states() == {
        0: "ok",
        1: "broken Rows of its memory failed, and there are no spare ones left",
    }
    assert host.look()[1].fault == ""  # no word of an operator makes it whole


@pytest.mark.parametrize("text", ["", "[]", '{"session": 1}', '{"session": "", "faults": [], "cards": 5}'])
def test_what_is_kept_and_cannot_be_read_stops_no_agent(nvml: Nvml, host: Host, text: str) -> None:
    host.look()
    (host.folder / "cards.json").write_text(text)
    host.start()
    assert host.states() == {0: "ok", 1: "ok"}
