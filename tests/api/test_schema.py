"""The description of the API, and whether what it describes is what is answered."""

import json
from typing import Any

import pytest
from django.test import Client
from drf_spectacular.generators import SchemaGenerator
from drf_spectacular.validation import validate_schema
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]

from jobs.api import shapes, verdicts
from jobs.fields import FIELDS
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
    shown: list[tuple[Any, shapes.Shape]] = [
        (ann.get(f"tasks/{task_id}/").json(), shapes.DETAIL),
        (ann.get(f"tasks/{task.pk}/").json(), shapes.DETAIL),
        (ann.get("tasks/").json(), shapes.page_of(shapes.TASK)),
        (ann.post("tasks/preview/?alternatives=1", doc()).json(), verdicts.VERDICT),
        (ann.get("free-cards/").json(), shapes.list_of(shapes.FREE_CARDS)),
        (ann.get("hosts/").json(), shapes.page_of(shapes.HOST)),
        (ann.get("quotas/").json(), shapes.list_of(shapes.QUOTA)),
        (ann.get("businesses/").json(), shapes.list_of(shapes.BUSINESS)),
        (ann.get("templates/").json(), shapes.list_of(shapes.TEMPLATE)),
        (ann.get("nowhere/").json(), shapes.ERRORS),
    ]
    for answer, shape in shown:
        Draft202012Validator(json.loads(json.dumps(shape))).validate(answer)
