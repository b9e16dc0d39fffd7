"""Stories of other platforms that went wrong, as far as they concern the API: secrets, names, races, locks."""

import json
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from pytest_django import Settings

from cluster import fresh, vault
from cluster.models import GpuType, Host, Instance
from jobs.engine import passes
from jobs.models import KeptAnswer, Task, TaskEvent
from tests.api.conftest import Caller, doc, errors, run
from tests.world import World

Call = Callable[[User], Caller]
SECRETS = {
    "env.AWS_SECRET": "s3cr3t-of-env",
    "dataset_params.ceph_info.0.secret": "AQBs3cr3tofcephxxxxxx==",
    "model_params.path_info.private_token": "s3cr3t-of-git",
}


def secretive(token: str, **more: Any) -> dict[str, Any]:
    """Return a document with a secret wherever one may stand."""
    ceph = {"addr": "10.0.0.1:6789", "name": "ann", "secret": "AQBs3cr3tofcephxxxxxx==", "src_path": "/a"}
    place = {"group": "vision", "project": "resnet", "private_token": "s3cr3t-of-git"}
    return doc(
        Token=token,
        env={"AWS_SECRET": {"value": "s3cr3t-of-env", "secret": True}},
        dataset_params={"dataset_source": "outer_ceph", "ceph_info": [ceph]},
        model_params={"model_source": "git", "path_info": place},
        **more,
    )


@pytest.fixture
def git(settings: Settings, ann: Caller) -> None:
    """Allow code from git, and let hosts mount ceph."""
    settings.GIT_PREFIXES = ["https://git.example.com/"]
    Host.objects.update(offers=["process", "process_ceph"])
    fresh.forget_all()


@pytest.mark.usefixtures("git")
def test_no_secret_comes_back_by_any_address(ann: Caller, call: Call, world: World) -> None:
    written = secretive(ann.token)
    said = [
        ann.post("tasks/", written, Idempotency_Key="k1"),
        ann.post("tasks/", written, Idempotency_Key="k1"),
    ]
    said.append(ann.post("tasks/bulk/", {"tasks": [written], "Token": ann.token}, Idempotency_Key="k2"))
    said.append(
        ann.post("templates/", {"name": "t", "config": {k: v for k, v in written.items() if k != "Token"}})
    )
    said.append(ann.post("tasks/preview/", written))
    task = said[0].json()["id"]
    said += [
        ann.get(f"tasks/{task}/"),
        ann.get(f"tasks/{task}/events/"),
        ann.get("tasks/"),
        ann.get("templates/"),
    ]
    said += [ann.get("models/"), ann.get("datasets/"), ann.get("me/"), ann.post(f"tasks/{task}/stop/")]
    said.append(ann.post(f"tasks/{task}/retry/"))
    assert {answer.status_code for answer in said} <= {200, 201}, [
        a.content for a in said if a.status_code > 201
    ]
    told = b"".join(answer.content for answer in said).decode()
    kept = repr(list(KeptAnswer.objects.values())) + repr(list(Task.objects.values()))
    kept += repr(list(TaskEvent.objects.values()))
    for secret in (*SECRETS.values(), ann.token):
        assert secret not in told
        assert secret not in kept
    assert vault.unseal(Task.objects.get(pk=task).secrets) == SECRETS
    assert vault.unseal(Task.objects.latest("pk").secrets) == SECRETS  # the copy keeps them, unseen


@pytest.mark.usefixtures("git")
def test_a_secret_is_neither_quoted_by_an_error_nor_given_to_a_colleague(
    ann: Caller, call: Call, world: World
) -> None:
    shown = secretive(ann.token, start_cmd="login s3cr3t-of-env", exit_cmd="echo s3cr3t-of-git", host_num="x")
    refused = ann.post("tasks/", shown)
    assert {"start_cmd", "exit_cmd", "host_num"} <= set(errors(refused))
    assert "s3cr3t" not in refused.content.decode()
    made = ann.post("tasks/", secretive(ann.token))
    assert made.status_code == 201, made.content
    task = made.json()["id"]
    colleague = call(world.user("bob", "ads"))
    config = colleague.get(f"tasks/{task}/").json()["config"]
    assert set(errors(colleague.post(f"tasks/?origin={task}", config))) == set(SECRETS)


NAMES = (
    "训练 🚀",
    "." * 3,
    "../../etc/passwd",
    "a" * 255,
    "‮gnirts",
    "=cmd()",
    "e\u0301",
    "é",
    "<script>",
    "%00%2e",
)


def test_names_of_any_script_are_kept_found_and_moved(ann: Caller, world: World) -> None:
    world.business("广告-推荐", P40=16)
    world.user("ann", "广告-推荐")
    taken = []
    for name in NAMES:
        answer = ann.post("tasks/", doc(business_flag="广告-推荐", task_flag=name))
        assert answer.status_code in {201, 400}, name
        if answer.status_code == 201:
            assert answer.json()["task_flag"] == name
            taken.append(answer.json()["id"])
        else:
            assert errors(answer) == {"task_flag": "character"}
    assert len(taken) >= 9
    assert ann.get("tasks/", q="🚀").json()["results"][0]["task_flag"] == "训练 🚀"
    mine = ann.get("tasks/", business="广告-推荐", fields="id").json()["results"]
    assert [row["id"] for row in mine] == taken[::-1]
    moved = ann.post("tasks/bulk/hold/", {"filter": {"business": "广告-推荐"}}).json()
    assert moved["done"] == len(taken)
    assert ann.get("quotas/", business="广告-推荐").json()["results"][0]["cards"] == 16


def test_a_renamed_type_keeps_its_quota_and_its_queue_and_answers_to_its_old_name(
    ann: Caller, world: World
) -> None:
    task = ann.post("tasks/", doc(GPUName="P40")).json()["id"]
    GpuType.objects.filter(name="P40").update(name="Tesla P40", aliases=["P40"])
    fresh.forget_all()
    assert ann.get(f"tasks/{task}/").json()["gpu_types"] == ["Tesla P40"]
    again = ann.post("tasks/", doc(GPUName="p40"))
    assert (again.status_code, again.json()["gpu_types"]) == (201, ["Tesla P40"])
    (quota,) = ann.get("quotas/").json()["results"]
    assert (quota["gpu_type"], quota["cards"]) == ("Tesla P40", 16)


def together(number: int, deed: Callable[[int], Any]) -> list[Any]:
    """Do it so many times at the same moment, each in a thread with a connection of its own."""
    ready = threading.Barrier(number)

    def doing(place: int) -> Any:
        try:
            ready.wait(60)
            return deed(place)
        finally:
            connection.close()

    with ThreadPoolExecutor(number) as pool:
        return list(pool.map(doing, range(number)))


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("state", ["queued", "starting", "running"])
def test_a_task_that_many_stop_at_once_is_stopped_once(ann: Caller, world: World, state: str) -> None:
    task = world.task(state=state)
    if state != "queued":
        run(task, "h1", 0)
    answers = together(6, lambda _place: ann.post(f"tasks/{task.pk}/stop/").status_code)
    assert set(answers) <= {200, 409}
    assert 200 in answers
    task.refresh_from_db()
    assert task.state == ("stopped" if state == "queued" else "stopping")
    assert TaskEvent.objects.filter(task=task, code="stop").count() == 1


@pytest.mark.django_db(transaction=True)
def test_a_double_click_under_one_key_has_one_answer(ann: Caller, world: World) -> None:
    task = world.task()
    answers = together(4, lambda _place: ann.post(f"tasks/{task.pk}/stop/", Idempotency_Key="click").content)
    assert len(set(answers)) == 1
    assert json.loads(answers[0])["state"] == "stopped"


@pytest.mark.django_db(transaction=True)
def test_a_busy_database_refuses_nobody(ann: Caller, world: World) -> None:
    """Eight post, a pass runs again and again, and a host reports fifty times a second."""
    member = run(world.task(state="running"), "h1", 0)
    over = threading.Event()

    def reports() -> None:
        while not over.wait(0.02):
            Instance.objects.filter(pk=member.pk).update(log_bytes=1)
            Host.objects.filter(pk=member.host_id).update(agent_seq=1)
        connection.close()

    def plans() -> None:
        while not over.wait(0.05):
            passes.run(wait_s=0)
        connection.close()

    others = [threading.Thread(target=each) for each in (reports, plans)]
    for each in others:
        each.start()
    took: list[float] = []

    def posts(place: int) -> list[int]:
        found = []
        for number in range(10):
            began = time.monotonic()
            key = {"Idempotency_Key": f"{place}-{number}"} if number % 2 else {}
            found.append(int(ann.post("tasks/", doc(is_elasticity=True), **key).status_code))
            took.append(time.monotonic() - began)
        return found

    try:
        answers = Counter(status for each in together(8, posts) for status in each)
    finally:
        over.set()
        for each in others:
            each.join(60)
    assert answers == {201: 80}
    assert Task.objects.count() == 81
    assert max(took) < 20
