"""Asking what would become of a form: what is wrong with it, when and where it would start, what else would."""

import pytest
from django.test import Client

from jobs.models import Task
from tests.portal.conftest import run
from tests.portal.submitting import GOOD, submitted
from tests.world import World


def test_asking_says_what_is_wrong_and_makes_nothing(ann: Client) -> None:
    answer = ann.post("/tasks/new/preview/", GOOD | {"host_num": "x"}, headers={"HX-Request": "true"})
    assert "Would be refused" in answer.content.decode()
    assert "Hosts" in answer.content.decode()
    assert not Task.objects.exists()


def test_asking_for_more_than_there_ever_is_says_never(ann: Client) -> None:
    answer = ann.post("/tasks/new/preview/", GOOD | {"host_gpu_num": "9"}, headers={"HX-Request": "true"})
    assert "Never starts" in answer.content.decode()


def test_asking_says_that_it_starts_and_makes_nothing(ann: Client) -> None:
    answer = ann.post("/tasks/new/preview/", GOOD, headers={"HX-Request": "true"})
    assert "Starts now" in answer.content.decode()
    assert not Task.objects.exists()


def test_asking_says_when_it_would_start(world: World, ann: Client) -> None:
    run(world.task(cards=8, time_limit_s=3600), world.host("h1"))
    answer = ann.post("/tasks/new/preview/", GOOD, headers={"HX-Request": "true"})
    said = " ".join(answer.content.decode().split())
    assert "Queues at 1 of 1" in said
    assert "Estimated start: <time" in said
    assert "if tasks before it run until their time limits (1 of them)" in said


def test_what_is_missing_is_no_fault_yet_and_the_cards_are_looked_for_all_the_same(ann: Client) -> None:
    answer = ann.post("/tasks/new/preview/", GOOD | {"start_cmd": ""})
    said = answer.content.decode()
    assert "Starts now" in said
    assert "Still to fill in:" in said
    assert 'href="#id_start_cmd"' in said


def test_a_start_says_where(ann: Client) -> None:
    said = " ".join(ann.post("/tasks/new/preview/", GOOD).content.decode().split())
    assert "P40</span> · SZ · as a high task" in said
    assert "h1: 2 cards" in said


def test_a_start_after_evicting_says_whose_and_what_is_lost(world: World, ann: Client) -> None:
    run(world.task("speech", "oz", cards=8, wanted_class="elastic", pull_up=True), world.host("h1"))
    said = " ".join(ann.post("/tasks/new/preview/", GOOD).content.decode().split())
    assert "Starts after evicting 1 task" in said
    assert "· speech" in said
    assert "· oz" not in said  # whose it is, the members of its business know
    assert "8 cards · loses 0.7 card-hours · comes back by itself" in said
    assert "In all 0.7 card-hours" in said


def test_what_else_would_start_is_offered_as_a_change_of_the_form(world: World, ann: Client) -> None:
    run(world.task(cards=8), world.host("h1"))
    world.host("m1", gpu_type="M40")
    world.business("ads", M40=8)
    page = ann.post("/tasks/new/preview/?alternatives", GOOD).content.decode()
    assert "This would start:" in page
    use = '{"GPUName": "M40"}'
    assert use.replace('"', "&quot;") in page
    fields = ann.post("/tasks/new/fill/", GOOD | {"use": use}).content.decode()
    assert 'value="M40"' in fields
    assert "Starts now" in fields
    whole = ann.post("/tasks/new/", GOOD | {"use": use})  # the same without scripts
    assert whole.context["form"]["GPUName"].value() == "M40"
    assert whole.context["form"]["start_cmd"].value() == "python train.py"
    assert not Task.objects.filter(task_flag="demo").exists()


def test_what_would_start_beside_evictions_is_said_to_evict_nobody(world: World, ann: Client) -> None:
    run(world.task("speech", "oz", cards=8, wanted_class="elastic", pull_up=True), world.host("h1"))
    world.host("m1", gpu_type="M40")
    world.business("ads", M40=8)
    page = " ".join(ann.post("/tasks/new/preview/?alternatives", GOOD).content.decode().split())
    assert "Without evicting anyone:" in page
    assert "<span>On M40</span>" in page
    assert "This would start:" not in page


@pytest.mark.parametrize("use", ["", "nonsense", "[1]", "[" * 100_000])
def test_a_change_that_is_none_changes_nothing(use: str, ann: Client) -> None:
    form = ann.post("/tasks/new/", GOOD | {"use": use}).context["form"]
    assert form["GPUName"].value() == "P40"


def test_without_scripts_check_says_what_would_become_of_it(ann: Client) -> None:
    page = ann.post("/tasks/new/", GOOD | {"do": "check"})
    assert "Starts now" in page.content.decode()
    assert page.context["form"]["task_flag"].value() == "demo"
    assert not Task.objects.exists()


def test_the_secret_of_a_copy_of_another_is_asked_for_before_it_is_submitted(
    ann: Client, colleague: Client
) -> None:
    first = submitted(ann, secret_env="API_KEY=hush-hush")
    copied = GOOD | {"clone": str(first.pk), "secret_env": "API_KEY"}
    assert "Starts now" in ann.post("/tasks/new/preview/", copied).content.decode()
    assert "Give the value of this secret" in colleague.post("/tasks/new/preview/", copied).content.decode()
