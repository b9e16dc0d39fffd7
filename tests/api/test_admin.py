"""The admin: what operators may change, and what nobody may delete."""

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.test import Client
from django.urls import reverse
from django.utils import timezone, translation
from pytest_django import Settings

from cluster.models import Card, GpuType, Host, Instance, Region
from jobs.materials import Code, Dataset, Upload
from jobs.models import Attempt, Policy, Task, Template
from quotas.audit import AuditEntry
from quotas.models import ApiToken, Business, Quota
from tests.api.conftest import Caller, doc, run
from tests.world import World


@pytest.fixture
def root(world: World, ann: Caller) -> Client:
    """Return an operator's browser on a world where a task of ann runs on h1."""
    task = world.task(state="running", config={"env": {"K": {"secret": True}}}, secrets="sealed-text")
    run(task, "h1", 0, 1)
    its: dict[str, Any] = {"business": task.business, "user": task.user}
    Upload.objects.create(**its, digest="d" * 64, size=5, used_at=timezone.now())
    task.code = Code.objects.create(
        **its, kind="git", name="resnet", params={"url": "https://git/a.git"}, secrets="sealed-text"
    )
    task.dataset = Dataset.objects.create(**its, params={"mounts": []}, secrets="sealed-text")
    task.save()
    client = Client()
    client.force_login(world.operator())
    return client


def _url(model: Any, page: str, *args: object) -> str:
    return reverse(f"admin:{model._meta.app_label}_{model._meta.model_name}_{page}", args=args)


SOURCES = [Upload, Code, Dataset]
LISTED = [Region, GpuType, Host, Card, Business, Quota, ApiToken, Task, Attempt, Template, *SOURCES]


@pytest.mark.parametrize("model", LISTED)
def test_every_list_opens_and_searches(root: Client, model: Any) -> None:
    assert root.get(_url(model, "changelist")).status_code == 200
    assert root.get(_url(model, "changelist"), {"q": "ads"}).status_code == 200


@pytest.mark.parametrize("model", [Region, GpuType, Host, Card, Business, Quota, Task, Attempt, *SOURCES])
def test_every_row_opens_and_shows_no_secret(root: Client, model: Any) -> None:
    page = root.get(_url(model, "change", model.objects.all()[0].pk))
    assert page.status_code == 200
    assert "sealed-text" not in page.content.decode()


@pytest.mark.parametrize("model", [Region, GpuType, Host, Card, Business, Task, Attempt, *SOURCES])
def test_nothing_that_is_in_use_can_be_deleted(root: Client, model: Any) -> None:
    rows = set(model.objects.values_list("pk", flat=True))
    for pk in rows:
        root.post(_url(model, "delete", pk), {"post": "yes"})
    assert set(model.objects.values_list("pk", flat=True)) == rows


@pytest.mark.parametrize("model", [Region, GpuType, Host, Card, Business, Task, Attempt, *SOURCES])
def test_nothing_that_is_in_use_goes_by_delete_selected(root: Client, model: Any) -> None:
    rows = list(model.objects.values_list("pk", flat=True))
    form = {"action": "delete_selected", "_selected_action": rows, "post": "yes"}
    root.post(_url(model, "changelist"), form)
    assert sorted(model.objects.values_list("pk", flat=True)) == sorted(rows)
    assert Instance.objects.count() == 1


@pytest.mark.parametrize("model", [Code, Dataset])
def test_operators_remove_known_code_and_data_that_no_task_needs(
    root: Client, model: Any, settings: Settings
) -> None:
    form = {"action": "remove_unneeded", "_selected_action": [model.objects.get().pk]}
    page = root.post(_url(model, "changelist"), form, follow=True).content.decode()
    assert "Removed: 0. Kept: 1, which" in page
    ended = timezone.now() - timedelta(days=settings.UPLOAD_KEEP_DAYS + 1)
    Task.objects.update(state="succeeded", ended_at=ended)
    page = root.post(_url(model, "changelist"), form, follow=True).content.decode()
    assert "Removed: 1." in page
    assert not model.objects.exists()
    entry = AuditEntry.objects.get()
    assert (entry.actor, entry.deed) == ("root", f"{model._meta.model_name}.removed")
    assert entry.target_id == str(form["_selected_action"][0])


def test_code_shows_where_it_lies_and_that_it_has_a_secret(root: Client) -> None:
    for page in (_url(Code, "changelist"), _url(Code, "change", Code.objects.get().pk)):
        shown = root.get(page).content.decode()
        assert ("resnet" in shown, "icon-yes" in shown, "sealed-text" in shown) == (True, True, False)
    assert "https://git/a.git" in shown


def test_a_user_who_has_tasks_cannot_be_deleted(root: Client, ann: Caller) -> None:
    root.post(reverse("admin:auth_user_delete", args=[ann.user.pk]), {"post": "yes"})
    form = {"action": "delete_selected", "_selected_action": [ann.user.pk], "post": "yes"}
    root.post(reverse("admin:auth_user_changelist"), form)
    assert Task.objects.get().user == ann.user


def test_what_nothing_uses_can_be_deleted(root: Client, world: World) -> None:
    spare = world.gpu_type("T4")
    root.post(_url(GpuType, "delete", spare.pk), {"post": "yes"})
    assert not GpuType.objects.filter(name="T4").exists()


def test_a_default_type_of_a_business_counts_as_used(root: Client, world: World) -> None:
    spare = world.gpu_type("T4")
    world.business("ads").default_gpu_types.add(spare)
    for page in ("delete", "changelist"):
        form = {"action": "delete_selected", "_selected_action": [spare.pk], "post": "yes"}
        root.post(_url(GpuType, page, *([spare.pk] if page == "delete" else [])), form)
    assert GpuType.objects.filter(name="T4").exists()


def test_a_renamed_type_keeps_answering_to_its_earlier_name(root: Client, ann: Caller) -> None:
    p40 = GpuType.objects.get(name="P40")
    root.post(_url(GpuType, "change", p40.pk), {"name": "P40-24G", "aliases": "[]"})
    p40.refresh_from_db()
    assert (p40.name, p40.aliases) == ("P40-24G", ["P40"])
    assert ann.post("tasks/", doc(GPUName="P40")).json()["gpu_types"] == ["P40-24G"]


@pytest.mark.parametrize(
    "form",
    [
        {"name": "p40"},
        {"name": "A,B"},
        {"name": "M40", "aliases": '["P40"]'},
        {"name": "M40", "aliases": "5"},
    ],
)
def test_a_type_takes_no_name_that_means_another(root: Client, world: World, form: dict[str, str]) -> None:
    m40 = world.gpu_type("M40")
    page = root.post(_url(GpuType, "change", m40.pk), {"aliases": "[]", **form})
    assert page.context["adminform"].errors
    m40.refresh_from_db()
    assert (m40.name, m40.aliases) == ("M40", [])


def _host_form(**fields: str) -> dict[str, str]:
    return {"cards-TOTAL_FORMS": "0", "cards-INITIAL_FORMS": "0", **fields}


def test_a_host_is_drained_with_a_reason(root: Client) -> None:
    host = Host.objects.get(name="h1")
    Host.objects.filter(pk=host.pk).update(agent_seq=7)
    root.post(_url(Host, "change", host.pk), _host_form(state="draining", state_reason="fan is loud"))
    after = Host.objects.get(pk=host.pk)
    assert (after.state, after.state_reason, after.agent_seq) == ("draining", "fan is loud", 7)
    assert after.state_changed_at > host.state_changed_at


def test_taking_a_host_out_without_a_reason_is_refused(root: Client) -> None:
    host = Host.objects.get(name="h1")
    page = root.post(_url(Host, "change", host.pk), _host_form(state="cordoned", state_reason=" "))
    assert "state_reason" in page.context["adminform"].errors
    assert Host.objects.get(pk=host.pk).state == "ready"


def test_a_host_on_which_something_runs_is_not_removed_unseen(root: Client) -> None:
    host = Host.objects.get(name="h1")
    gone = {"state": "removed", "state_reason": "sold"}
    page = root.post(_url(Host, "change", host.pk), _host_form(**gone))
    label = Instance.objects.get().label
    said = f"It still holds {label}. Drain it and wait, or remove it on its page in the portal"
    assert said in page.context["adminform"].errors["state"][0]
    assert Host.objects.get(pk=host.pk).state == "ready"
    Instance.objects.update(phase="gone")
    root.post(_url(Host, "change", host.pk), _host_form(**gone))
    assert Host.objects.get(pk=host.pk).state == "removed"


def test_a_token_is_reset_for_a_new_registration_and_noted(root: Client) -> None:
    Host.objects.update(token_hash="x")
    host = Host.objects.get(name="h1")
    root.post(_url(Host, "changelist"), {"action": "reset_token", "_selected_action": [host.pk]})
    assert dict(Host.objects.values_list("name", "token_hash")) == {"h1": "", "h2": "x"}
    assert LogEntry.objects.filter(object_id=str(host.pk)).count() == 1


def test_hosts_and_cards_are_not_made_by_hand(root: Client) -> None:
    for model in (Host, Card, Task, Attempt):
        assert root.get(_url(model, "add")).status_code == 403


def test_the_policy_opens_by_itself_and_keeps_only_what_differs(root: Client) -> None:
    page = root.get(_url(Policy, "changelist"), follow=True)
    assert page.status_code == 200
    form = {"elastic_order": "fifo", "min_run_s": "0", "max_evictions_per_hour": "2", "reason": "tried out"}
    root.post(_url(Policy, "change", 1), form)
    assert Policy.objects.get().values == {
        "elastic_order": "fifo",
        "min_run_s": 0.0,
        "max_evictions_per_hour": 2,
    }


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("elastic_order", "lottery"),
        ("slice_s", "0"),
        ("exit_grace_s", "31"),
        ("quarantine_after", "1.5"),
        ("aging_s", "x"),
        ("lost_after_s", "20"),  # as long as a call of a host that is well is held
    ],
)
def test_a_policy_that_means_nothing_is_refused(root: Client, key: str, value: str) -> None:
    Policy.objects.create(pk=1, values={"aging_s": 60.0})
    page = root.post(_url(Policy, "change", 1), {key: value, "reason": "why not"})
    assert key in page.context["adminform"].errors
    assert Policy.objects.get().values == {"aging_s": 60.0}


def test_the_policy_stays(root: Client) -> None:
    Policy.objects.create(pk=1)
    root.post(_url(Policy, "delete", 1), {"post": "yes"})
    assert Policy.objects.exists()


def test_a_template_is_a_document_that_may_lack_things(root: Client) -> None:
    root.post(_url(Template, "add"), {"name": "t", "config": '{"business_flag": "", "start_cmd": "true"}'})
    assert Template.objects.get().config == {"business_flag": "", "start_cmd": "true"}


@pytest.mark.parametrize(
    "config",
    [
        '{"start": "x"}',
        '{"host_num": "2"}',
        "[]",
        '{"Token": "t0k3n"}',
        '{"env": {"K": {"value": "x", "secret": true}}}',
    ],
)
def test_a_template_takes_nothing_that_no_task_could_have_and_no_secrets(root: Client, config: str) -> None:
    page = root.post(_url(Template, "add"), {"name": "t", "config": config})
    assert page.context["adminform"].errors
    assert not Template.objects.exists()


def test_a_token_is_shown_once(root: Client, ann: Caller) -> None:
    page = root.post(_url(ApiToken, "add"), {"user": ann.user.pk, "name": "ci", "scope": "read"})
    secret = page.content.decode().split('<code id="secret">')[1].split("</code>")[0]
    token = ApiToken.objects.by_secret(secret)
    assert token is not None
    assert (token.user, token.name) == (ann.user, "ci")
    assert "no-store" in page["Cache-Control"]
    for again in (_url(ApiToken, "change", token.pk), _url(ApiToken, "changelist")):
        content = root.get(again).content.decode()
        assert secret not in content
        assert token.digest not in content


def test_staff_who_are_no_operators_make_no_tokens(root: Client, world: World) -> None:
    clerk = world.user("clerk")
    clerk.is_staff = True
    clerk.save()
    client = Client()
    client.force_login(clerk)
    assert client.get(_url(ApiToken, "add")).status_code == 403


def test_a_business_is_edited_with_its_members_types_and_quotas(root: Client, world: World) -> None:
    business = world.business("ads")
    form: dict[str, object] = {"flag": "ads", "name": "Ads"}
    for prefix, rows in (("quotas", 1), ("defaultgputype_set", 0), ("member_set", 0)):
        form |= {f"{prefix}-TOTAL_FORMS": rows, f"{prefix}-INITIAL_FORMS": rows}
    quota = Quota.objects.get()
    form |= {
        "quotas-0-id": quota.pk,
        "quotas-0-business": business.pk,
        "quotas-0-gpu_type": quota.gpu_type_id,
    }
    root.post(_url(Business, "change", business.pk), {**form, "quotas-0-cards": 8, "quotas-0-reason": "less"})
    business.refresh_from_db()
    quota.refresh_from_db()
    assert (business.name, quota.cards) == ("Ads", 8)


def test_what_the_flag_of_a_business_may_be_is_said_before_it_is_refused(root: Client) -> None:
    rule = "without / and \\, and without a dot or a blank at its beginning"
    assert rule in root.get(_url(Business, "add")).content.decode()
    with translation.override("en"):  # what a page speaks stays behind it
        page = root.get(_url(Business, "add"), headers={"Accept-Language": "zh-hans"}).content.decode()
    assert "不能含 / 和 \\" in page
