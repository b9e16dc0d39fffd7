"""What a call or a form names is deleted, or added, by somebody else between its look and its deed."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.urls import reverse

from cluster import rows
from cluster.models import GpuType
from jobs import alike, config, templates
from jobs.models import Task, Template
from quotas import issuing, many_rows, membership, reserving
from quotas.admin import BusinessAdmin, QuotaAdmin
from quotas.models import ApiToken, Business, DefaultGpuType, Member, Quota, Reservation
from tests.api.conftest import Caller, doc, errors
from tests.api.test_exchange import confirm, lines, offer
from tests.api.test_kept_admin import root, text
from tests.world import World

__all__ = ["root"]  # the fixture

pytestmark = pytest.mark.django_db(transaction=True)
Patch = pytest.MonkeyPatch


def elsewhere(deed: Callable[[], object]) -> None:
    """Do it as another process would. On SQLite that is before a transaction begins: nobody else writes within one."""
    if connection.vendor == "sqlite":
        deed()
        return

    def doing() -> None:
        try:
            deed()
        finally:
            connection.close()

    with ThreadPoolExecutor(1) as pool:
        pool.submit(doing).result(60)


def first(patch: Patch, place: Any, name: str, deed: Callable[[], object], *, before: bool = True) -> None:
    """Have it done elsewhere just before, or behind, the first call of this function."""
    call, left = getattr(place, name), [deed]

    def calling(*args: Any, **kwargs: Any) -> Any:
        if before and left:
            elsewhere(left.pop())
        answer = call(*args, **kwargs)
        if left:
            elsewhere(left.pop())
        return answer

    patch.setattr(place, name, calling)


def forget_ads() -> None:
    """Delete a business, as an operator does."""
    Quota.objects.filter(business__flag="ads").delete()
    Business.objects.get(flag="ads").delete()


@pytest.fixture
def operator(ann: Caller, world: World) -> Caller:
    """Return an operator, in a world with ann of ads."""
    return Caller(world.operator())


@pytest.mark.parametrize("key", [{}, {"Idempotency_Key": "k"}], ids=["without a key", "with a key"])
def test_a_business_that_is_deleted_while_a_task_is_submitted_is_unknown(
    ann: Caller, monkeypatch: Patch, key: dict[str, str]
) -> None:
    if key and connection.vendor == "sqlite":
        return  # the key's row is written first, and nobody else writes until the answer is kept
    first(monkeypatch, config, "read", forget_ads, before=False)
    answer = ann.post("tasks/", doc(), **key)
    assert (answer.status_code, errors(answer)) == (400, {"business_flag": "unknown"})
    assert not Task.objects.exists()


def test_a_business_that_is_deleted_while_many_are_submitted_is_unknown_to_each(
    ann: Caller, monkeypatch: Patch
) -> None:
    first(monkeypatch, alike.Reader, "read", forget_ads, before=False)
    answer = ann.post("tasks/bulk/", {"tasks": [doc(), doc(task_flag="b")]})
    assert [one["status"] for one in answer.json()["results"]] == [400, 400]
    assert {one["errors"][0]["field"] for one in answer.json()["results"]} == {"business_flag"}


def test_one_who_is_deleted_while_he_submits_is_nobody(operator: Caller, monkeypatch: Patch) -> None:
    first(monkeypatch, config, "read", lambda: User.objects.get(pk=operator.user.pk).delete(), before=False)
    answer = operator.post("tasks/", doc())
    assert (answer.status_code, errors(answer)) == (401, {"": "authentication_failed"})
    assert not Task.objects.exists()


def test_a_form_of_a_business_that_is_deleted_meanwhile_comes_back_with_the_fault(
    ann: Caller, monkeypatch: Patch
) -> None:
    browser = Client()
    browser.force_login(ann.user)
    first(monkeypatch, config, "read", forget_ads, before=False)
    form = {"business_flag": "ads", "start_cmd": "true", "host_num": "1", "host_gpu_num": "1", "do": "submit"}
    answer = browser.post(reverse("submit"), form)
    assert answer.status_code < 500
    assert not Task.objects.exists()


def test_a_template_for_a_business_that_is_deleted_meanwhile_is_refused(
    ann: Caller, monkeypatch: Patch
) -> None:
    first(monkeypatch, templates, "name_taken", forget_ads)
    answer = ann.post("templates/", {"name": "x", "business": "ads", "config": {}})
    assert (answer.status_code, errors(answer)) == (400, {"business": "unknown"})
    assert not Template.objects.exists()


def test_a_template_that_is_changed_for_a_business_that_is_deleted_meanwhile_is_refused(
    ann: Caller, monkeypatch: Patch
) -> None:
    template = Template.objects.create(name="x", user=ann.user, config={})
    first(monkeypatch, templates, "name_taken", forget_ads)
    path = f"/api/v1/templates/{template.pk}/"
    answer = ann.client.put(
        path,
        {"name": "x", "business": "ads", "config": {}},
        content_type="application/json",
        headers={"Authorization": f"Token {ann.token}"},
    )
    assert (answer.status_code, errors(answer)) == (400, {"business": "unknown"})


def test_a_token_for_a_business_that_is_deleted_meanwhile_is_refused(ann: Caller, monkeypatch: Patch) -> None:
    first(monkeypatch, issuing, "issue", forget_ads)
    answer = ann.post("tokens/", {"name": "ci", "scope": "read", "business": "ads"})
    assert (answer.status_code, errors(answer)) == (400, {"business": "unknown"})
    assert not ApiToken.objects.filter(name="ci").exists()


def test_nobody_is_taken_into_a_business_that_is_deleted_meanwhile(
    operator: Caller, world: World, monkeypatch: Patch
) -> None:
    world.user("bob")
    first(monkeypatch, membership, "put", forget_ads)
    path = f"/api/v1/businesses/{world.business('ads').pk}/members/bob/"
    answer = operator.client.put(
        path,
        {"role": "lead"},
        content_type="application/json",
        headers={"Authorization": f"Token {operator.token}"},
    )
    assert answer.status_code == 404
    assert not Member.objects.filter(user__username="bob").exists()


def test_somebody_who_is_deleted_while_he_is_taken_in_is_unknown(
    operator: Caller, world: World, monkeypatch: Patch
) -> None:
    bob = world.user("bob")
    first(monkeypatch, membership, "put", bob.delete)
    path = f"/api/v1/businesses/{world.business('ads').pk}/members/bob/"
    answer = operator.client.put(
        path,
        {"role": "lead"},
        content_type="application/json",
        headers={"Authorization": f"Token {operator.token}"},
    )
    assert (answer.status_code, errors(answer)) == (400, {"user": "unknown"})


@pytest.mark.parametrize("place", ["save", "keep"])
@pytest.mark.parametrize("gone", ["business", "gpu_type"])
def test_cards_are_not_reserved_for_a_business_nor_of_a_type_that_is_deleted_meanwhile(
    operator: Caller, world: World, monkeypatch: Patch, place: str, gone: str
) -> None:
    if place == "keep" and (connection.vendor == "sqlite" or gone == "business"):
        return  # nobody else writes by then; the business is locked
    world.gpu_type("H1")

    def forget() -> None:
        forget_ads() if gone == "business" else GpuType.objects.get(name="H1").delete()

    first(monkeypatch, reserving, place, forget)
    answer = operator.post("reservations/", {"business": "ads", "gpu_type": "H1", "cards": 1})
    assert answer.status_code == 400
    assert set(errors(answer)) == {gone}
    assert not Reservation.objects.exists()


ROWS = ("quotas", "defaultgputype_set", "member_set")


def rows_of(business: Business | None, **more: str) -> dict[str, str]:
    """Return the form of a business without quotas, types and members."""
    counts = {f"{table}-{which}_FORMS": "0" for table in ROWS for which in ("TOTAL", "INITIAL")}
    return counts | {"flag": business.flag if business else "new", "name": ""} | more


def test_a_quota_of_a_business_that_is_deleted_meanwhile_comes_back_with_the_fault(
    world: World, root: Client, monkeypatch: Patch
) -> None:
    if connection.vendor == "sqlite":
        return  # nobody else writes while a form is kept
    speech = world.business("speech")
    first(monkeypatch, QuotaAdmin, "save_model", lambda: Business.objects.get(flag="speech").delete())
    form = {"business": speech.pk, "gpu_type": world.gpu_type().pk, "cards": "4", "reason": "spring"}
    answer = root.post(reverse("admin:quotas_quota_add"), form)
    assert answer.status_code == 200
    assert "business" in answer.context["adminform"].form.errors
    assert "was added successfully" not in text(root.get(reverse("admin:index")))
    assert not Quota.objects.filter(business=speech.pk).exists()


def test_a_business_that_two_add_at_once_is_added_by_one_and_the_other_sees_it(
    world: World, root: Client, monkeypatch: Patch
) -> None:
    if connection.vendor == "sqlite":
        return  # nobody else writes while a form is kept
    first(monkeypatch, BusinessAdmin, "save_model", lambda: Business.objects.create(flag="new"))
    answer = root.post(reverse("admin:quotas_business_add"), rows_of(None))
    assert answer.status_code == 200
    assert "flag" in answer.context["adminform"].form.errors
    assert Business.objects.filter(flag="new").count() == 1


def test_a_type_that_a_table_and_a_form_give_a_business_at_once_is_its_type_once(
    world: World, root: Client, monkeypatch: Patch
) -> None:
    if connection.vendor == "sqlite":
        return  # nobody else writes while a table is read in
    speech, gpu_type = world.business("speech"), world.gpu_type()

    def add() -> None:
        DefaultGpuType.objects.create(business=speech, gpu_type=gpu_type)

    first(monkeypatch, rows, "insert_new", add)
    confirm(root, Business, offer(root, Business, lines("flag,default_gpu_types", "speech,P40")))
    assert DefaultGpuType.objects.filter(business=speech).count() == 1
    DefaultGpuType.objects.filter(business=speech).delete()
    first(monkeypatch, BusinessAdmin, "save_related", add)
    types = {"defaultgputype_set-TOTAL_FORMS": "1", "defaultgputype_set-0-gpu_type": str(gpu_type.pk)}
    types |= {"defaultgputype_set-0-position": "0", "defaultgputype_set-0-business": str(speech.pk)}
    answer = root.post(reverse("admin:quotas_business_change", args=[speech.pk]), rows_of(speech, **types))
    assert answer.status_code == 200, "the form, with its fault"
    assert DefaultGpuType.objects.filter(business=speech).count() == 1


def test_a_table_of_a_type_that_is_deleted_while_it_is_read_in_is_to_be_chosen_again(
    world: World, root: Client, monkeypatch: Patch
) -> None:
    if connection.vendor == "sqlite":
        return  # nobody else writes while a table is read in
    world.gpu_type("H1")
    offered = offer(root, Quota, lines("business,gpu_type,region,cards", "ads,H1,,8"))
    first(monkeypatch, many_rows, "add", lambda: GpuType.objects.get(name="H1").delete())
    answer = root.get(confirm(root, Quota, offered).url)
    assert "changed at this moment" in text(answer)
    assert "Import finished" not in text(answer)
    assert Quota.objects.count() == 1
