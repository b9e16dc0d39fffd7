"""Reports are read strictly: what is wrong is named, and nothing of a faulty one is used."""

from typing import Any

import pytest

from cluster import reports
from cluster.fields import Malformed
from tests.cluster import words

PK = "22222222-2222-4222-8222-222222222222"


def faults(document: Any) -> list[str]:
    """Return the fields that are at fault, in order."""
    try:
        reports.read(document)
    except Malformed as error:
        return [fault.field if fault.code and fault.message else "mute" for fault in error.faults]
    return []


def with_card(**more: object) -> dict[str, Any]:
    """Return a report whose second card is different."""
    return words.report(cards=0) | {"cards": [words.card(0), words.card(2) | more]}


def with_instance(**more: object) -> dict[str, Any]:
    """Return a report with one instance that is different."""
    return words.report(instances=[words.instance(PK) | more])


def test_a_whole_report_is_read() -> None:
    read = reports.read(
        words.report(instances=[words.instance(PK, "gone", exit_code=3, by_itself=True)], have="v", wait_s=20)
    )
    assert (read.boot, read.seq, read.have, read.wait_s, len(read.cards)) == (words.BOOT, 1, "v", 20.0, 8)
    assert [str(pk) for pk in read.seen()] == [PK]
    assert (read.instances[0].exit_code, read.instances[0].by_itself) == (3, True)


def test_what_a_newer_agent_says_besides_is_passed_over() -> None:
    assert faults(words.report(weather="fine")) == []
    assert faults(with_card(colour="green")) == []


@pytest.mark.parametrize("document", [None, [], "x", 7])
def test_what_is_no_object_is_no_report(document: object) -> None:
    assert faults(document)[0] == ""


@pytest.mark.parametrize("name", [name for name in words.report() if name != "protocol"])
def test_every_field_is_needed(name: str) -> None:
    document = words.report()
    del document[name]
    assert faults(document) == [name]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("boot", "x"),
        ("boot", 7),
        ("seq", 0),
        ("seq", True),
        ("seq", 1.5),
        ("seq", 2**63),
        ("clock", float("nan")),
        ("clock", float("inf")),
        ("clock", 10**400),
        ("clock", "0"),
        ("version", ""),
        ("version", "x" * 33),
        ("address", "a\x00b"),
        ("address", "\ud800"),
        ("offers", "process"),
        ("offers", [["process"]]),
        ("offers", ["no spaces"]),
        ("cards", {}),
        ("cards", [words.card(0)] * 2),
        ("cards", [words.card(index) for index in range(1025)]),
        ("instances", None),
        ("instances", [words.instance(PK)] * 2),
        ("have", None),
        ("wait_s", None),
    ],
)
def test_a_wrong_value_is_named(name: str, value: object) -> None:
    assert faults(words.report() | {name: value}) == [name]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("index", -1),
        ("index", 2**15),
        ("index", None),
        ("uuid", 5),
        ("gpu_type", " "),
        ("gpu_type", "x" * 65),
        ("memory_mib", 2**31),
        ("state", "missing"),
        ("state", ["ok"]),
        ("reason", 1),
    ],
)
def test_a_wrong_value_of_a_card_is_named_with_its_place(name: str, value: object) -> None:
    assert faults(with_card(**{name: value})) == [f"cards[1].{name}"]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("id", "x"),
        ("phase", "pending"),
        ("phase", None),
        ("exit_code", "0"),
        ("exit_code", 2**31),
        ("exit_signal", -1),
        ("by_itself", 1),
        ("detail", []),
        ("log_bytes", -1),
        ("log_bytes", None),
    ],
)
def test_a_wrong_value_of_an_instance_is_named_with_its_place(name: str, value: object) -> None:
    assert faults(with_instance(**{name: value})) == [f"instances[0].{name}"]


def test_items_that_are_no_objects_are_named() -> None:
    assert "cards[0]" in faults(words.report() | {"cards": [7]})


def test_all_faults_are_told_together() -> None:
    assert faults(words.report() | {"seq": 0, "boot": "", "have": 1}) == ["boot", "seq", "have"]


@pytest.mark.parametrize("text", ["a" * 5000, "nul\x00", "half \ud800"])
def test_free_text_never_stops_a_report(text: str) -> None:
    read = reports.read(with_instance(detail=text))
    assert len(read.instances[0].detail) <= 512
    assert "\x00" not in read.instances[0].detail
    assert read.instances[0].detail.encode()
