"""What the command says by itself, in the language of the shell."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from rich.console import Console

from jobs.client import command
from jobs.client.command import screen
from jobs.client.command.submitting import VERDICTS
from jobs.client.command.words import CHINESE, say

PLACES = re.compile(r"%\(\w+\)(?:\.\d)?[a-z]")


def said() -> Iterator[str]:
    """Return every text that the command's files have said: those given to say, heads of tables, names of facts."""
    yield from VERDICTS.values()
    for file in Path(command.__path__[0]).glob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.args:
                first = node.args[0]
                if node.func.id == "say" and isinstance(first, ast.Constant):
                    yield str(first.value)
                if node.func.id == "table" and isinstance(first, ast.Tuple):
                    yield from (str(head.value) for head in first.elts if isinstance(head, ast.Constant))
            if (
                isinstance(node, ast.Tuple)
                and len(node.elts) == 2
                and file.stem in {"looking", "submitting", "screen"}
            ):
                name, _value = node.elts
                if isinstance(name, ast.Constant) and isinstance(name.value, str) and name.value.islower():
                    yield name.value


def test_all_of_it_has_chinese_words_and_nothing_else_has() -> None:
    assert set(said()) == set(CHINESE)


@pytest.mark.parametrize("text", sorted(CHINESE))
def test_the_chinese_words_take_what_the_english_ones_take(text: str) -> None:
    assert sorted(PLACES.findall(CHINESE[text])) == sorted(PLACES.findall(text))
    assert re.search("[\u4e00-\u9fff]", CHINESE[text]) or PLACES.sub("", CHINESE[text]).strip() == "/"


@pytest.mark.parametrize(
    ("shell", "expected"),
    [
        ({"LANG": "zh_CN.UTF-8"}, "状态"),
        ({"LANG": "en_US.UTF-8", "LC_ALL": "zh_CN.UTF-8"}, "状态"),
        ({"LANG": "zh_CN.UTF-8", "LC_ALL": "C"}, "state"),
        ({}, "state"),
    ],
)
def test_the_shell_chooses_the_language(
    shell: dict[str, str], expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("LANG", "LC_ALL", "LC_MESSAGES"):
        monkeypatch.delenv(name, raising=False)
    for name, value in shell.items():
        monkeypatch.setenv(name, value)
    assert say("state") == expected


def test_names_of_facts_stand_at_one_edge_however_wide_their_signs_are(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("LC_ALL", "zh_CN.UTF-8")
    monkeypatch.setattr(screen, "out", Console(highlight=False, soft_wrap=True))
    screen.facts([("state", "queued"), ("place in line", screen.place_of(3, 8)), ("GPUName", "unknown")])
    assert capsys.readouterr().out.splitlines() == [
        "    状态  queued",
        "排队位置  3 / 8",
        " GPUName  unknown",
    ]
