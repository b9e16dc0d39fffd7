"""The cards of a host: their names, their indexes, their slices, whatever the driver says."""

from pathlib import Path

import pytest

from cluster.agent.cards import Card, Cards, Simulated
from cluster.agent.gpu_names import gpu_type, share_type, slice_type
from tests.agent.cards_host import A100, Host, driver, host, nvml
from tests.agent.nvml import Nvml

__all__ = ["host", "nvml"]  # the fixtures


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
