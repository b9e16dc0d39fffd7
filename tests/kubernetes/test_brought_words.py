"""What the owner of an MPIJob that is a task is told in its cluster, and its log; what is not offered to him here."""

import re
from typing import Any

import pytest
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries

from cluster.kubernetes import job_words
from cluster.models import BroughtJob, BroughtNews, Region
from jobs import brought, many, services
from jobs.models import Task
from jobs.values import Invalid
from tests.kubernetes.conftest import Kube
from tests.kubernetes.desk import Desk, mpijob
from tests.world import World


def test_what_its_launcher_and_workers_print_is_kept_by_rank_when_the_pods_are_gone(
    world: World, kube: Kube
) -> None:
    world.business("ads", P40=16)
    world.user("ann", "ads")
    desk = Desk(kube, "gpu-1", "gpu-2")
    job = mpijob(workers=2, launcher="echo epoch 1; sleep 4; echo done")
    (worker,) = job["spec"]["mpiReplicaSpecs"]["Worker"]["template"]["spec"]["containers"]
    worker["command"][-1] = f"echo here I am; {worker['command'][-1]}"
    desk.apply(job)
    task = desk.task()
    desk.state(task, "succeeded")
    desk.until(lambda: len(desk.pods()) == 1)  # the launcher's: workers were cleaned
    desk.until(lambda: b"done\n" in kube.log(task, 0))
    first = kube.log(task, 0).splitlines()
    (of_worker,) = (line for line in first if line.endswith(b"here I am"))
    assert sorted(line for line in first if line != of_worker) == [b"done", b"epoch 1"]
    assert of_worker.startswith(b"[train-worker-")
    assert kube.log(task, 1) == b"here I am\n"


def test_logs_of_two_attempts_are_told_apart_though_their_workers_have_the_same_names(
    world: World, kube: Kube
) -> None:
    world.business("ads", P40=8)
    world.user("bob", "ads")
    desk = Desk(kube, "gpu-1")
    said: dict[str, Any] = {"owner": "bob", "class": "elastic", "pull_up": "true"}
    desk.apply(mpijob(launcher="date +%N; sleep 60", **said))
    elastic = desk.task()
    desk.state(elastic, "running")
    desk.until(lambda: kube.log(elastic))
    high = world.task(cards=8, config={"start_cmd": "sleep 0.5"})
    desk.state(high, "succeeded", 40)
    desk.state(elastic, "running", 40)
    desk.until(lambda: kube.log(elastic, number=2))
    assert kube.log(elastic, number=1).count(b"\n") == kube.log(elastic, number=2).count(b"\n") == 1
    assert kube.log(elastic, number=1) != kube.log(elastic, number=2)
    desk.until(lambda: desk.events()[-1] == "TaskRunning")
    told = [event["reason"] for event in desk.told() if elastic.pk in numbers(event["message"])]
    assert told == [
        *("TaskQueued", "TaskStarted", "TaskRunning", "TaskEvicting", "TaskEvicted"),
        *("TaskPulledUp", "TaskRunning"),
    ]
    evicting = next(event for event in desk.told() if event["reason"] == "TaskEvicting")
    assert f"for task {high.pk}" in evicting["message"]
    assert evicting["type"] == "Warning"


def numbers(text: str) -> set[int]:
    """Return the numbers in a text."""
    return {int(word) for word in re.findall(r"\d+", text)}


def test_one_that_waits_says_why_and_its_place_and_what_could_be_done(world: World, kube: Kube) -> None:
    world.business("ads", P40=8)
    world.user("ann", "ads")
    desk = Desk(kube, "gpu-1")
    world.task(cards=8, config={"start_cmd": "sleep 60"})
    kube.until(lambda: kube.leased() == 8)
    desk.apply(mpijob())
    task = desk.task()
    desk.until(lambda: desk.said().get("reason") == "Queued")
    said = desk.said()
    assert (said["status"], set(said) >= {"lastTransitionTime", "lastUpdateTime"}) == ("False", True)
    assert said["message"].startswith(f"Task {task.pk} waits: asks 8 P40; ads holds 8 of its 8")
    assert "What could be done: submit it as elastic or auto" in said["message"]
    desk.until(desk.events)
    (event,) = desk.told()
    assert (event["reason"], event["type"]) == ("TaskQueued", "Normal")
    assert "ads holds 8 of its 8" in event["message"]


def test_what_is_said_of_it_stays_whatever_its_operator_writes_and_is_written_once(
    world: World, kube: Kube
) -> None:
    world.business("ads", P40=8)
    world.user("ann", "ads")
    desk = Desk(kube, "gpu-1")
    kube.server.fail(409, method="PATCH", path="/status")
    kube.server.fail(-1, method="POST", path="/events")  # it is done, and nobody hears that
    desk.apply(mpijob(launcher="sleep 60"))
    desk.state(desk.task(), "running")
    desk.until(lambda: desk.said().get("reason") == "Running")
    types = {each["type"] for each in desk.job()["status"]["conditions"]}
    assert types == {"Created", "Suspended", "Running", job_words.ADMITTED}
    desk.until(lambda: not BroughtNews.objects.exists())
    assert desk.events() == ["TaskQueued", "TaskStarted", "TaskRunning"]
    before = len(kube.server.calls)
    for _ in range(20):
        desk.step()
        kube.step()
    later = [call for call in kube.server.calls[before:] if call[0] in {"POST", "PATCH", "PUT"}]
    assert [call for call in later if "mpijobs" in call[1] or "events" in call[1]] == []


def test_numbers_that_change_with_every_pass_are_told_twice_a_minute(world: World, kube: Kube) -> None:
    world.business("ads", P40=8)
    world.user("ann", "ads")
    desk = Desk(kube, "gpu-1")
    world.task(cards=8, config={"start_cmd": "sleep 60"})
    kube.until(lambda: kube.leased() == 8)
    desk.apply(mpijob())
    task = desk.task()
    desk.until(lambda: desk.said().get("reason") == "Queued")
    first = desk.said()["message"]
    reason = {"cards": 8, "type": "P40", "business": "ads", "used": 7, "limit": 8}

    def changed() -> str:
        Task.objects.filter(pk=task.pk).update(reason_args=reason)
        brought.adopt()
        for controller in kube.controllers:
            controller.round()
        return desk.said()["message"]

    for _ in range(5):
        assert changed() == first
    BroughtJob.objects.update(said_at=timezone.now() - brought.AGAIN)
    kube.until(lambda: "ads holds 7 of its 8" in changed(), plan=False)
    assert desk.events() == ["TaskQueued"]  # an event is what happened, not each new number


def test_one_is_offered_neither_to_be_run_again_nor_to_be_copied_here(world: World, kube: Kube) -> None:
    world.business("ads", P40=8)
    ann = world.user("ann", "ads")
    desk = Desk(kube, "gpu-1")
    desk.apply(mpijob(launcher="true"))
    task = desk.task()
    assert services.allowed(task) == {"stop", "hold"}
    desk.state(task, "succeeded")
    assert services.allowed(task) == set()
    with pytest.raises(services.Conflict, match=r"MPIJob research/train of a cluster.*kubectl apply"):
        services.retry(task, ann)
    for document in (task.config, {**task.config, "mpijob": None}):
        with pytest.raises(Invalid, match="kubectl apply"):
            services.submit(ann, document, origin=task)
    with pytest.raises(Invalid, match="mpijob: What it runs is the MPIJob research/train"):
        services.submit(ann, task.config)
    outcome = many.act("retry", [task.pk], ann)
    assert outcome.skipped == {("refused", "succeeded"): 1}
    assert "kubectl apply" in outcome.refusals[0]
    assert Task.objects.count() == 1


def test_a_held_one_waits_suspended_until_it_is_released(world: World, kube: Kube) -> None:
    world.business("ads", P40=8)
    ann = world.user("ann", "ads")
    desk = Desk(kube, "gpu-1")
    world.task(cards=8, config={"start_cmd": "sleep 1"})
    kube.until(lambda: kube.leased() == 8)
    desk.apply(mpijob(launcher="sleep 60"))
    task = desk.task()
    services.hold(task, ann)
    desk.until(lambda: desk.said().get("reason") == "Held")
    kube.until(lambda: kube.leased() == 0)
    for _ in range(5):
        desk.step()
        kube.step()
    assert desk.job()["spec"]["runPolicy"]["suspend"]
    services.release(task, ann)
    desk.state(task, "running")
    services.stop(task, ann)
    desk.state(task, "stopped")
    desk.until(lambda: desk.said()["reason"] == "Stopped")
    assert desk.job()["spec"]["runPolicy"]["suspend"]


def test_what_keeps_its_pods_from_starting_stands_in_its_log(world: World, kube: Kube) -> None:
    world.business("ads", P40=8)
    ann = world.user("ann", "ads")
    desk = Desk(kube, "gpu-1")
    kube.fleet.images["x"] = "no such image"
    desk.apply(mpijob(launcher="sleep 60"))
    task = desk.task()
    desk.until(lambda: task.attempts.exists())
    sentence = b"The image x cannot be had: no such image"
    desk.until(lambda: len(desk.pods()) == kube.log(task).count(sentence) == 2)  # of launcher and worker
    before = kube.log(task)
    for _ in range(10):
        desk.step()
        kube.step()
    assert kube.log(task) == before  # once of each pod
    services.stop(task, ann)
    desk.state(task, "stopped")


def test_to_follow_what_changed_nothing_costs_a_fixed_number_of_queries(
    world: World, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    region = Region.objects.create(name="SZ")
    for number in range(20):
        task = world.task(needs="mpijob", reason_code="no_cards")
        told = {"task": task.pk, "state": "queued", "said_at": timezone.now(), "heard": 10**6}
        BroughtJob.objects.create(region=region, uid=str(number), namespace="x", name=str(number), **told)
    with django_assert_max_num_queries(4):
        brought.adopt()
