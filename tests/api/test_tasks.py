"""Tasks over the API: submit, preview, list, look, steer, retry."""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries

from cluster import vault
from jobs.engine import forecasts
from jobs.models import Task
from jobs.states import State
from quotas.models import Member
from tests.api.conftest import Caller, doc, errors, run
from tests.world import World

Call = Callable[[User], Caller]


def test_a_task_is_submitted_and_its_page_is_named(ann: Caller) -> None:
    response = ann.post("tasks/", doc(task_flag="训练", is_elasticity=True))
    assert response.status_code == 201
    said = response.json()
    task = Task.objects.get()
    assert (said["id"], said["task_flag"], said["state"], said["class"]) == (
        task.pk,
        "训练",
        "queued",
        "elastic",
    )
    assert said["url"] == f"http://testserver/tasks/{task.pk}/"
    assert (said["business"], said["user"], said["gpu_types"], said["priority"]) == (
        "ads",
        "ann",
        ["P40"],
        "medium",
    )


def test_a_faulty_document_makes_nothing(ann: Caller) -> None:
    assert ann.post("tasks/", doc(host_gpu_num=99)).status_code == 400
    assert not Task.objects.exists()


def test_a_secret_is_stored_sealed_and_shown_nowhere(ann: Caller) -> None:
    written = doc(env={"KEY": {"value": "hush-hush", "secret": True}})
    task_id = ann.post("tasks/", written).json()["id"]
    said = ann.get(f"tasks/{task_id}/")
    assert said.json()["config"]["env"] == {"KEY": {"secret": True}}
    task = Task.objects.get()
    assert vault.unseal(task.secrets) == {"env.KEY": "hush-hush"}
    assert "hush-hush" not in said.content.decode() + repr(task.__dict__)


def test_a_copy_keeps_its_owners_secrets(ann: Caller, call: Call, world: World) -> None:
    first = ann.post("tasks/", doc(env={"KEY": {"value": "hush", "secret": True}})).json()
    config = ann.get(f"tasks/{first['id']}/").json()["config"]
    copy = ann.post(f"tasks/?origin={first['id']}", config).json()
    assert copy["origin"] == first["id"]
    assert vault.unseal(Task.objects.get(pk=copy["id"]).secrets) == {"env.KEY": "hush"}
    colleague = call(world.user("bob", "ads"))
    assert errors(colleague.post(f"tasks/?origin={first['id']}", config)) == {"env.KEY": "required"}


def test_a_task_of_others_is_no_origin(ann: Caller, outsider: Caller) -> None:
    first = ann.post("tasks/", doc()).json()
    assert outsider.post(f"tasks/?origin={first['id']}", doc()).status_code == 404


def test_the_same_key_gives_the_same_task(ann: Caller) -> None:
    first = ann.post("tasks/", doc(), Idempotency_Key="k1")
    again = ann.post("tasks/", doc(), Idempotency_Key="k1")
    assert (first.status_code, again.status_code) == (201, 201)
    assert first.json()["id"] == again.json()["id"]
    assert ann.post("tasks/", doc(), Idempotency_Key="k2").json()["id"] != first.json()["id"]


def test_the_same_key_with_another_document_is_a_conflict(ann: Caller) -> None:
    ann.post("tasks/", doc(), Idempotency_Key="k1")
    response = ann.post("tasks/", doc(host_num=2), Idempotency_Key="k1")
    assert (response.status_code, errors(response)) == (409, {"": "idempotency_key_reused"})
    assert Task.objects.count() == 1


def test_another_value_of_a_secret_is_another_document(ann: Caller) -> None:
    def post(value: str) -> int:
        env = {"S3_KEY": {"value": value, "secret": True}}
        return int(ann.post("tasks/", doc(env=env), Idempotency_Key="k1").status_code)

    assert [post("hush-hush"), post("hush-hush"), post("another")] == [201, 201, 409]


def test_keys_of_different_users_have_nothing_to_do_with_each_other(
    ann: Caller, call: Call, world: World
) -> None:
    bob = call(world.user("bob", "ads"))
    first = ann.post("tasks/", doc(), Idempotency_Key="k1").json()["id"]
    assert bob.post("tasks/", doc(), Idempotency_Key="k1").json()["id"] != first


def test_a_key_too_long_is_refused(ann: Caller) -> None:
    assert errors(ann.post("tasks/", doc(), Idempotency_Key="k" * 256)) == {"Idempotency-Key": "length"}


def test_a_preview_says_what_would_be_and_makes_nothing(ann: Caller) -> None:
    said = ann.post("tasks/preview/", doc()).json()
    assert {"verdict", "reason", "evicts", "position", "estimated_start"} <= set(said)
    assert (said["verdict"], said["alternatives"]) == ("starts", [])
    assert said["verdict"] == "starts"
    assert ann.post("tasks/preview/", doc(host_gpu_num=9)).json()["verdict"] == "never"
    assert ann.post("tasks/preview/", doc(keep_alive=1)).status_code == 400
    assert not Task.objects.exists()


def test_a_preview_names_no_users_of_other_businesses(ann: Caller, outsider: Caller, world: World) -> None:
    world.business("search")
    tasks = [world.task("search", "zoe", cards=8, wanted_class="elastic", state="running") for _ in "12"]
    for task, host in zip(tasks, ("h1", "h2"), strict=True):
        run(task, host, *range(8), task_class="elastic")
    said = ann.post("tasks/preview/", doc(GPUName="P40", host_gpu_num=8)).json()
    assert said["verdict"] == "starts_after_evicting"
    assert [(row["business"], row["user"]) for row in said["evicts"]] == [("search", None)]


def test_the_list_shows_what_the_caller_may_see_newest_first(
    ann: Caller, outsider: Caller, world: World
) -> None:
    tasks = [world.task("ads", "ann"), world.task("ads", "bob"), world.task("search", "zoe")]
    ids = [task.pk for task in tasks]
    assert [row["id"] for row in ann.get("tasks/").json()["results"]] == [ids[1], ids[0]]
    assert [row["id"] for row in outsider.get("tasks/").json()["results"]] == [ids[2]]


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ({"state": "running"}, ["b"]),
        ({"state": "running,queued"}, ["b", "a"]),
        ({"class": "elastic"}, ["b"]),
        ({"user": "me"}, ["a"]),
        ({"user": "bob"}, ["c", "b"]),
        ({"user": "nobody"}, []),
        ({"user": "\x00"}, []),
        ({"business": "ads"}, ["b", "a"]),
        ({"business": "search"}, []),
        ({"business": "ads", "state": "running", "user": "bob", "class": "elastic"}, ["b"]),
        ({"business": "ads,nlp"}, ["c", "b", "a"]),
        ({"state": "over"}, ["c"]),
        ({"q": "C"}, ["c"]),
        ({"gpu_type": "p40"}, ["c", "b", "a"]),
        ({"submitted_from": "today", "submitted_to": "today"}, ["c", "b", "a"]),
        ({"submitted_to": "7d"}, []),
        ({"sort": "oldest"}, ["a", "b", "c"]),
        ({"sort": "waiting_longest"}, ["a"]),
        ({}, ["c", "b", "a"]),
    ],
)
def test_the_list_is_filtered(ann: Caller, world: World, query: dict[str, str], names: list[str]) -> None:
    world.user("ann", "nlp")
    world.task("ads", "ann", task_flag="a")
    world.task("ads", "bob", task_flag="b", state="running", wanted_class="elastic")
    world.task("nlp", "bob", task_flag="c", state="failed")
    world.task("search", "zoe", task_flag="d")
    assert [row["task_flag"] for row in ann.get("tasks/", **query).json()["results"]] == names


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ({"state": "odd"}, "state"),
        ({"gpu_type": "odd"}, "gpu_type"),
        ({"region": "odd"}, "region"),
        ({"reason": "odd"}, "reason"),
        ({"submitted_from": "2030-02-31"}, "submitted_from"),
        ({"ended_from": "soon"}, "ended_from"),
        ({"sort": "odd"}, "sort"),
        ({"sort": "ended_last", "state": "running"}, "sort"),
        ({"cursor": "odd"}, "cursor"),
        ({"cursor": "7", "sort": "ended_last"}, "cursor"),
        ({"q": "\x00"}, "q"),
    ],
)
def test_a_filter_that_means_nothing_is_refused_by_its_name(
    query: dict[str, str], field: str, ann: Caller
) -> None:
    answer = ann.get("tasks/", **query)
    assert answer.status_code == 400
    assert [fault["field"] for fault in answer.json()["errors"]] == [field]


def test_pages_in_the_order_of_ends_follow_each_other(ann: Caller, world: World) -> None:
    now = timezone.now()
    ends = [3, 1, 2, 1]
    ids = [world.task(state="failed", ended_at=now - timedelta(hours=end)).pk for end in ends]
    world.task()
    answer = ann.get("tasks/", limit=2, sort="ended_last").json()
    seen = [row["id"] for row in answer["results"]]
    answer = ann.get(answer["next"].removeprefix("http://testserver/api/v1/")).json()
    assert answer["next"] is None
    assert [*seen, *(row["id"] for row in answer["results"])] == [ids[3], ids[1], ids[2], ids[0]]


def test_pages_follow_each_other_and_keep_the_filter(ann: Caller, world: World) -> None:
    ids = [world.task().pk for _number in range(5)]
    world.task(state="failed")
    seen, answer = [], ann.get("tasks/", limit=2, state="queued").json()
    while True:
        seen += [row["id"] for row in answer["results"]]
        if answer["next"] is None:
            break
        path = answer["next"].removeprefix("http://testserver/api/v1/")
        answer = ann.get(path).json()
    assert seen == ids[::-1]


def test_a_list_costs_the_same_few_queries_however_long(
    ann: Caller, world: World, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    for _number in range(20):
        world.task()
    with django_assert_num_queries(5):
        assert len(ann.get("tasks/").json()["results"]) == 20


def test_a_task_is_shown_with_its_attempts(
    ann: Caller, world: World, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    task = world.task(cards=2, wanted_class="elastic", state="running")
    rival = world.task()
    then = timezone.now() - timedelta(hours=1)
    ended = {"ended_at": then, "outcome": "evicted", "outcome_code": "evicted", "evicted_for": rival}
    run(task, "h1", 0, 1, number=1, task_class="elastic", evict_rule="victim", **ended)
    run(task, "h2", 3, 5, number=2, task_class="elastic")
    with django_assert_num_queries(7):
        said = ann.get(f"tasks/{task.pk}/").json()
    assert (said["state"], said["evictions"], said["reason"], said["place"]) == ("running", 1, None, None)
    first, second = said["attempts"]
    assert (first["outcome"], first["evicted_for"], first["evict_rule"]) == ("evicted", rival.pk, "victim")
    assert (second["outcome"], second["attempt"], second["gpu_type"]) == (None, 2, "P40")
    [host] = second["hosts"]
    assert (host["host"], host["cards"], host["rank"], host["phase"]) == ("h2", [3, 5], 0, "running")
    assert (first["hosts"][0]["host"], first["hosts"][0]["cards"]) == ("h1", [0, 1])


def test_a_waiting_task_shows_its_place_in_line(ann: Caller, world: World) -> None:
    world.task()
    task = world.task()
    assert ann.get(f"tasks/{task.pk}/").json()["place"] == {"position": 2, "of": 2}


def test_a_waiting_task_shows_when_it_starts_and_why_then(ann: Caller, world: World) -> None:
    for host in ("h1", "h2"):
        task = world.task(cards=8, state="running", time_limit_s=3600)
        run(task, host, *range(8))
    waits = world.task(cards=8, time_limit_s=60)
    said = ann.get(f"tasks/{waits.pk}/").json()
    assert (said["estimated_start"], said["estimate_basis"]) == (None, None), "nobody looked ahead yet"
    forecasts.run()
    said = ann.get(f"tasks/{waits.pk}/").json()
    assert said["estimate_basis"] == {
        "code": "limits",
        "message": "if tasks before it run until their time limits (1 of them)",
    }
    starts = datetime.fromisoformat(said["estimated_start"])
    assert timedelta(minutes=59) < starts - timezone.now() <= timedelta(minutes=60)
    preview = ann.post("tasks/preview/", doc(host_gpu_num=8, GPUName="P40", is_elasticity=True)).json()
    assert (preview["verdict"], preview["position"]) == ("queues", 1)
    assert abs(datetime.fromisoformat(preview["estimated_start"]) - starts) < timedelta(minutes=1)
    assert preview["estimate_basis"]["code"] == "limits"


def test_a_start_that_nobody_can_know_is_null_and_says_why(ann: Caller, world: World) -> None:
    for host in ("h1", "h2"):
        run(world.task(cards=8, state="running"), host, *range(8))
    waits = world.task(cards=8)
    forecasts.run()
    said = ann.get(f"tasks/{waits.pk}/").json()
    assert (said["place"], said["estimated_start"]) == ({"position": 1, "of": 1}, None)
    assert said["estimate_basis"]["code"] == "unknown"


@pytest.mark.parametrize("verb", ["", "log/", "stop/", "hold/", "release/", "free/", "retry/"])
def test_a_task_of_others_does_not_exist(ann: Caller, outsider: Caller, world: World, verb: str) -> None:
    task = world.task()
    method: Any = outsider.get if verb in {"", "log/"} else outsider.post
    for pk in (task.pk, 10**6):
        response = method(f"tasks/{pk}/{verb}")
        assert (response.status_code, errors(response)) == (404, {"": "not_found"})
    task.refresh_from_db()
    assert task.state == State.QUEUED


def test_a_task_is_held_released_and_stopped(ann: Caller, world: World) -> None:
    task = world.task()
    for verb, state in (("hold", "held"), ("release", "queued"), ("stop", "stopped")):
        response = ann.post(f"tasks/{task.pk}/{verb}/")
        assert (response.status_code, response.json()["state"]) == (200, state)


@pytest.mark.parametrize(
    ("verb", "code"), [("hold", "wrong_state"), ("free", "no_kept_place"), ("stop", "already_over")]
)
def test_an_illegal_move_is_a_conflict(ann: Caller, world: World, verb: str, code: str) -> None:
    task = world.task(state="failed")
    response = ann.post(f"tasks/{task.pk}/{verb}/")
    assert (response.status_code, errors(response)) == (409, {"": code})


def test_a_colleague_may_look_but_not_steer_and_a_lead_may(ann: Caller, call: Call, world: World) -> None:
    task = world.task("ads", "ann")
    colleague = call(world.user("bob", "ads"))
    assert colleague.get(f"tasks/{task.pk}/").status_code == 200
    for verb in ("stop", "hold", "release", "free"):
        response = colleague.post(f"tasks/{task.pk}/{verb}/")
        assert (response.status_code, errors(response)) == (403, {"": "permission_denied"})
    lead = call(world.user("lea", "ads", role=Member.Role.LEAD))
    assert lead.post(f"tasks/{task.pk}/hold/").json()["state"] == "held"
    assert call(world.operator()).post(f"tasks/{task.pk}/stop/").json()["state"] == "stopped"


def test_a_member_who_left_steers_nothing_any_more(ann: Caller, world: World) -> None:
    task = world.task("ads", "ann")
    Member.objects.all().delete()
    assert ann.post(f"tasks/{task.pk}/stop/").status_code == 404


def test_a_retry_is_a_new_task_linked_to_the_old(ann: Caller) -> None:
    old = ann.post("tasks/", doc(task_flag="t", env={"K": {"value": "hush", "secret": True}})).json()["id"]
    response = ann.post(f"tasks/{old}/retry/")
    assert (response.status_code, errors(response)) == (409, {"": "not_over"})
    ann.post(f"tasks/{old}/stop/")
    response = ann.post(f"tasks/{old}/retry/")
    assert response.status_code == 201
    new = Task.objects.get(pk=response.json()["id"])
    assert (new.origin_id, new.task_flag, new.state) == (old, "t", "queued")
    assert vault.unseal(new.secrets) == {"env.K": "hush"}


def test_a_filter_by_a_name_that_is_none_is_refused_and_lists_no_tasks(ann: Caller) -> None:
    response = ann.get("tasks/", buisness="ads", limit="5")
    assert (response.status_code, errors(response)) == (400, {"buisness": "unknown"})
    assert "known: q, state, class, business," in response.json()["errors"][0]["message"]
