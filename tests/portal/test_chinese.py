"""Whole pages in Chinese: no word of English is left but names, units and code."""

import re
from html import unescape
from typing import Any

import pytest
from django.test import Client

from jobs.filter_words import GROUP_WORDS, NAMES
from jobs.models import Task, Template
from jobs.portal.filter_labels import LABELS, REASONS
from jobs.scheduling.reasons import SENTENCES
from jobs.states import State
from tests.portal.conftest import note, run
from tests.portal.submitting import GOOD
from tests.world import World

CODE = re.compile(
    r"<(script|style|code|pre|textarea|bdi)\b.*?</\1>"
    r'|<(\w+) class="[^"]*\b(?:font-monospace|avatar)\b.*?</\2>',
    re.DOTALL,
)
SAID = re.compile(
    r'\s(?:title|placeholder|aria-label|alt|data-(?:confirm|copied|hint-\w+|live|away|new|gone))="([^"]*)"'
)
NAME = re.compile(
    r'"[^"]*"|\$?\w+(?:[._/:-]\w+)+', re.ASCII
)  # quoted, or of several pieces: what machines read
WORD = re.compile(r"[A-Za-z]{2,}")
ALLOWED = {
    *("Taiji", "English", "ads", "ann", "an", "SZ", "me"),  # ours
    *("JSON", "YAML", "CSV", "Excel", "GPU", "UTC", "ceph", "MPIJob", "KiB", "MiB", "GiB"),
    *("Python", "taiji", "curl", "shell", "git", "rank", "sha", "true", "today"),
    *("array", "notify", "submit"),  # fields and a command
}


def english(answer: Any, *allowed: str) -> list[str]:
    """Return the English words that a page shows, or has read aloud."""
    page = CODE.sub(" ", answer.content.decode())
    shown = [unescape(text) for text in [*SAID.findall(page), re.sub(r"<[^>]*>", " ", page)]]
    found = {word for text in shown for word in WORD.findall(NAME.sub(" ", text))}
    return sorted(found - ALLOWED - set(allowed))


@pytest.fixture
def reader(world: World, ann: Client) -> Client:
    """Return the browser of ann, who reads Chinese, among tasks in every state."""
    ann.post("/i18n/setlang/", {"language": "zh-hans"})
    numbers = {"per_host": 8, "types": "P40", "free": 12, "largest": 6}
    for state in ("held", "running", "succeeded", "failed", "stopped"):
        world.task(task_flag="一", state=state)
    world.task(
        task_flag="等", cards=8, reason_code="no_cards", reason_args=numbers, origin=Task.objects.first()
    )
    victim = world.task(task_flag="走", cards=8, wanted_class="elastic", pull_up=True)
    run(victim, world.host("h1"), outcome="evicted", outcome_code="evicted", evicted_for=Task.objects.first())
    note(victim, "submitted", "queued", actor=world.user("ann"))
    note(victim, "evicted", "evicting", args={"for": 1, "rule": "victim"})
    Template.objects.create(name="夜", description="到天亮", config={"GPUName": "P40"})
    return ann


@pytest.mark.parametrize("address", ["/", "/tasks/", "/tasks/new/", "/templates/", "/tasks/999/"])
def test_a_page_says_no_word_of_english(address: str, reader: Client) -> None:
    assert english(reader.get(address)) == []


@pytest.mark.parametrize("query", ["", "state=running&sort=waiting_longest", "reason=no_cards&ended_from=7d"])
def test_a_list_says_no_word_of_english(query: str, reader: Client) -> None:
    assert english(reader.get(f"/tasks/?{query}")) == []


def test_of_a_filter_that_means_nothing_only_the_words_of_addresses_are_left(reader: Client) -> None:
    answer = reader.get("/tasks/?state=odd&submitted_from=soon&gpu_type=nonesuch")
    assert english(answer, "odd", "nonesuch", *State, *GROUP_WORDS) == []
    assert "提交时间从: 请写日期" in answer.content.decode()


def test_a_task_in_any_state_says_no_word_of_english(reader: Client) -> None:
    for task in Task.objects.all():
        assert english(reader.get(f"/tasks/{task.pk}/")) == []
        assert english(reader.get(f"/tasks/{task.pk}/log/")) == []


@pytest.mark.parametrize("verb", ["stop", "hold", "retry"])
def test_what_a_verb_on_many_tasks_asks_and_says_has_no_word_of_english(verb: str, reader: Client) -> None:
    question = reader.post("/tasks/bulk/", {"verb": verb, "query": "", "all": "1"})
    assert english(question) == []
    ids = question.context["ids"]
    done = {"verb": verb, "query": "", "ids": ids, "confirmed": "1"}
    assert english(reader.post("/tasks/bulk/", done, follow=True)) == []


@pytest.mark.parametrize(
    "fields", [{}, {"host_gpu_num": "99"}, {"start_cmd": "", "env": "=", "retry_limit": "-1"}]
)
def test_a_verdict_says_no_word_of_english(fields: dict[str, str], reader: Client) -> None:
    assert english(reader.post("/tasks/new/preview/", GOOD | fields)) == []
    assert english(reader.post("/tasks/new/", GOOD | fields | {"do": "check"})) == []


def test_every_filter_and_every_reason_has_a_name() -> None:
    assert tuple(sorted(LABELS)) == tuple(sorted(NAMES))
    assert list(REASONS) == list(SENTENCES)
