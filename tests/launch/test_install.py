"""What is installed, and what a start finds of it."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from cluster.agent.cards import Card
from cluster.agent.probe import NoCards
from launch import assets, cards, install, messages, packages
from launch.words import Progress


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a checkout with two locks and an environment of the right packages."""
    for name in (install.PRODUCT, install.CHECKS):
        (tmp_path / name).write_text(f"lock of {name}")
    (tmp_path / ".venv").mkdir()
    monkeypatch.setattr(install, "ROOT", tmp_path)
    monkeypatch.setattr(install, "VENV", tmp_path / ".venv")
    monkeypatch.setattr(install, "STAMP", tmp_path / ".venv" / ".taiji")
    monkeypatch.setattr(install, "LOCK", tmp_path / ".venv" / ".taiji.lock")
    monkeypatch.setattr(install, "PYTHON", Path(sys.executable))
    return tmp_path


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """Return the calls of the installer, which does nothing."""
    calls: list[list[str]] = []
    monkeypatch.setattr(packages, "install", lambda arguments, *, what: calls.append(arguments))
    monkeypatch.setattr(packages, "can_install", lambda: True)
    monkeypatch.setattr(assets, "ensure", lambda say: None)
    monkeypatch.setattr(assets, "are_there", lambda: True)
    monkeypatch.setattr(messages, "ensure", lambda say: None)
    monkeypatch.setattr(messages, "are_compiled", lambda: True)
    return calls


def test_a_lock_is_installed_once_and_again_when_it_changed(
    checkout: Path, installed: list[list[str]]
) -> None:
    install.ensure(Progress())
    install.ensure(Progress())
    assert installed == [["--require-hashes", "-r", "requirements.txt"]]
    (checkout / install.PRODUCT).write_text("another")
    install.ensure(Progress())
    assert len(installed) == 2


def test_the_environment_of_the_checks_starts_the_product(checkout: Path, installed: list[list[str]]) -> None:
    install.ensure(Progress(), dev=True)
    install.ensure(Progress())
    assert installed == [["--require-hashes", "-r", "requirements-dev.txt"]]


def test_an_environment_whose_python_went_is_made_anew(
    checkout: Path, installed: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    install.ensure(Progress())
    (checkout / ".venv" / "left").mkdir()
    made: list[list[str]] = []
    monkeypatch.setattr(install, "PYTHON", checkout / "gone")
    monkeypatch.setattr(install, "run", lambda command, *, what: made.append(command))
    install.ensure(Progress())
    assert len(made) == 1
    assert not (checkout / ".venv" / "left").exists()
    assert len(installed) == 2


def test_an_installation_that_failed_leaves_no_stamp(
    checkout: Path, installed: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(arguments: list[str], *, what: str) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr(packages, "install", fail)
    with pytest.raises(OSError, match="no space"):
        install.ensure(Progress())
    assert not (checkout / ".venv" / ".taiji").exists()


def test_a_broken_stamp_counts_as_none(checkout: Path, installed: list[list[str]]) -> None:
    (checkout / ".venv" / ".taiji").write_text("{")
    install.ensure(Progress())
    assert set(json.loads((checkout / ".venv" / ".taiji").read_text())) == {install.PRODUCT}


def test_a_translation_is_compiled_when_its_source_is_newer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(messages, "ROOT", tmp_path)
    source = tmp_path / "locale" / "zh_Hans" / "LC_MESSAGES" / "django.po"
    source.parent.mkdir(parents=True)
    source.write_text(
        'msgid ""\nmsgstr "Content-Type: text/plain; charset=UTF-8\\n"\n\nmsgid "card"\nmsgstr "卡"\n'
    )
    messages.ensure(Progress())
    assert "卡".encode() in source.with_suffix(".mo").read_bytes()
    assert messages.are_compiled()
    later = time.time() + 5
    os.utime(source, (later, later))
    assert not messages.are_compiled()


def test_pip_settings_of_the_environment_win_over_those_of_files(monkeypatch: pytest.MonkeyPatch) -> None:
    listed = (
        ":env:.index-url='https://own.example/simple'\n"
        "global.extra-index-url='file:///x https://more.example/simple'\n"
        "global.index-url='https://company.example/simple'\n"
    )
    monkeypatch.setattr(subprocess, "run", lambda *args, **options: Listed(listed))
    for name in ("UV_DEFAULT_INDEX", "UV_INDEX"):
        monkeypatch.delenv(name, raising=False)
    env = packages._environment()
    assert env["UV_DEFAULT_INDEX"] == "https://own.example/simple"
    assert env["UV_INDEX"] == "https://more.example/simple"


class Listed:
    """What `pip config list` said."""

    def __init__(self, stdout: str) -> None:
        """Say this."""
        self.stdout = stdout


def test_the_cards_of_a_machine_are_counted_by_type(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = [
        Card(index=i, uuid=f"GPU-{i}", gpu_type=name) for i, name in enumerate(["P40", "V100", "P40", ""])
    ]
    monkeypatch.setattr(cards, "read_nvml", lambda: tuple(found))
    cards.main()
    assert capsys.readouterr().out.split() == ["P40:2", "V100:1"]


def test_a_machine_without_a_driver_has_no_cards(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def none() -> tuple[Card, ...]:
        raise NoCards("NVML cannot be used")

    monkeypatch.setattr(cards, "read_nvml", none)
    cards.main()
    assert capsys.readouterr().out == ""
