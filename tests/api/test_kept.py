"""What people keep, and what they look up: templates, views, events, hosts, people, reservations."""

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import User

from cluster.models import Host
from jobs.models import SavedView, Template
from quotas.models import Business, Member, Reservation
from tests.api.conftest import Caller, doc, errors
from tests.world import World

Call = Callable[[User], Caller]


def delete(caller: Caller, path: str) -> Any:
    return caller.client.delete(f"/api/v1/{path}", headers={"Authorization": f"Token {caller.token}"})


def put(caller: Caller, path: str, body: object) -> Any:
    headers = {"Authorization": f"Token {caller.token}"}
    return caller.client.put(f"/api/v1/{path}", body, content_type="application/json", headers=headers)


def test_a_template_is_kept_changed_and_removed(ann: Caller) -> None:
    made = ann.post("templates/", {"name": "resnet", "config": {"GPUName": "P40", "host_num": 2}})
    assert (made.status_code, made.json()["readers"], made.json()["changeable"]) == (201, "me", True)
    pk = made.json()["id"]
    assert ann.get(f"templates/{pk}/").json() == made.json()
    changed = put(
        ann, f"templates/{pk}/", {"name": "vgg", "config": {"host_num": 1}, "business": "ads"}
    ).json()
    assert (changed["name"], changed["readers"], changed["business"]) == ("vgg", "members", "ads")
    assert delete(ann, f"templates/{pk}/").status_code == 204
    assert ann.get(f"templates/{pk}/").status_code == 404


def test_a_template_keeps_no_secret(ann: Caller) -> None:
    config = {"env": {"KEY": {"value": "hush-hush", "secret": True}}, "Token": ann.token}
    made = ann.post("templates/", {"name": "t", "config": config}).json()
    assert made["config"]["env"] == {"KEY": {"secret": True}}
    assert "hush" not in repr(Template.objects.values().get())


def test_a_template_can_be_submitted_with_what_it_lacks(ann: Caller) -> None:
    made = ann.post("templates/", {"name": "t", "config": {"GPUName": "P40", "time_limit": "2h"}}).json()
    assert ann.post("tasks/", made["config"] | doc()).status_code == 201


@pytest.mark.parametrize(
    ("body", "fields"),
    [
        ({}, ["name", "config"]),
        ({"name": "t", "config": {"GPU": 1}}, ["config.GPU"]),
        ({"name": "t", "config": []}, ["config"]),
        ({"name": "t", "config": {}, "readers": "all"}, ["readers"]),
        ({"name": "t", "config": {}, "readers": "members"}, ["business"]),
        ({"name": "t", "config": {}, "business": "search"}, ["business"]),
        ({"name": "t", "config": {}, "business": "ads", "readers": "me"}, ["business"]),
        ({"name": 7, "config": {}}, ["name"]),
        ({"name": "t", "config": {}, "colour": "red"}, ["colour"]),
        ([], [""]),
    ],
)
def test_a_template_with_faults_names_them(ann: Caller, body: object, fields: list[str]) -> None:
    answer = ann.post("templates/", body)
    assert (answer.status_code, list(errors(answer))) == (400, fields)
    assert not Template.objects.exists()


def test_two_templates_of_one_reader_have_two_names(ann: Caller) -> None:
    ann.post("templates/", {"name": "t", "config": {}})
    answer = ann.post("templates/", {"name": "t", "config": {}})
    assert (answer.status_code, errors(answer)) == (409, {"": "name_taken"})


def test_others_change_no_template_and_see_none_of_ones_own(
    ann: Caller, outsider: Caller, call: Call, world: World
) -> None:
    mine = ann.post("templates/", {"name": "mine", "config": {}}).json()["id"]
    shared = ann.post("templates/", {"name": "ours", "config": {}, "business": "ads"}).json()["id"]
    bob = call(world.user("bob", "ads"))
    assert bob.get(f"templates/{shared}/").json()["changeable"] is False
    for caller, pk in ((bob, mine), (bob, shared), (outsider, shared)):
        assert delete(caller, f"templates/{pk}/").status_code == 404
    assert outsider.get(f"templates/{shared}/").status_code == 404


def test_a_view_is_kept_in_its_plain_form_and_given_new_filters(ann: Caller) -> None:
    ann.post("views/", {"name": "mine", "query": "user=me&state=open&page=3"})
    again = ann.post("views/", {"name": "mine", "query": "state=running"})
    assert (again.status_code, again.json()["query"]) == (201, "state=running")
    assert [view["name"] for view in ann.get("views/").json()["results"]] == ["mine"]


@pytest.mark.parametrize(
    ("body", "fields"),
    [
        ({"name": "x", "query": "colour=red"}, ["query"]),
        ({"name": "x", "query": "state=flying"}, ["state"]),
        ({"query": "state=open"}, ["name"]),
        ({"name": "x" * 41, "query": "state=open"}, ["name"]),
    ],
)
def test_a_view_that_narrows_nothing_is_refused(ann: Caller, body: object, fields: list[str]) -> None:
    answer = ann.post("views/", body)
    assert (answer.status_code, sorted(errors(answer))) == (400, sorted(fields))


def test_views_are_ones_own(ann: Caller, outsider: Caller) -> None:
    pk = ann.post("views/", {"name": "v", "query": "state=open"}).json()["id"]
    assert outsider.get("views/").json()["results"] == []
    assert delete(outsider, f"views/{pk}/").status_code == 404
    assert delete(ann, f"views/{pk}/").status_code == 204
    assert not SavedView.objects.exists()


def test_events_go_on_behind_the_last_one(ann: Caller) -> None:
    task = ann.post("tasks/", doc()).json()["id"]
    first = ann.get(f"tasks/{task}/events/").json()
    assert ([event["code"] for event in first["results"]], first["over"]) == (["submitted"], False)
    assert (first["results"][0]["message"], first["results"][0]["actor"]) == ("Submitted", "ann")
    ann.post(f"tasks/{task}/hold/")
    ann.post(f"tasks/{task}/stop/")
    more = ann.get(f"tasks/{task}/events/", after=first["last"]).json()
    assert [event["code"] for event in more["results"]] == ["hold", "stop"]
    assert more["over"] is True
    none = ann.get(f"tasks/{task}/events/", after=more["last"]).json()
    assert (none["results"], none["last"]) == ([], more["last"])


def test_a_language_is_the_callers(ann: Caller) -> None:
    task = ann.post("tasks/", doc()).json()["id"]
    headers = {"Authorization": f"Token {ann.token}", "Accept-Language": "zh-hans"}
    said = ann.client.get(f"/api/v1/tasks/{task}/events/", headers=headers).json()
    assert said["results"][0]["message"] == "提交"
    faulty = ann.client.post("/api/v1/tasks/", "{", "application/json", headers=headers).json()
    assert "JSON" in faulty["errors"][0]["message"]
    assert not faulty["errors"][0]["message"].isascii()


def test_only_the_fields_asked_for_are_sent(ann: Caller) -> None:
    task = ann.post("tasks/", doc()).json()["id"]
    assert ann.get("tasks/", fields="id,state").json()["results"] == [{"id": task, "state": "queued"}]
    assert ann.get(f"tasks/{task}/", fields="evictions").json() == {"evictions": 0}
    assert list(ann.get("hosts/", fields="name").json()["results"][0]) == ["name"]
    for path in (
        "tasks/",
        f"tasks/{task}/",
        "hosts/",
        "quotas/",
        "businesses/",
        "templates/",
        "reservations/",
    ):
        answer = ann.get(path, fields="colour")
        assert (answer.status_code, errors(answer)) == (400, {"fields": "choice"})


def test_a_host_is_shown_alone_and_a_removed_one_to_operators_only(
    ann: Caller, call: Call, world: World
) -> None:
    host = Host.objects.get(name="h1")
    shown = ann.get(f"hosts/{host.pk}/").json()
    assert (shown["name"], len(shown["cards"])) == ("h1", 8)
    Host.objects.filter(pk=host.pk).update(state="removed")
    assert ann.get(f"hosts/{host.pk}/").status_code == 404
    assert call(world.operator()).get(f"hosts/{host.pk}/").json()["state"] == "removed"


def test_hosts_are_narrowed(ann: Caller, world: World) -> None:
    world.host("far", 4, "M40", region="SH")
    Host.objects.filter(name="h1").update(state="cordoned")

    def names(**query: str) -> list[str]:
        return [row["name"] for row in ann.get("hosts/", **query).json()["results"]]

    assert names(region="SH") == ["far"]
    assert names(gpu_type="P40", state="ready") == ["h2"]
    assert names(state="cordoned,lost") == ["h1"]
    assert errors(ann.get("hosts/", state="burning")) == {"state": "choice"}


def test_the_people_of_a_business_are_shown_to_its_leads(
    ann: Caller, outsider: Caller, call: Call, world: World
) -> None:
    path = f"businesses/{Business.objects.get(flag='ads').pk}/members/"
    assert ann.get(path).status_code == 404
    lead = call(world.user("lea", "ads", role=Member.Role.LEAD))
    assert {row["user"]: row["role"] for row in lead.get(path).json()["results"]} == {
        "ann": "member",
        "lea": "lead",
    }
    assert outsider.get(path).status_code == 404


def test_reservations_are_those_of_ones_own_businesses(ann: Caller, outsider: Caller, world: World) -> None:
    Reservation.objects.create(
        business=world.business("ads"), gpu_type=world.gpu_type(), cards=4, note="demo"
    )
    (shown,) = ann.get("reservations/").json()["results"]
    assert (shown["business"], shown["cards"], shown["kind"], shown["note"]) == ("ads", 4, "standing", "demo")
    assert outsider.get("reservations/").json()["results"] == []


def test_the_caller_is_told_who_he_is(ann: Caller) -> None:
    said = ann.get("me/").json()
    assert (said["user"], said["operator"]) == ("ann", False)
    assert said["businesses"] == [{"business_flag": "ads", "role": "member"}]
    assert (said["token"]["name"], said["token"]["scope"]) == ("test", "manage")
