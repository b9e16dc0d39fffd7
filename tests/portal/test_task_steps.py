"""The way of a task, step by step, as its page shows it."""

import re

from django.test import Client
from django.utils import timezone

from tests.portal.conftest import run, text
from tests.world import World


def steps_of(page: str) -> list[tuple[str, str]]:
    """Return how each step stands, and its name."""
    return re.findall(r'<li class="stage stage-(\w+)".*?stage-name">(.*?)</span>', page)


def test_the_steps_of_a_task_that_waits_stand_at_queued(world: World, ann: Client) -> None:
    assert steps_of(text(ann, world.task())) == [
        ("done", "Submitted"),
        ("now", "Queued"),
        ("ahead", "Starting"),
        ("ahead", "Running"),
        ("ahead", "Ended"),
    ]


def test_the_steps_of_a_task_that_runs_have_their_times(world: World, ann: Client) -> None:
    task = world.task()
    attempt = run(task, world.host("h1"))
    page = text(ann, task)
    assert steps_of(page)[2:] == [("done", "Starting"), ("now", "Running"), ("ahead", "Ended")]
    assert "took 0:01:00" in page, "from its cards to all of it running"
    lasting = re.findall(r'data-lasts="(\d+)">(.*?)<', page)
    assert [seconds[:-1] for seconds, _shown in lasting] == ["24", "30"], (
        "since it ran, and since it has cards"
    )
    assert [shown[:-1] for _seconds, shown in lasting] == ["0:04:0", "0:05:0"]
    assert f"{timezone.localtime(attempt.running_at):%m-%d %H:%M:%S}</time>" in page.split("Ended</span>")[0]


def test_the_steps_of_a_task_that_was_evicted_begin_anew(world: World, ann: Client) -> None:
    task = world.task(pull_up=True)
    run(task, world.host("h1"), outcome="evicted")
    stands = [stand for stand, _name in steps_of(text(ann, task))]
    assert stands == ["done", "now", "ahead", "ahead", "ahead"]


def test_the_steps_of_a_task_that_never_ran_pass_over_what_it_did_not_reach(
    world: World, ann: Client
) -> None:
    task = world.task(state="stopped", ended_at=timezone.now())
    assert steps_of(text(ann, task)) == [
        ("done", "Submitted"),
        ("done", "Queued"),
        ("skipped", "Starting"),
        ("skipped", "Running"),
        ("done", "stopped"),
    ]
