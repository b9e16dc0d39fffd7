"""The cards of a host: their names, their indexes and states, whatever becomes of driver and hardware."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster.agent import faults
from cluster.agent.cards import Card, Cards, Look, Simulated
from cluster.agent.gpu_names import gpu_type, share_type, slice_type
from cluster.agent.gpus import Gpus, read_nvml
from cluster.agent.probe import NoCards, Probe
from tests.agent.nvml import Nvml

A100 = "NVIDIA A100-SXM4-40GB"


@pytest.fixture
def nvml(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Nvml:
    """Return a driver of today with two P40."""
    return driver(tmp_path, monkeypatch, "Tesla P40", "Tesla P40")


def driver(folder: Path, monkeypatch: pytest.MonkeyPatch, *names: str, old: bool = False) -> Nvml:
    """Return a driver with these cards, which the processes started from now on find."""
    nvml = Nvml(folder / "nvml", old=old)
    nvml.gpus(*names)
    for name, value in nvml.environment.items():
        monkeypatch.setenv(name, value)
    return nvml


class Host:
    """What an agent on a host with these cards knows, and what one that is started again does."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "state"
        self.folder.mkdir()
        self.probe = Probe(first_s=5, answer_s=0.5)
        self.start()

    def start(self, **options: dict[str, int]) -> None:
        """Start the agent, again."""
        self.probe.end()
        self.gpus = Gpus(self.folder, probe=self.probe, **options)

    def look(self) -> dict[int, Card]:
        """Return the cards by index, after a look."""
        return {card.index: card for card in self.gpus.look().cards}

    def states(self) -> dict[int, str]:
        """Return the cards' states by index, with the reasons of those that are not well."""
        return {index: f"{card.state} {card.reason}".strip() for index, card in self.look().items()}

    def types(self) -> dict[int, str]:
        """Return the cards' types by index."""
        return {index: card.gpu_type for index, card in self.look().items()}


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Host]:
    """Return the host."""
    host = Host(tmp_path)
    yield host
    host.probe.end()


# Names


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("Tesla P40", "P40"),
        ("Tesla M40", "M40"),
        ("NVIDIA A100-SXM4-80GB", "A100-SXM4-80GB"),
        ("Tesla V100-SXM2-32GB", "V100-SXM2-32GB"),
        ("NVIDIA H100 80GB HBM3", "H100-80GB-HBM3"),
        ("NVIDIA GeForce RTX 3090", "RTX-3090"),
        ("NVIDIA H200", "H200"),
    ],
)
def test_a_gpu_type_is_the_card_s_name_without_its_brand(name: str, kind: str) -> None:
    assert gpu_type(name) == kind


@pytest.mark.parametrize(
    ("card", "profile", "kind"),
    [
        ("A100-SXM4-80GB", "1g.10gb", "A100-1g.10gb"),
        ("A100-PCIe-40GB", "1c.3g.20gb", "A100-1c.3g.20gb"),
        ("H100-80GB-HBM3", "3g.40gb", "H100-3g.40gb"),
        ("H200", "1g.18gb", "H200-1g.18gb"),
        ("A30", "1g.6gb+me", "A30-1g.6gb+me"),
    ],
)
def test_a_slice_is_named_by_model_and_profile(card: str, profile: str, kind: str) -> None:
    assert slice_type(card, profile) == kind


def test_a_share_is_named_by_its_part() -> None:
    assert share_type("A10", 4) == "A10/4"
    assert len(share_type("X" * 64, 48)) <= 64


def test_simulated_cards_are_numbered_over_their_types_and_nothing_is_measured_on_them() -> None:
    cards = Cards(Simulated([("P40", 2), ("M40", 1)]))
    assert not cards.refresh()
    assert [(card.index, card.gpu_type) for card in cards.now] == [(0, "P40"), (1, "P40"), (2, "M40")]
    assert cards.minutes.report(99) == []


# What NVML finds


def test_nvml_s_cards_have_uuid_type_memory_and_what_is_measured(nvml: Nvml, host: Host) -> None:
    nvml.set("0", use=87, used_mib=12000, temperature_c=71, power_mw=187400, ecc_corrected=3)
    look = host.gpus.look()
    assert look.cards[0] == Card(index=0, uuid="GPU-0", gpu_type="P40", memory_mib=24576)
    sample = look.samples[0]
    assert (sample.use, sample.memory_mib, sample.temperature_c, sample.power_w) == (87, 12000, 71, 187)
    assert (sample.ecc_corrected, sample.ecc_uncorrected, sample.outside, sample.xids) == (3, 0, 0, ())


def test_what_a_driver_does_not_know_is_unknown_and_harms_no_card(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, host: Host
) -> None:
    nvml = driver(tmp_path, monkeypatch, "Tesla M40", old=True)
    nvml.set("0", ecc_corrected=None, ecc_uncorrected=None, power_mw="!999", use=None)
    look = host.gpus.look()
    assert [(card.gpu_type, card.state) for card in look.cards] == [("M40", "ok")]
    sample = look.samples[0]
    assert (sample.ecc_corrected, sample.ecc_uncorrected, sample.power_w, sample.use) == (None,) * 4
    assert (sample.temperature_c, sample.memory_mib) == (30, 0)


def test_a_card_that_is_lost_is_broken_and_stays_what_it_was(nvml: Nvml, host: Host) -> None:
    host.look()
    nvml.set("1", memory_mib="!15")
    cards = host.look()
    lost = Card(
        index=1,
        uuid="GPU-1",
        gpu_type="P40",
        memory_mib=24576,
        state="broken",
        reason="NVML says: GPU is lost",
    )
    assert (cards[0].state, cards[1]) == ("ok", lost)


@pytest.mark.parametrize("call", ["handle", "uuid", "name", "use", "ecc_uncorrected", "pids"])
def test_a_card_is_lost_whichever_call_says_so(nvml: Nvml, host: Host, call: str) -> None:
    host.look()
    nvml.set("1", **{call: "!15"})
    assert host.states() == {0: "ok", 1: "broken NVML says: GPU is lost"}
    host.start()  # who asks for the first time, of a card that says nothing, knows it by its number
    assert host.states() == {0: "ok", 1: "broken NVML says: GPU is lost"}


def test_a_card_that_never_said_what_it_is_is_left_out(nvml: Nvml, host: Host) -> None:
    nvml.set("0", handle="!15")
    assert host.states() == {1: "ok"}


def test_a_card_that_falls_off_the_bus_is_gone_and_the_others_keep_their_indexes(
    nvml: Nvml, host: Host
) -> None:
    nvml.gpus("Tesla P40", "Tesla P40", "Tesla P40")
    host.look()
    nvml.gpus("Tesla P40", "Tesla P40")
    nvml.set("0", uuid="GPU-0")
    nvml.set("1", uuid="GPU-2")  # after a restart the driver numbers what is left
    host.start()
    assert {index: card.uuid for index, card in host.look().items()} == {0: "GPU-0", 2: "GPU-2"}


def test_a_new_card_gets_an_index_that_no_other_ever_had(nvml: Nvml, host: Host) -> None:
    host.look()
    nvml.set("1", uuid="GPU-new")
    host.start()
    assert {index: card.uuid for index, card in host.look().items()} == {0: "GPU-0", 2: "GPU-new"}


# Slices


def test_the_slices_of_a_card_are_cards_of_their_own_type(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, host: Host
) -> None:
    nvml = driver(tmp_path, monkeypatch, A100, A100)
    nvml.slices(1, "3g.20gb", "1g.5gb")
    nvml.set("1/0", used_mib=900)
    nvml.set("1", temperature_c=66)
    look = host.gpus.look()
    assert [(card.index, card.gpu_type, card.uuid) for card in look.cards] == [
        (0, "A100-SXM4-40GB", "GPU-0"),
        (200, "A100-3g.20gb", "MIG-1-0"),
        (201, "A100-1g.5gb", "MIG-1-1"),
    ]
    sample = look.samples[200]
    assert (sample.memory_mib, sample.temperature_c) == (900, 66)
    assert (sample.use, sample.power_w) == (None, None)  # of the whole card, so of no slice


@pytest.mark.parametrize(
    ("total", "memory", "graphics", "computes", "kind"),
    [
        (40536, 4864, 1, 1, "A100-1g.5gb"),
        (81920, 9728, 1, 1, "A100-1g.10gb"),
        (81920, 40192, 3, 1, "A100-1c.3g.40gb"),
        (81920, 81069, 7, 7, "A100-7g.80gb"),
    ],
)
def test_a_slice_whose_name_does_not_say_its_profile_is_named_by_its_size(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    host: Host,
    total: int,
    memory: int,
    graphics: int,
    computes: int,
    kind: str,
) -> None:
    nvml = driver(tmp_path, monkeypatch, A100)
    nvml.slices(0, "x")
    nvml.set("0", memory_mib=total)
    nvml.set("0/0", name=A100, memory_mib=memory, graphics=graphics, computes=computes)
    assert host.types() == {100: kind}


def test_a_card_that_is_divided_and_made_whole_again_leaves_no_ghosts_and_passes_no_index_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, host: Host
) -> None:
    nvml = driver(tmp_path, monkeypatch, A100)
    assert host.types() == {0: "A100-SXM4-40GB"}
    nvml.slices(0, "3g.20gb", "3g.20gb")
    assert host.types() == {100: "A100-3g.20gb", 101: "A100-3g.20gb"}
    nvml.slices(0, "7g.40gb")  # with the name that the first slice had
    assert host.types() == {102: "A100-7g.40gb"}
    nvml.slices(0)
    assert host.types() == {0: "A100-SXM4-40GB"}
    nvml.slices(0, "3g.20gb", "3g.20gb")
    host.start()
    assert host.types() == {100: "A100-3g.20gb", 101: "A100-3g.20gb"}


def test_a_divided_card_without_slices_offers_nothing_and_one_that_is_lost_breaks_its_slices(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, host: Host
) -> None:
    nvml = driver(tmp_path, monkeypatch, A100, A100)
    nvml.set("0", mig=1)
    nvml.slices(1, "3g.20gb", "3g.20gb")
    assert host.states() == {200: "ok", 201: "ok"}
    nvml.set("1", use="!15")
    assert set(host.states().values()) == {"broken NVML says: GPU is lost"}


# Faults


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


# A driver that is away


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
