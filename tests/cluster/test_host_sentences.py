"""What agents say is shown in the reader's language, all of it that this platform's own agent can say."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.utils import translation

from cluster import host_sentences
from cluster.agent import git, protocol, records
from jobs import endings

AGENT = Path(records.__file__).parent
# What stands where an agent's sentence has one of these.
WORDS = {"SHELL": "/bin/sh", "argv[0]": "/bin/sh", "cause": "code"}


def sentences() -> Iterator[tuple[str, str]]:
    """Return each sentence that is said in the agent's source, with words in its places, and where it is said."""
    for path in AGENT.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.Call) or not node.args:
                continue
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            said = written(node.args[0]) if name in {"CannotStart", "BadSpec", "void"} else ""
            if said:
                yield said, f"{path.name}:{node.lineno}"


def written(node: ast.expr) -> str:
    """Return what an expression of text gives, the empty text where it is none of the usual kinds."""
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.JoinedStr):
        return "".join(map(written, node.values))
    if isinstance(node, ast.FormattedValue):
        return WORDS.get(ast.unparse(node.value), "XYZ")
    return ""


def test_every_sentence_of_the_agent_is_known_and_shown_in_chinese() -> None:
    found = list(sentences())
    found += [(said.format(place="https://x", said="XYZ"), "git.MEANINGS") for _, said, _ in git.MEANINGS]
    found += [
        (word, "protocol")
        for word in (protocol.KEEPER_LOST, protocol.HOST_LOST, protocol.HOST_RESTARTED, protocol.POD_LOST)
    ]
    found.append((records.STOPPED_EARLY, "records"))
    assert len(found) > 50
    with translation.override("zh-hans"):
        english = [(said, where) for said, where in found if host_sentences.shown(said) == said]
    assert english == []


@pytest.mark.parametrize("form", host_sentences.SENTENCES)
def test_what_stands_in_a_sentence_is_kept_in_both_languages(form: str) -> None:
    names = re.findall(r"%\((\w+)\)s", form)
    values = {name: f"<{number} 100%>" for number, name in enumerate(names)}
    said = form % values
    assert host_sentences.shown(said) == said
    with translation.override("zh-hans"):
        shown = host_sentences.shown(said)
    assert all(value in shown for value in values.values())
    assert re.search("[\u4e00-\u9fff]", shown)


@pytest.mark.parametrize("said", ["", "Something that no agent says.", "%(why)s", "The image"])
def test_other_words_are_shown_as_they_are(said: str) -> None:
    with translation.override("zh-hans"):
        assert host_sentences.shown(said) == said


def test_the_end_of_an_attempt_is_told_in_one_language() -> None:
    with translation.override("zh-hans"):
        said = endings.sentence("code_failed", {"host": "h1", "detail": "This host has no git."})
    assert "This host" not in said
    assert "git" in said
