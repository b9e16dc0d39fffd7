"""Many tasks in one request."""

from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from pytest_django import Settings

from cluster import vault
from jobs.materials import Code
from jobs.models import KeptAnswer, Task, TaskEvent
from quotas.models import Member
from tests.api.conftest import Caller, doc, errors
from tests.api.test_scenarios import together
from tests.world import World


def test_each_document_has_its_result_in_order(ann: Caller) -> None:
    documents: list[Any] = [doc(task_flag="a"), {"business_flag": "ads"}, 7, doc(task_flag="b", region="SZ")]
    answer = ann.post("tasks/bulk/", {"tasks": documents})
    results = answer.json()["results"]
    assert (answer.status_code, [result["status"] for result in results]) == (200, [201, 400, 400, 201])
    assert [result["task"]["task_flag"] for result in results if result["task"]] == ["a", "b"]
    assert [fault["field"] for fault in results[1]["errors"]] == ["start_cmd"]
    assert list(Task.objects.order_by("pk").values_list("task_flag", flat=True)) == ["a", "b"]
    assert TaskEvent.objects.filter(code="submitted", actor=ann.user).count() == 2


def test_a_result_is_what_a_single_submission_answers(ann: Caller) -> None:
    one = ann.post("tasks/", doc(task_flag="a")).json()
    (many,) = ann.post("tasks/bulk/", {"tasks": [doc(task_flag="a")]}).json()["results"]
    differs = {"id", "url", "submitted_at", "queued_at"}
    assert {k: v for k, v in one.items() if k not in differs} == {
        k: v for k, v in many["task"].items() if k not in differs
    }


def test_a_thousand_cost_the_queries_of_ten(ann: Caller, world: World) -> None:
    def queries(number: int) -> int:
        documents = [
            doc(
                task_flag=f"t{place}",
                host_gpu_num=1 + place % 8,
                GPUName=["P40", "p40,"][place % 2],
                region="SZ",
            )
            for place in range(number)
        ]
        with CaptureQueriesContext(connection) as seen:
            results = ann.post("tasks/bulk/", {"tasks": documents}).json()["results"]
        assert {result["status"] for result in results} == {201}
        return len([one for one in seen if "INSERT" not in one["sql"]])

    queries(1)  # how many hosts there are is kept for a moment
    assert queries(10) == queries(1000)


def test_secrets_of_many_are_sealed_each_for_itself(ann: Caller) -> None:
    documents = [doc(env={"KEY": {"value": f"hush-{n}", "secret": True}}) for n in range(2)]
    answer = ann.post("tasks/bulk/", {"tasks": documents}, Idempotency_Key="k1")
    assert answer.status_code == 200
    assert [vault.unseal(task.secrets)["env.KEY"] for task in Task.objects.order_by("pk")] == [
        "hush-0",
        "hush-1",
    ]
    assert "hush" not in answer.content.decode() + KeptAnswer.objects.get().body


def test_the_same_key_makes_them_once(ann: Caller) -> None:
    first, again = (ann.post("tasks/bulk/", {"tasks": [doc()] * 3}, Idempotency_Key="k1") for _ in range(2))
    assert first.content == again.content
    assert Task.objects.count() == 3


def test_they_are_checked_against_the_business_of_the_caller(ann: Caller, world: World) -> None:
    world.business("search", P40=8)
    results = ann.post("tasks/bulk/", {"tasks": [doc(business_flag="search"), doc()]}).json()["results"]
    assert [result["status"] for result in results] == [400, 201]


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"tasks": []}, "tasks"),
        ({"tasks": {}}, "tasks"),
        ({"tasks": [{}] * 1001}, "tasks"),
        ({}, "tasks"),
        ([], ""),
        ({"tasks": [{}], "task": 1}, "task"),
    ],
)
def test_a_body_that_is_no_list_of_documents_is_refused(ann: Caller, body: object, field: str) -> None:
    answer = ann.post("tasks/bulk/", body)
    assert (answer.status_code, list(errors(answer))) == (400, [field])


def test_flags_that_no_row_can_hold_are_refused_each(ann: Caller) -> None:
    strange: list[Any] = ["a\x00", "\ud800", 5, None, ["ads"], "x" * 300, "nope"]
    results = ann.post("tasks/bulk/", {"tasks": [doc(business_flag=flag) for flag in strange]}).json()[
        "results"
    ]
    assert {result["status"] for result in results} == {400}
    assert not Task.objects.exists()


def test_a_verb_moves_the_tasks_named(ann: Caller, world: World) -> None:
    ids = [ann.post("tasks/", doc()).json()["id"] for _ in range(3)]
    others = world.task("search", "zoe").pk
    said = ann.post("tasks/bulk/hold/", {"ids": [*ids[:2], others]}).json()
    assert (said["done"], said["by_state"], said["skipped"]) == (2, {"queued": 2}, [])
    assert list(Task.objects.order_by("pk").values_list("state", flat=True)) == [
        "held",
        "held",
        "queued",
        "queued",
    ]


def test_a_verb_moves_all_that_match_and_leaves_what_is_not_ones_own(ann: Caller, world: World) -> None:
    mine = [world.task().pk for _ in range(2)]
    world.task(user="bob")
    world.task(state="failed")
    said = ann.post("tasks/bulk/stop/", {"filter": {"state": "open", "business": "ads"}}).json()
    assert (said["done"], said["more"]) == (2, False)
    assert said["skipped"] == [{"why": "not_yours", "state": "queued", "number": 1}]
    assert set(Task.objects.filter(state="stopped").values_list("pk", flat=True)) == set(mine)


def test_a_lead_stops_everything_of_the_business_once(ann: Caller, world: World) -> None:
    Member.objects.filter(user=ann.user).update(role=Member.Role.LEAD)
    for _ in range(3):
        world.task(user="bob")
    first, again = (
        ann.post("tasks/bulk/stop/", {"filter": {"business": "ads"}}, Idempotency_Key="k1") for _ in range(2)
    )
    assert (first.json()["done"], first.content) == (3, again.content)


def test_tasks_are_run_again_together(ann: Caller, world: World) -> None:
    ids = [world.task(state="failed").pk for _ in range(2)]
    assert ann.post("tasks/bulk/retry/", {"ids": ids}).json()["done"] == 2
    assert Task.objects.filter(origin__in=ids, state="queued").count() == 2


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"ids": []},
        {"ids": ["1"]},
        {"ids": [True]},
        {"ids": [1], "filter": {"state": "open"}},
        {"filter": {}},
        {"filter": {"stat": "open"}},
        {"filter": {"state": "flying"}},
        {"filter": {"state": ["open"]}},
        {"filter": {"state": " "}},
        {"filter": "state=open"},
        [1],
    ],
)
def test_a_choice_that_is_not_clear_touches_nothing(ann: Caller, world: World, body: object) -> None:
    world.task()
    answer = ann.post("tasks/bulk/stop/", body)
    assert (answer.status_code, bool(errors(answer))) == (400, True)
    assert Task.objects.get().state == "queued"


@pytest.mark.django_db(transaction=True)
def test_some_who_name_the_same_new_code_at_once_in_other_orders_all_get_their_tasks(
    ann: Caller, settings: Settings
) -> None:
    settings.GIT_PREFIXES = ["https://git.test/"]
    paths = [{"group": "g", "project": f"p{number}", "branch": "m"} for number in range(60)]
    documents = [doc(model_params={"path_info": path}) for path in paths]
    orders = [documents, documents[::-1]]
    answers = together(4, lambda place: ann.post("tasks/bulk/", {"tasks": orders[place % 2]}))
    assert [answer.status_code for answer in answers] == [200] * 4
    assert all(result["status"] == 201 for answer in answers for result in answer.json()["results"])
    assert (Task.objects.count(), Code.objects.count()) == (240, 60)
