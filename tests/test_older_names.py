"""Names that were given before the rule for characters: they are found, and what else their rows hold is changed."""

from typing import Any

import pytest
from django.apps import apps
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from cluster.characters import one_line
from cluster.kept_names import KeepsNames
from cluster.models import GpuType, Region
from jobs.models import SavedView, Task, Template
from quotas.models import Business, Quota, Reservation
from tests.api.conftest import Caller
from tests.api.test_exchange import confirm, lines, offer
from tests.api.test_gone_meanwhile import rows_of
from tests.api.test_kept_admin import root, text
from tests.portal.submitting import GOOD
from tests.world import World

__all__ = ["root"]  # the fixture

pytestmark = pytest.mark.django_db

OLD = "a\u200bd\u00a0s"  # of no width, and a space that looks like another
OLDER = "ads\u200d"


@pytest.fixture
def ann(world: World) -> Caller:
    """Return somebody of a business, with cards in a region, all of names that nothing is given any more."""
    world.host("h1", 8, "P40", region=OLD)
    world.business(OLD, P40=16)
    GpuType.objects.filter(name="P40").update(name=OLDER)
    return Caller(world.user("ann", OLD))


def test_every_row_with_such_a_name_may_keep_it() -> None:
    named = [
        model
        for model in apps.get_models()
        if any(one_line in each.validators for each in model._meta.fields)
    ]
    assert len(named) > 8
    assert [
        model for model in named if not issubclass(model, KeepsNames) and not hasattr(model, "history_date")
    ] == []


def test_a_task_names_its_business_its_types_and_its_region(ann: Caller) -> None:
    document = {
        "business_flag": OLD,
        "GPUName": OLDER,
        "region": OLD,
        "start_cmd": "true",
        "task_flag": "one",
    }
    answer = ann.post("tasks/", document)
    assert answer.status_code == 201, answer.content
    assert ann.post("tasks/", document | {"task_flag": OLD}).status_code == 400, "a name that is given now"
    bulk = ann.post("tasks/bulk/", {"tasks": [document | {"task_flag": "two"}]}).json()
    assert [each["status"] for each in bulk["results"]] == [201]


def test_lists_are_narrowed_by_such_names(ann: Caller) -> None:
    ann.post("tasks/", {"business_flag": OLD, "GPUName": OLDER, "start_cmd": "true", "task_flag": "one"})
    task = Task.objects.get()
    Task.objects.filter(pk=task.pk).update(task_flag=OLD)
    for query in ({"business": OLD}, {"gpu_type": OLDER}, {"q": OLD}):
        found = ann.get("tasks/", **query)
        assert [each["id"] for each in found.json()["results"]] == [task.pk], query
    assert ann.get("tasks/", q="\u202enothing").json()["results"] == []
    assert ann.get("tasks/", user="\u202enobody").json()["results"] == []
    hosts = ann.get("hosts/", region=OLD, gpu_type=OLDER).json()
    assert [one["name"] for one in hosts["results"]] == ["h1"]


def test_what_no_database_takes_finds_nothing(ann: Caller) -> None:
    for query in ({"business": "\x00"}, {"user": "\x00"}):
        assert ann.get("tasks/", **query).json()["results"] == []
    assert ann.get("hosts/", region="\x00").json()["results"] == []
    document = {"business_flag": "a\x00", "start_cmd": "true"}
    assert ann.post("tasks/", document).status_code == 400


def test_cards_are_reserved_by_such_names_and_a_note_may_stay(ann: Caller, world: World) -> None:
    operator = Caller(world.operator())
    body: dict[str, Any] = {"business": OLD, "gpu_type": OLDER, "region": OLD, "cards": 1}
    made = operator.post("reservations/", body)
    assert made.status_code == 201, made.content
    Reservation.objects.update(note=OLD)
    path = f"/api/v1/reservations/{made.json()['id']}/"
    assert _put(operator, path, body | {"note": OLD, "cards": 2}).status_code == 200
    assert _put(operator, path, body | {"note": OLDER}).status_code == 400
    assert (Reservation.objects.get().cards, Reservation.objects.get().note) == (2, OLD)


def _put(caller: Caller, path: str, body: dict[str, Any]) -> Any:
    headers = {"Authorization": f"Token {caller.token}"}
    return caller.client.put(path, body, content_type="application/json", headers=headers)


def test_templates_and_views_keep_their_names(ann: Caller) -> None:
    template = Template.objects.create(name=OLD, description=OLDER, user=ann.user, config={})
    path = f"/api/v1/templates/{template.pk}/"
    body = {"name": OLD, "description": OLDER, "config": {"start_cmd": "true"}}
    assert _put(ann, path, body).status_code == 200
    assert _put(ann, path, body | {"name": OLDER}).status_code == 400
    assert _put(ann, path, body | {"name": "plain"}).status_code == 200
    SavedView.objects.create(user=ann.user, name=OLD, query="state=open")
    assert ann.post("views/", {"name": OLD, "query": "state=queued"}).status_code == 201
    assert ann.post("views/", {"name": OLDER, "query": "state=queued"}).status_code == 400
    assert ann.post("views/", {"name": "x", "query": f"q={OLD}"}).status_code == 201
    assert SavedView.objects.get(name=OLD).query == "state=queued"


def test_a_template_of_the_form_keeps_its_name_and_no_other_gets_such_a_one(world: World) -> None:
    user: User = world.user("ann", "ads")
    browser = Client()
    browser.force_login(user)
    template = Template.objects.create(name=OLD, description=OLDER, user=user, config={})
    said = {
        "do": "template-over",
        "save_name": OLD,
        "save_says": OLDER,
        "save_for": "me",
        "template": template.pk,
    }
    address = f"/tasks/new/?template={template.pk}"

    def fault(**fields: object) -> Any:
        answer = browser.post(address, GOOD | said | fields)
        assert answer.status_code == 200
        return answer.context["save_form"].errors

    assert not fault()
    template.refresh_from_db()
    assert (template.name, template.config["start_cmd"]) == (OLD, "python train.py")
    assert set(fault(save_name=OLDER)) == {"save_name"}
    assert set(fault(save_says=OLD)) == {"save_says"}
    assert set(fault(do="template")) >= {"save_name", "save_says"}, "a new one"
    assert Template.objects.count() == 1


def test_a_template_from_the_form_gets_no_name_that_looks_like_another_s(world: World) -> None:
    browser = Client()
    browser.force_login(world.user("ann", "ads"))
    said = {"do": "template", "save_name": "night", "save_says": "", "save_for": "me"}
    for field in ("save_name", "save_says"):
        answer = browser.post("/tasks/new/", GOOD | said | {field: "ni\u200bght"})
        assert answer.context["save_form"].errors == {
            field: ["The character U+200B is not allowed here; remove it."]
        }
    assert not Template.objects.exists()


def test_the_admin_changes_the_rest_of_such_rows(world: World, root: Client) -> None:
    business = Business.objects.create(flag=OLD, name="before")
    address = reverse("admin:quotas_business_change", args=[business.pk])
    assert root.post(address, rows_of(business, name="after")).status_code == 302
    business.refresh_from_db()
    assert business.name == "after"
    assert root.post(address, rows_of(business, flag=OLDER)).status_code == 200, "the form, with its fault"
    gpu_type = GpuType.objects.create(name="H1", aliases=[OLD])
    address = reverse("admin:cluster_gputype_change", args=[gpu_type.pk])
    for aliases, status in ((f'["{OLD}", "H 1"]', 302), (f'["{OLDER}"]', 200)):
        assert root.post(address, {"name": "H1", "aliases": aliases}).status_code == status
    region = Region.objects.create(name=OLD)
    answer = root.post(reverse("admin:cluster_region_change", args=[region.pk]), {"name": OLDER})
    assert answer.status_code == 200


def test_tables_find_such_rows_and_change_the_rest_of_them(world: World, root: Client) -> None:
    world.business(OLD, P40=4)
    confirm(root, Business, offer(root, Business, lines("flag,name", f"{OLD},after")))
    assert Business.objects.get(flag=OLD).name == "after"
    confirm(root, Quota, offer(root, Quota, lines("business,gpu_type,region,cards", f"{OLD},P40,,9")))
    assert Quota.objects.get(business__flag=OLD).cards == 9
    Business.objects.filter(flag=OLD).update(name=OLD)
    table = lines("flag,name,default_gpu_types", f"{OLD},{OLD},P40")
    assert "is not allowed" not in text(offer(root, Business, table))
    assert "U+200D is not allowed" in text(offer(root, Business, lines("flag,name", f"{OLD},{OLDER}")))


def test_people_are_found_by_such_names(world: World) -> None:
    world.business("ads")
    bob = User.objects.create(username=OLDER)
    operator = Caller(world.operator())
    path = f"/api/v1/businesses/{world.business('ads').pk}/members/{bob.username}/"
    assert _put(operator, path, {"role": "lead"}).status_code == 201
