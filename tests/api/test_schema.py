"""The description of the API, and whether what it describes is what is answered."""

import json
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone
from drf_spectacular.generators import SchemaGenerator
from drf_spectacular.validation import validate_schema
from jsonschema import Draft202012Validator

from cluster import samples
from cluster.models import Host
from jobs.api import shapes, verdicts
from jobs.fields import FIELDS
from quotas.models import Business, Member, Reservation
from tests.api.conftest import Caller, doc, run
from tests.world import World


def test_the_schema_is_valid_and_describes_every_address(capsys: pytest.CaptureFixture[str]) -> None:
    generator: Any = SchemaGenerator
    schema = generator().get_schema(request=None, public=True)
    validate: Any = validate_schema
    validate(schema)
    assert capsys.readouterr().err == ""
    paths = {path.removeprefix("/api/v1/") for path in schema["paths"]}
    assert {
        "tasks/",
        "tasks/preview/",
        "tasks/{id}/",
        "tasks/{id}/stop/",
        "tasks/{id}/log/",
        "free-cards/",
    } <= paths
    body = schema["paths"]["/api/v1/tasks/"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    assert set(body["properties"]) == set(FIELDS)


def schema() -> Any:
    generator: Any = SchemaGenerator
    return generator().get_schema(request=None, public=True)


def calls() -> list[tuple[str, str, Any]]:
    return [
        (path, method, call)
        for path, methods in schema()["paths"].items()
        for method, call in methods.items()
    ]


def test_every_call_says_how_it_fails_in_the_one_form_with_an_example() -> None:
    named = schema()["components"]["responses"]
    for path, method, call in calls():
        refused = {status for status in call["responses"] if status >= "400"}
        assert {"400", "401", "403", "404", "429"} <= refused, (path, method)
        if "requestBody" in call:
            assert {"413", "415"} <= refused, (path, method)
        for status in refused:
            assert call["responses"][status]["$ref"].rpartition("/")[2] in named
    for answer in named.values():
        Draft202012Validator(shapes.ERRORS).validate(answer["content"]["application/json"]["example"])


def test_every_change_is_told_by_an_example_and_takes_a_key() -> None:
    for path, method, call in calls():
        body = call.get("requestBody", {}).get("content", {}).get("application/json")
        if body is not None:
            assert "example" in body, (path, method)
        # A dry run makes nothing; a token's text and passwords are kept nowhere, so that no key could repeat them.
        if method == "post" and not path.endswith(("/preview/", "/tokens/", "/password/")):
            assert "Idempotency-Key" in {one["name"] for one in call["parameters"]}, path


def test_the_examples_are_what_the_schema_says() -> None:
    checked = 0
    for _path, _method, call in calls():
        answers = [answer for status, answer in call["responses"].items() if status < "400"]
        for place in [call.get("requestBody", {}), *answers]:
            for content in place.get("content", {}).values():
                if "example" in content:
                    shape = json.loads(json.dumps(content["schema"]))
                    Draft202012Validator(shape).validate(content["example"])
                    checked += 1
    assert checked > 40


def test_the_names_of_calls_are_plain_and_differ() -> None:
    names = [call["operationId"] for _path, _method, call in calls()]
    assert len(set(names)) == len(names)
    assert {"tasks_submit", "tasks_stop", "tasks_one", "hosts_cordon", "me"} <= set(names)


def test_the_page_of_the_schema_runs_no_inline_script(ann: Caller) -> None:
    client = Client()
    client.force_login(ann.user)
    assert client.get("/api/v1/schema/").status_code == 200
    page = client.get("/api/v1/docs/")
    assert page.status_code == 200
    scripts = [
        part.split(">")[1].split("<")[0].strip() for part in page.content.decode().split("<script")[1:]
    ]
    assert not any(scripts)


def test_answers_are_what_the_schema_says(ann: Caller, world: World) -> None:
    task_id = ann.post("tasks/", doc(time_limit="1h", env={"A": "1"})).json()["id"]
    task = world.task(state="running")
    run(task, "h1", 0, 1)
    Member.objects.filter(user=ann.user).update(role=Member.Role.LEAD)
    host, business = Host.objects.get(name="h1").pk, Business.objects.get(flag="ads").pk
    Reservation.objects.create(business_id=business, gpu_type=world.gpu_type(), cards=2)
    samples.take(timezone.now().replace(minute=15), {})
    shown: list[tuple[Any, shapes.Shape]] = [
        (ann.get(f"tasks/{task_id}/").json(), shapes.DETAIL),
        (ann.get(f"tasks/{task.pk}/").json(), shapes.DETAIL),
        (ann.get("tasks/").json(), shapes.page_of(shapes.TASK)),
        (ann.post("tasks/preview/?alternatives=1", doc()).json(), verdicts.VERDICT),
        (ann.get("free-cards/").json(), shapes.list_of(shapes.FREE_CARDS)),
        (ann.get("hosts/").json(), shapes.page_of(shapes.HOST)),
        (ann.get("quotas/").json(), shapes.page_of(shapes.QUOTA)),
        (ann.get("businesses/").json(), shapes.page_of(shapes.BUSINESS)),
        (ann.get("templates/").json(), shapes.page_of(shapes.TEMPLATE)),
        (ann.get(f"hosts/{host}/").json(), shapes.HOST),
        (ann.get(f"tasks/{task_id}/events/").json(), shapes.EVENTS),
        (ann.get("free-cards/history/").json(), shapes.page_of(shapes.FREE_HISTORY)),
        (ann.get("me/").json(), shapes.ME),
        (ann.post("templates/", {"name": "t", "config": {"GPUName": "P40"}}).json(), shapes.TEMPLATE),
        (ann.post("views/", {"name": "v", "query": "state=open"}).json(), shapes.VIEW),
        (ann.get("views/").json(), shapes.page_of(shapes.VIEW)),
        (ann.get("reservations/").json(), shapes.page_of(shapes.RESERVATION)),
        (ann.get(f"businesses/{business}/members/").json(), shapes.page_of(shapes.PERSON)),
        (ann.post("tasks/bulk/", {"tasks": [doc(), {}]}).json(), shapes.MANY_SUBMITTED),
        (ann.post("tasks/bulk/hold/", {"filter": {"state": "open"}}).json(), shapes.MANY_STEERED),
        (ann.get("nowhere/").json(), shapes.ERRORS),
    ]
    for answer, shape in shown:
        Draft202012Validator(json.loads(json.dumps(shape))).validate(answer)
