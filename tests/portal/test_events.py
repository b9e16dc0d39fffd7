"""Events as sentences."""

import re
from pathlib import Path

import pytest
from django.conf import settings

from jobs import endings
from jobs import task_events as events
from jobs.engine.reconcile import LOST_CODES
from jobs.states import State


@pytest.mark.parametrize(
    ("code", "args", "new_state", "said"),
    [
        ("stop", {}, "stopping", "Told to stop"),
        ("stop", {}, "stopped", "Stopped"),
        (
            "exit_code",
            {"host": "h1", "exit_code": 3, "rank": 0},
            "failed",
            "The process on h1 ended with exit code 3",
        ),
        (
            "start_failed",
            {"host": "h1", "detail": "no shell"},
            "failed",
            "It could not be started on h1: no shell",
        ),
        (
            "started",
            {"class": "high", "gpu_type": "P40", "hosts": {"h1": [0], "h2": [4]}},
            "starting",
            "Given 2 P40 cards on h1, h2, as high",
        ),
        (
            "started_again",
            {"class": "elastic", "gpu_type": "P40", "hosts": {"h1": [0]}},
            "starting",
            "Started again with 1 P40 card on h1, as elastic",
        ),
    ],
)
def test_an_event_is_a_sentence(code: str, args: dict[str, object], new_state: str, said: str) -> None:
    assert events.sentence(code, args, new_state) == said


@pytest.mark.parametrize(
    ("code", "args", "said"),
    [
        ("beamed_up", {}, "beamed_up"),
        ("beamed_up", {"by": "scotty"}, "beamed_up (by: scotty)"),
        ("exit_code", {}, "exit_code"),
        ("started", {"hosts": "h1"}, "started (hosts: h1)"),
    ],
)
def test_what_has_no_sentence_is_shown_as_it_is(code: str, args: dict[str, object], said: str) -> None:
    assert events.sentence(code, args) == said


def test_every_code_that_the_program_writes_has_a_sentence() -> None:
    rooms = [*settings.BASE_DIR.glob("jobs/engine/*.py"), *settings.BASE_DIR.glob("jobs/*.py")]
    written = set()
    for path in rooms:
        written |= set(
            re.findall(r'(?:End|note|move|free|order_end)\([^)]*?\bcode="(\w+)"', Path(path).read_text())
        )
    assert len(written) > 10, "the search finds nothing any more"
    written |= {*LOST_CODES.values(), *endings.CAUSED.values()}
    known = {key.partition(":")[0] for key in events.SENTENCES} | {
        "started",
        "started_again",
        *endings.ENDINGS,
    }
    assert written - known == set()


def test_sentences_by_state_name_real_states() -> None:
    for key in events.SENTENCES:
        assert key.partition(":")[2] in {"", *State}
