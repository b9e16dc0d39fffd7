"""What stands behind the question mark of an address and means nothing there is refused, by every call alike."""

from typing import Any

import pytest
from django.urls import URLPattern

from jobs.api.urls import urlpatterns
from tests.api.conftest import Caller, errors
from tests.world import World

OURS = "jobs.api."
METHODS = ("get", "post", "put", "patch", "delete")


def methods() -> list[tuple[str, str, Any]]:
    """Return every method of every view of ours, with the route of its address."""
    found = []
    for pattern in urlpatterns:
        assert isinstance(pattern, URLPattern)
        view: Any = getattr(pattern.callback, "cls", None)
        if view is None or not view.__module__.startswith(OURS) or view.__name__ == "NotFound":
            continue
        for name in METHODS:
            if hasattr(view, name):
                found.append((f"{name.upper()} {pattern.pattern}", name, getattr(view, name)))
    return found


def test_every_call_refuses_parameters_that_it_does_not_describe() -> None:
    assert len(methods()) > 40
    careless = [said for said, _name, method in methods() if not hasattr(method, "refuses_other_names")]
    assert careless == []


@pytest.mark.parametrize(
    "path",
    [
        "tasks/",
        "hosts/",
        "quotas/",
        "businesses/",
        "reservations/",
        "templates/",
        "views/",
        "models/",
        "datasets/",
    ],
)
def test_a_list_names_the_parameter_that_it_does_not_know_and_those_that_it_does(
    path: str, ann: Caller
) -> None:
    answer = ann.get(f"{path}?limit=2&stat=open")
    assert answer.status_code == 400
    assert errors(answer) == {"stat": "unknown"}
    assert "limit" in answer.json()["errors"][0]["message"]


def test_a_call_that_takes_none_says_so(ann: Caller) -> None:
    answer = ann.get("me/?user=bob")
    assert errors(answer) == {"user": "unknown"}
    assert "leave it out" in answer.json()["errors"][0]["message"]


def test_a_change_is_not_made_where_a_parameter_means_nothing(ann: Caller) -> None:
    body = {"business_flag": "ads", "start_cmd": "true"}
    assert errors(ann.post("tasks/?dry_run=1", body)) == {"dry_run": "unknown"}
    assert ann.get("tasks/").json()["results"] == []


@pytest.mark.parametrize(
    ("path", "field"),
    [
        ("tasks/?limit=1&limit=2", "limit"),
        ("tasks/?cursor=1&cursor=2", "cursor"),
        ("tasks/?user=ann&user=bob", "user"),
        ("tasks/?q=a&q=b", "q"),
        ("tasks/?submitted_from=7d&submitted_from=8d", "submitted_from"),
        ("quotas/?business=ads&business=search", "business"),
        ("tasks/{task}/log/?offset=1&offset=2", "offset"),
        ("tasks/{task}/log/search/?q=a&q=b", "q"),
        ("tasks/{task}/events/?wait=50&wait=60", "wait"),
        ("tasks/{task}/events/?after=0&after=99", "after"),
    ],
)
def test_what_is_said_twice_is_refused_where_one_thing_is_meant(
    path: str, field: str, ann: Caller, world: World
) -> None:
    answer = ann.get(path.format(task=world.task("ads", "ann").pk))
    assert answer.status_code == 400
    assert errors(answer) == {field: "twice"}


def test_the_same_said_twice_is_one_thing(ann: Caller) -> None:
    assert ann.get("tasks/?limit=1&limit=1&user=ann&user=ann&state=queued&state=held").status_code == 200
