"""Forms of the admin that were opened before somebody else did the same: each comes back with the fault, none fails."""

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from quotas.models import Business, DefaultGpuType, Member, PlatformRole, Quota
from tests.api.test_gone_meanwhile import rows_of
from tests.api.test_kept_admin import root, text
from tests.world import World

__all__ = ["root"]  # the fixture

pytestmark = pytest.mark.django_db(transaction=True)


def send(root: Client, business: Business, rows: str, **fields: object) -> Any:
    """Add a row within the form of a business."""
    row = {f"{rows}-0-{name}": str(value) for name, value in fields.items()}
    form = rows_of(business, **{f"{rows}-TOTAL_FORMS": "1", f"{rows}-0-business": str(business.pk)}, **row)
    return root.post(reverse("admin:quotas_business_change", args=[business.pk]), form)


def test_a_row_within_a_form_that_is_there_already_is_a_fault_of_its_line(world: World, root: Client) -> None:
    ads, ann = world.business("ads", P40=16), world.user("ann", "ads")
    p40 = world.gpu_type("P40").pk
    answers = [
        send(root, ads, "defaultgputype_set", gpu_type=p40, position=0),
        send(root, ads, "quotas", gpu_type=p40, cards=8, reason="spring"),
        send(root, ads, "member_set", user=ann.pk, role="lead"),
    ]
    for answer in answers:
        assert answer.status_code == 200
        assert [
            faults
            for table in answer.context["inline_admin_formsets"]
            for faults in table.formset.errors
            if faults
        ]
    assert (DefaultGpuType.objects.count(), Member.objects.filter(user=ann).count()) == (1, 1)
    assert Quota.objects.get().cards == 16


def test_another_row_within_a_form_is_added(world: World, root: Client) -> None:
    ads, m40 = world.business("ads", P40=16), world.gpu_type("M40").pk
    assert send(root, ads, "defaultgputype_set", gpu_type=m40, position=1).status_code == 302
    assert send(root, ads, "quotas", gpu_type=m40, cards=8, reason="spring").status_code == 302
    assert send(root, ads, "member_set", user=world.user("bob").pk, role="lead").status_code == 302
    assert (DefaultGpuType.objects.count(), Quota.objects.count()) == (2, 2)


def faults_of(answer: Any) -> list[dict[str, list[str]]]:
    tables = [table.formset for table in answer.context["inline_admin_formsets"]]
    said = [
        {"": [str(fault) for fault in table.non_form_errors()]} for table in tables if table.non_form_errors()
    ]
    return said + [faults for table in tables for faults in table.errors if faults]


ROWS = ("quotas", "defaultgputype_set", "member_set")


@pytest.mark.parametrize("new", [True, False], ids=["business that is added", "business that is changed"])
@pytest.mark.parametrize("rows", [*ROWS, "quotas of a region"])
def test_two_equal_rows_of_one_form_are_a_fault_of_it(
    world: World, root: Client, rows: str, new: bool
) -> None:
    every: dict[str, dict[str, object]] = {
        "quotas": {"gpu_type": world.gpu_type("P40").pk, "cards": 8, "reason": "spring"},
        "quotas of a region": {
            "gpu_type": world.gpu_type("P40").pk,
            "region": world.region("SZ").pk,
            "cards": 8,
            "reason": "spring",
        },
        "defaultgputype_set": {"gpu_type": world.gpu_type("P40").pk, "position": 0},
        "member_set": {"user": world.user("bob").pk, "role": "lead"},
    }
    row = every[rows]
    table, business = rows.split()[0], None if new else Business.objects.create(flag="speech")
    form = {f"{table}-TOTAL_FORMS": "2"}
    for number in range(2):
        form |= {f"{table}-{number}-{name}": str(value) for name, value in row.items()}
        form[f"{table}-{number}-business"] = str(business.pk) if business else ""
    form = rows_of(business, **form)
    changed = reverse("admin:quotas_business_change", args=[business.pk]) if business else ""
    answer = root.post(changed or reverse("admin:quotas_business_add"), form)
    assert answer.status_code == 200
    assert faults_of(answer)
    for model in (Quota, DefaultGpuType, Member):
        assert not model._default_manager.exclude(business__flag="ads").exists()


def test_a_row_that_a_form_deletes_is_not_in_the_way_of_the_same_one_added(
    world: World, root: Client
) -> None:
    ads = world.business("ads", P40=16)
    [old] = DefaultGpuType.objects.all()
    rows = "defaultgputype_set"
    row = {"business": ads.pk, "gpu_type": old.gpu_type_id}
    form = {f"{rows}-TOTAL_FORMS": "2", f"{rows}-INITIAL_FORMS": "1", f"{rows}-0-DELETE": "on"}
    form |= {f"{rows}-0-{name}": str(value) for name, value in (row | {"id": old.pk, "position": 0}).items()}
    form |= {f"{rows}-1-{name}": str(value) for name, value in (row | {"position": 3}).items()}
    answer = root.post(reverse("admin:quotas_business_change", args=[ads.pk]), rows_of(ads, **form))
    assert answer.status_code == 302, faults_of(answer)
    assert DefaultGpuType.objects.get().position == 3


def person(root: Client, user: User, **fields: str) -> Any:
    """Change somebody in the form of people."""
    rows = ("platform_role", "member_set")
    counts = {f"{one}-{which}_FORMS": "0" for one in rows for which in ("TOTAL", "INITIAL")}
    form = {
        "username": user.username,
        "is_active": "on",
        "date_joined_0": "2030-01-01",
        "date_joined_1": "08:00",
    }
    return root.post(reverse("admin:auth_user_change", args=[user.pk]), {**counts, **form, **fields})


def test_a_role_that_somebody_was_given_meanwhile_is_a_fault_of_its_line(world: World, root: Client) -> None:
    ann = world.user("ann")
    role = {
        "platform_role-TOTAL_FORMS": "1",
        "platform_role-0-user": str(ann.pk),
        "platform_role-0-role": "auditor",
    }
    assert person(root, ann, **role).status_code == 302
    assert PlatformRole.objects.get().role == "auditor"
    answer = person(root, ann, **(role | {"platform_role-0-role": "operator"}))
    assert answer.status_code == 200
    assert PlatformRole.objects.get().role == "auditor"


@pytest.mark.parametrize("way", ["alone", "from a list"])
def test_nobody_deletes_himself(world: World, root: Client, way: str) -> None:
    me = world.user("root", "ads")
    if way == "alone":
        answer = root.post(reverse("admin:auth_user_delete", args=[me.pk]), {"post": "yes"})
    else:
        form = {"action": "delete_selected", "_selected_action": [me.pk], "post": "yes"}
        answer = root.post(reverse("admin:auth_user_changelist"), form)
    assert answer.status_code == 200
    assert "root: this is you. Another operator can do it." in text(answer)
    assert User.objects.filter(username="root").exists()
