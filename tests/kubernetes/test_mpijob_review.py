"""What an API server is answered when somebody makes or changes an MPIJob that names a business."""

import copy
import json
from typing import Any

import pytest
from django.test import Client

from tests.kubernetes.desk import mpijob, patched

JSON = dict[str, Any]
URL = "/kubernetes/admission/mpijobs/"


def review(new: JSON, old: JSON | None = None, username: str = "ann", url: str = URL) -> JSON:
    """Ask as an API server does, and return the response."""
    request = {
        "uid": "r-1",
        "operation": "UPDATE" if old else "CREATE",
        "userInfo": {"username": username, "groups": ["system:authenticated"]},
        "object": new,
        "oldObject": old,
    }
    body = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
    answer = Client(enforce_csrf_checks=True).post(url, json.dumps(body), content_type="application/json")
    assert answer.status_code == 200
    found = answer.json()
    assert (found["kind"], found["response"]["uid"]) == ("AdmissionReview", "r-1")
    response: JSON = found["response"]
    return response


def test_a_new_one_comes_in_suspended_and_signed_whatever_it_says_itself() -> None:
    job = mpijob(suspend=False, owner="eve", attempt="7", state="running", pull_up="true")
    taken = patched(job, review(job))
    assert taken["spec"]["runPolicy"] == {"suspend": True}
    assert taken["spec"]["launcherCreationPolicy"] == "WaitForWorkersReady"
    assert taken["metadata"]["annotations"] == {"taiji.io/owner": "ann", "taiji.io/pull-up": "true"}
    launcher = taken["spec"]["mpiReplicaSpecs"]["Launcher"]["template"]["spec"]
    assert launcher.pop("schedulingGates") == [{"name": "taiji.io/workers"}]
    assert taken["spec"]["mpiReplicaSpecs"] == job["spec"]["mpiReplicaSpecs"]


def test_a_launcher_waits_behind_our_gate_once_and_behind_those_of_others() -> None:
    job = mpijob()
    given = [{"name": "other.io/x"}, {"name": "taiji.io/workers"}]
    job["spec"]["mpiReplicaSpecs"]["Launcher"]["template"]["spec"]["schedulingGates"] = given
    taken = patched(job, review(job))
    launcher = taken["spec"]["mpiReplicaSpecs"]["Launcher"]["template"]["spec"]
    assert launcher["schedulingGates"] == given
    assert (
        launcher["containers"] == job["spec"]["mpiReplicaSpecs"]["Launcher"]["template"]["spec"]["containers"]
    )
    job["spec"]["mpiReplicaSpecs"]["Launcher"] = {"replicas": 1}
    taken = patched(job, review(job))
    gated = {"schedulingGates": [{"name": "taiji.io/workers"}]}
    assert taken["spec"]["mpiReplicaSpecs"]["Launcher"] == {"replicas": 1, "template": {"spec": gated}}


def test_what_stands_beside_is_left_alone_and_nothing_need_be_there_before() -> None:
    job = mpijob()
    job["spec"]["runPolicy"] = {"cleanPodPolicy": "All", "suspend": False}
    job["metadata"]["annotations"] = {"other.io/x": "1", "taiji.io/owner": "eve"}
    taken = patched(job, review(job))
    assert taken["spec"]["runPolicy"] == {"cleanPodPolicy": "All", "suspend": True}
    assert taken["metadata"]["annotations"] == {"other.io/x": "1", "taiji.io/owner": "ann"}
    del job["metadata"]["annotations"], job["spec"]["runPolicy"]
    taken = patched(job, review(job))
    assert taken["metadata"]["annotations"] == {"taiji.io/owner": "ann"}


def test_one_that_runs_already_and_only_then_names_a_business_is_new() -> None:
    old = mpijob(suspend=False)
    del old["metadata"]["labels"]
    taken = patched(mpijob(suspend=False), review(mpijob(suspend=False), old))
    assert taken["spec"]["runPolicy"]["suspend"]


def test_the_prefix_of_the_cluster_is_taken_off_and_a_service_account_is_nobody_else() -> None:
    job = mpijob()
    taken = patched(job, review(job, username="oidc:ann", url=f"{URL}?prefix=oidc:"))
    assert taken["metadata"]["annotations"]["taiji.io/owner"] == "ann"
    account = "system:serviceaccount:research:ann"
    taken = patched(job, review(job, username=account))
    assert taken["metadata"]["annotations"]["taiji.io/owner"] == account


@pytest.mark.parametrize(
    ("where", "value", "said"),
    [
        (("spec", "runPolicy", "suspend"), False, "its spec"),
        (("spec", "slotsPerWorker"), 8, "its spec"),
        (("metadata", "labels", "taiji.io/business"), "nlp", "taiji.io/business"),
        (("metadata", "annotations", "taiji.io/owner"), "bob", "taiji.io/owner"),
        (("metadata", "annotations", "taiji.io/attempt"), "9", "taiji.io/attempt"),
    ],
)
def test_what_only_the_controller_may_change_nobody_else_does(
    where: tuple[str, ...], value: object, said: str
) -> None:
    old = mpijob()
    new = copy.deepcopy(old)
    at = new
    for step in where[:-1]:
        at = at[step]
    at[where[-1]] = value
    response = review(new, old)
    assert not response["allowed"]
    assert response["status"]["code"] == 403
    assert said in response["status"]["message"]


def test_a_label_of_a_business_cannot_be_taken_away_and_other_things_may_be_changed() -> None:
    old, new = mpijob(), mpijob()
    new["metadata"]["annotations"]["other.io/x"] = "1"
    assert review(new, old) == {"uid": "r-1", "allowed": True}
    new["metadata"]["labels"] = {}
    assert not review(new, old)["allowed"]


def test_a_change_of_the_largest_job_that_a_cluster_keeps_is_looked_at() -> None:
    job = mpijob()
    job["metadata"].setdefault("annotations", {})["notes.example.org/long"] = "x" * 1_400_000
    assert review(job, job)["allowed"]


@pytest.mark.parametrize(
    "body",
    [
        "",
        "[]",
        "{}",
        '{"request": {"uid": "1", "object": null}}',
        '{"request": 1}',
        "[" * 100_000,
    ],
    ids=range(6),
)
def test_what_is_no_review_is_refused_in_words(body: str) -> None:
    answer = Client().post(URL, body, content_type="application/json")
    assert answer.status_code == 400
    assert "AdmissionReview" in answer.json()["error"]
    assert Client().get(URL).status_code == 405


def test_what_cannot_be_a_task_is_refused_at_once_with_all_its_faults() -> None:
    job = mpijob(cards=0, clas="elastic")
    response = review(job)
    assert (response["allowed"], response["status"]["code"]) == (False, 422)
    assert "no annotation taiji.io/clas" in response["status"]["message"]
    assert "nvidia.com/gpu" in response["status"]["message"]


WORKER = ("spec", "mpiReplicaSpecs", "Worker")


@pytest.mark.parametrize(
    ("where", "value", "said"),
    [
        (
            (*WORKER, "replicas"),
            "two",
            'spec.mpiReplicaSpecs.Worker.replicas is "two": it has to be a whole number.',
        ),
        (
            (*WORKER, "replicas"),
            True,
            "spec.mpiReplicaSpecs.Worker.replicas is true: it has to be a whole number.",
        ),
        (
            (*WORKER, "replicas"),
            1.5,
            "spec.mpiReplicaSpecs.Worker.replicas is 1.5: it has to be a whole number.",
        ),
        ((*WORKER, "replicas"), float("inf"), "replicas is Infinity: it has to be a whole number."),
        ((*WORKER, "replicas"), -1, "It has no workers (spec.mpiReplicaSpecs.Worker.replicas)."),
        ((*WORKER,), ["w"] * 99, 'spec.mpiReplicaSpecs.Worker is ["w", "w", '),
        ((*WORKER, "template", "spec", "containers"), {}, "containers is {}: it has to be a list."),
        (
            (*WORKER, "template", "spec", "containers"),
            [None],
            "containers[0] is null: it has to be an object.",
        ),
        ((*WORKER, "template", "spec", "containers"), [{"resources": 8}], "containers[0].resources is 8"),
        ((*WORKER, "template", "spec", "nodeName"), ["a"], 'nodeName is ["a"]: it has to be a text.'),
        (("spec", "slotsPerWorker"), "8", 'spec.slotsPerWorker is "8": it has to be a whole number.'),
        (("spec", "runPolicy"), "now", 'spec.runPolicy is "now": it has to be an object.'),
        (("spec", "runPolicy"), {"suspend": "no"}, 'suspend is "no": it has to be true or false.'),
        (("spec", "mpiReplicaSpecs"), [], "spec.mpiReplicaSpecs is []: it has to be an object."),
        (("spec",), None, "It has no workers (spec.mpiReplicaSpecs.Worker.replicas)."),
        (("metadata", "annotations"), {"taiji.io/class": 1}, "metadata.annotations.taiji.io/class is 1"),
    ],
)
def test_a_field_of_another_type_is_named_with_what_it_has_to_be(
    where: tuple[str, ...], value: object, said: str
) -> None:
    job = mpijob()
    at = job
    for step in where[:-1]:
        at = at[step]
    at[where[-1]] = value
    response = review(job)
    assert (response["allowed"], response["status"]["code"]) == (False, 422)
    assert said in response["status"]["message"]
    assert len(response["status"]["message"]) < 500


def test_fields_of_other_types_are_named_all_at_once() -> None:
    job = mpijob()
    job["spec"] |= {"slotsPerWorker": "8", "runLauncherAsWorker": "yes"}
    message = review(job)["status"]["message"]
    assert "spec.slotsPerWorker" in message
    assert "spec.runLauncherAsWorker" in message
