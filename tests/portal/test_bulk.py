"""One verb on many tasks: asked first, done to those that were shown, told per kind."""

import re
from html import unescape
from typing import Any

import pytest
from django.test import Client

from jobs import many, matching, pages
from jobs.models import Claim, Task, TaskEvent
from jobs.portal import bulk
from jobs.states import State
from quotas.models import Member
from tests.portal.conftest import run
from tests.world import World


def ask(browser: Client, verb: str, *tasks: Task, query: str = "", everything: bool = False) -> Any:
    """Tick tasks, or all that match, press a verb, and return what is asked then."""
    data: dict[str, Any] = {"verb": verb, "query": query, "task": [task.pk for task in tasks]}
    return browser.post("/tasks/bulk/", data | ({"all": "1"} if everything else {}), follow=True)


def confirm(browser: Client, question: Any) -> str:
    """Say yes, and return the texts that follow."""
    page = question.content.decode()
    names = ("key", "verb", "query", "ids")
    data = {name: unescape(re.search(rf'name="{name}" value="([^"]*)"', page)[1]) for name in names}  # type: ignore[index]  # there
    answer = browser.post("/tasks/bulk/", data | {"confirmed": "1"}, follow=True)
    return " ".join(str(message) for message in answer.context["messages"])


def states(*tasks: Task) -> list[str]:
    """Return where the tasks stand now."""
    found = dict(Task.objects.values_list("pk", "state"))
    return [found[task.pk] for task in tasks]


def counts(listed: list[bulk.Count]) -> list[tuple[int, str]]:
    return [(count.number, str(count.status.label)) for count in listed]


def test_the_question_says_how_many_of_which_state_and_changes_nothing(world: World, ann: Client) -> None:
    tasks = [world.task(), world.task(), world.task(state="held"), world.task(state="failed")]
    question = ask(ann, "stop", *tasks)
    assert counts(question.context["doing"]) == [(2, "queued"), (1, "held")]
    assert counts(question.context["skipped"]) == [(1, "failed")]
    assert "this cannot be done in that state" in question.content.decode()
    assert states(*tasks) == ["queued", "queued", "held", "failed"]


def test_waiting_and_running_tasks_are_stopped_each_with_its_event(world: World, ann: Client) -> None:
    waits, held, runs = world.task(), world.task(state="held"), world.task()
    run(runs, world.host("h1"))
    Claim.objects.create(task=waits, gpu_type=world.gpu_type(), hosts={}, made_at=waits.submitted_at)
    said = confirm(ann, ask(ann, "stop", waits, held, runs))
    assert states(waits, held, runs) == ["stopped", "stopped", "stopping"]
    assert said == "Stop: 3 tasks (queued 1, held 1, running 1)."
    assert not Claim.objects.exists()
    events = TaskEvent.objects.filter(code="stop").order_by("task_id")
    assert [(event.task_id, event.actor_id) for event in events] == [
        (task.pk, world.user("ann").pk) for task in (waits, held, runs)
    ]
    assert world.attempt(runs).ending == "stopped"


@pytest.mark.parametrize(
    ("verb", "before", "after"),
    [("hold", "queued", "held"), ("release", "held", "queued"), ("stop", "blocked", "stopped")],
)
def test_a_verb_moves_many_tasks(verb: str, before: str, after: str, world: World, ann: Client) -> None:
    tasks = [world.task(state=before) for _number in range(3)]
    confirm(ann, ask(ann, verb, *tasks))
    assert states(*tasks) == [after] * 3


def test_a_kept_place_is_freed_and_ended_tasks_run_again(world: World, ann: Client) -> None:
    kept, failed = world.task(state="keeping"), world.task(state="failed")
    run(kept, world.host("h1"), outcome="")
    Task.objects.filter(pk=kept.pk).update(state=State.KEEPING)
    kept.attempts.update(outcome="succeeded", outcome_code="succeeded")
    confirm(ann, ask(ann, "free", kept))
    assert states(kept) == ["succeeded"]
    said = confirm(ann, ask(ann, "retry", kept, failed))
    assert said == "Run again: 2 tasks (succeeded 1, failed 1)."
    assert set(Task.objects.filter(origin__isnull=False).values_list("origin", flat=True)) == {
        kept.pk,
        failed.pk,
    }


def test_tasks_of_a_colleague_are_left_and_a_lead_may(world: World, ann: Client, colleague: Client) -> None:
    own, others = world.task(user="cid"), world.task(user="ann")
    question = ask(colleague, "stop", own, others)
    assert (question.context["total"], counts(question.context["skipped"])) == (1, [(1, "queued")])
    assert "only the owner, a lead" in question.content.decode()
    confirm(colleague, question)
    assert states(own, others) == ["stopped", "queued"]
    world.user("cid", "ads", role=Member.Role.LEAD)
    confirm(colleague, ask(colleague, "stop", others))
    assert states(others) == ["stopped"]


def test_the_right_is_asked_again_when_it_is_done(world: World, ann: Client, colleague: Client) -> None:
    task = world.task(user="ann")
    forged = {"verb": "stop", "query": "", "ids": str(task.pk), "confirmed": "1"}
    answer = colleague.post("/tasks/bulk/", forged, follow=True)
    assert "only the owner" in " ".join(str(message) for message in answer.context["messages"])
    assert states(task) == ["queued"]


def test_tasks_of_others_do_not_exist(world: World, ann: Client, outsider: Client) -> None:
    task = world.task()
    assert "No task is chosen" in ask(outsider, "stop", task).content.decode()
    outsider.post("/tasks/bulk/", {"verb": "stop", "ids": str(task.pk), "confirmed": "1"})
    assert states(task) == ["queued"]


def test_all_that_match_are_taken_and_what_comes_later_is_not(world: World, ann: Client) -> None:
    tasks = [world.task(task_flag=name) for name in ("night-1", "night-2", "day")]
    over = world.task(task_flag="night-3", state="failed")
    question = ask(ann, "stop", query="q=night", everything=True)
    assert counts(question.context["doing"]) == [(2, "queued")]
    assert counts(question.context["skipped"]) == [(1, "failed")]
    late = world.task(task_flag="night-4")
    confirm(ann, question)
    assert states(*tasks, over, late) == ["stopped", "stopped", "queued", "failed", "queued"]


@pytest.mark.parametrize("query", ["state=odd", "submitted_from=soon", "state=queued&gpu_type=nonesuch"])
def test_where_a_filter_means_nothing_all_that_match_are_not_asked_for(
    query: str, world: World, ann: Client
) -> None:
    task = world.task()
    answer = ask(ann, "stop", query=query, everything=True)
    assert answer.redirect_chain[0][0].startswith("/tasks/?")
    assert ": Write " in " ".join(str(message) for message in answer.context["messages"])
    assert states(task) == ["queued"]


def test_an_order_of_waiting_tasks_means_only_those(world: World, ann: Client) -> None:
    waits, runs = world.task(), world.task(state="running")
    question = ask(ann, "stop", query="sort=waiting_longest", everything=True)
    assert counts(question.context["doing"]) == [(1, "queued")]
    confirm(ann, question)
    assert states(waits, runs) == ["stopped", "running"]


def test_more_than_one_action_takes_are_said_to_be_more(
    world: World, ann: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(many, "MOST", 2)
    tasks = [world.task() for _number in range(3)]
    question = ask(ann, "hold", everything=True)
    assert "the newest 2 are taken" in question.content.decode()
    confirm(ann, question)
    assert states(*tasks) == ["queued", "held", "held"]


def test_where_there_was_no_time_to_look_at_all_it_is_said_how_far_it_came(
    world: World, ann: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(matching, "LOOK_S", 0.0)
    monkeypatch.setattr(pages, "LOOKED_AT", 2)
    monkeypatch.setattr(pages, "SCATTERED", 2)
    monkeypatch.setattr(pages, "FEW", 1)
    found, *others = [world.task(task_flag=name) for name in ("night-1", "day", "night-2", "day")]
    question = ask(ann, "hold", query="q=night", everything=True)
    assert f"no time to look at tasks before #{others[1].pk}." in question.content.decode()
    confirm(ann, question)
    assert states(found, others[1]) == ["queued", "held"]
    nothing = ask(ann, "hold", query="q=night&state=queued", everything=True).content.decode()
    assert f"before #{others[1].pk}." in nothing
    assert "There is nothing to do" in nothing


def test_of_what_goes_one_by_one_fewer_are_taken_at_once(
    world: World, ann: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(many, "MOST_ALONE", 2)
    for _number in range(3):
        world.task(state="failed")
    question = ask(ann, "retry", everything=True)
    assert "the newest 2 are taken" in question.content.decode()
    assert question.context["total"] == 2


def test_kept_places_that_are_too_many_to_be_stopped_at_once_are_told_and_left(
    world: World, ann: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(many, "MOST_ALONE", 1)
    tasks = [world.task(cards=2), world.task(cards=2), world.task()]
    for task in tasks[:2]:
        run(task, world.host(f"kept-{task.pk}"))
        task.attempts.update(outcome="succeeded", outcome_code="succeeded")
    Task.objects.filter(pk__in=[task.pk for task in tasks[:2]]).update(state=State.KEEPING)
    said = confirm(ann, ask(ann, "stop", *tasks))
    assert states(*tasks) == ["succeeded", "keeping", "stopped"]
    assert "Left as they are: 1 task (place kept), too many to be done one by one" in said


def test_a_task_that_moved_meanwhile_is_told_and_left(world: World, ann: Client) -> None:
    task = world.task()
    question = ask(ann, "hold", task)
    Task.objects.update(state="failed")
    assert confirm(ann, question) == "Left as they are: 1 task (failed), this cannot be done in that state."
    assert states(task) == ["failed"]


def test_a_retry_that_is_confirmed_twice_runs_each_task_once_and_a_new_question_again(
    world: World, ann: Client
) -> None:
    tasks = [world.task(state="failed"), world.task(state="failed")]
    question = ask(ann, "retry", *tasks)
    assert confirm(ann, question) == confirm(ann, question) == "Run again: 2 tasks (failed 2)."
    copies = Task.objects.filter(origin__isnull=False).order_by("origin_id")
    assert [copy.origin_id for copy in copies] == [task.pk for task in tasks]
    confirm(ann, ask(ann, "retry", *tasks))
    assert Task.objects.filter(origin__isnull=False).count() == 4


def test_a_retry_that_is_refused_says_why(world: World, ann: Client) -> None:
    task = world.task(state="failed", config={"start_cmd": "true", "GPUName": "gone"})
    said = confirm(ann, ask(ann, "retry", task))
    assert "the document is refused today" in said
    assert "GPUName" in said


def test_nothing_chosen_is_said(ann: Client) -> None:
    assert "tick some first" in ask(ann, "stop").content.decode()


def test_that_nothing_matches_is_said_to_who_chose_all(ann: Client) -> None:
    said = ask(ann, "stop", query="state=running", everything=True).content.decode()
    assert "No task matches any more" in said
    assert "tick some first" not in said


@pytest.mark.parametrize("data", [{"verb": "odd"}, {}])
def test_an_unknown_verb_is_not_found(data: dict[str, str], ann: Client) -> None:
    assert ann.post("/tasks/bulk/", data).status_code == 404


def test_numbers_that_mean_nothing_are_passed_over(world: World, ann: Client) -> None:
    task = world.task()
    ann.post("/tasks/bulk/", {"verb": "stop", "ids": f"x,,-1,{'9' * 40},{task.pk}", "confirmed": "1"})
    assert states(task) == ["stopped"]


@pytest.mark.parametrize("tasks", [5, 50])
def test_stopping_many_takes_as_many_queries_as_stopping_few(
    tasks: int, world: World, ann: Client, django_assert_max_num_queries: Any
) -> None:
    for _number in range(tasks):
        world.task()
    with django_assert_max_num_queries(22):
        many.act("stop", list(Task.objects.values_list("pk", flat=True)), world.user("ann"))
    assert not Task.objects.exclude(state="stopped").exists()
