"""What operators change in the admin keeps its history, and what is needed is not deleted."""

import itertools
from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse
from django.utils import timezone, translation

from cluster import in_use
from cluster.models import Card, GpuType, Host, Region
from jobs.engine import passes
from jobs.models import Policy, Task
from jobs.scheduling import policy
from jobs.states import State
from quotas.models import Business, Member, PlatformRole, Quota, Reservation
from tests.portal.test_chinese import english
from tests.world import World


@pytest.fixture(autouse=True)
def _english_afterwards() -> Iterator[None]:
    """Leave no language behind."""
    yield
    translation.deactivate()


@pytest.fixture
def root(world: World) -> Client:
    """Return an operator's browser on a world where `ads` may use 16 P40."""
    world.business("ads", P40=16)
    client = Client()
    client.force_login(world.operator())
    return client


def address(model: Any, page: str, *args: object) -> str:
    return reverse(f"admin:{model._meta.app_label}_{model._meta.model_name}_{page}", args=args)


def text(answer: Any) -> str:
    return " ".join(answer.content.decode().split())


def change(root: Client, quota: Quota, **fields: object) -> Any:
    """Send the form of a quota."""
    form = {"business": quota.business_id, "gpu_type": quota.gpu_type_id, "cards": quota.cards}
    return root.post(address(Quota, "change", quota.pk), form | fields)


def test_a_quota_is_changed_with_a_reason_that_stays_with_who_and_what(world: World, root: Client) -> None:
    quota = Quota.objects.get()
    assert "reason" in change(root, quota, cards=8).context["adminform"].errors
    assert change(root, quota, cards=8, reason="the sale is over").status_code == 302
    record = quota.history.first()
    assert (record.cards, record.history_user.username, record.history_change_reason) == (
        *(8, "root", "the sale is over"),
    )
    page = text(root.get(address(Quota, "history", quota.pk)))
    assert "the sale is over" in page
    assert "<strong>Cards</strong>: 16 → 8" in page
    assert "root" in page


def test_a_form_that_changes_nothing_needs_no_reason_and_keeps_none(root: Client) -> None:
    quota = Quota.objects.get()
    before = quota.history.count()
    assert change(root, quota).status_code == 302
    assert change(root, quota, reason="for no change").status_code == 302
    assert quota.history.count() == before


def test_quotas_on_the_page_of_a_business_need_their_reason_too(world: World, root: Client) -> None:
    business, quota = world.business("ads"), Quota.objects.get()
    form: dict[str, object] = {"flag": "ads"}
    for prefix, rows in (("quotas", 1), ("defaultgputype_set", 0), ("member_set", 0)):
        form |= {f"{prefix}-TOTAL_FORMS": rows, f"{prefix}-INITIAL_FORMS": rows}
    form |= {
        "quotas-0-id": quota.pk,
        "quotas-0-business": business.pk,
        "quotas-0-gpu_type": quota.gpu_type_id,
    }
    assert (
        root.post(address(Business, "change", business.pk), form | {"quotas-0-cards": 4}).status_code == 200
    )
    form |= {"quotas-0-cards": 4, "quotas-0-reason": "smaller team"}
    assert root.post(address(Business, "change", business.pk), form).status_code == 302
    assert quota.history.first().history_change_reason == "smaller team"


def test_the_policy_shows_which_keys_changed(root: Client) -> None:
    Policy.objects.create(pk=1, values={"aging_s": 60.0})
    page = address(Policy, "change", 1)
    assert "reason" in root.post(page, {"aging_s": "90"}).context["adminform"].errors
    root.post(page, {"aging_s": "90", "elastic_order": "fifo", "reason": "as agreed on Monday"})
    shown = text(root.get(address(Policy, "history", 1)))
    assert "<strong>aging_s</strong>: 60.0 → 90.0" in shown
    assert "<strong>elastic_order</strong>: – → fifo" in shown
    assert "as agreed on Monday" in shown


def shown(root: Client, page: str) -> dict[str, Any]:
    """Return what the form of a page holds, as a browser would send it back."""
    form = root.get(page).context["adminform"].form
    return {name: "" if (value := form[name].value()) is None else value for name in form.fields}


def test_two_operators_on_one_page_undo_nothing_of_each_other(root: Client) -> None:
    Policy.objects.create(pk=1, values={})
    page = address(Policy, "change", 1)
    first = shown(root, page) | {"aging_s": "90", "reason": "as agreed on Monday"}
    second = shown(root, page) | {"min_run_s": "100", "reason": "as agreed on Tuesday"}
    assert root.post(page, first).status_code == 302
    assert "somebody else" in text(root.post(page, second))
    assert Policy.objects.get().values == {"aging_s": 90.0}
    assert root.post(page, first).status_code == 302  # a second click


def test_a_quota_that_was_changed_meanwhile_is_looked_at_again(root: Client) -> None:
    quota = Quota.objects.get()
    page = address(Quota, "change", quota.pk)
    late = shown(root, page) | {"cards": 8, "reason": "the sale is over"}
    change(root, quota, cards=32, reason="the sale begins")
    said = text(root.post(page, late, headers={"accept-language": "zh-hans"}))
    assert "刚刚被其他人改动" in said
    assert Quota.objects.get().cards == 32


def test_every_key_of_the_policy_has_a_name_and_says_what_it_means(root: Client) -> None:
    Policy.objects.create(pk=1)
    page = text(root.get(address(Policy, "change", 1), headers={"accept-language": "zh-hans"}))
    assert "母机失联判定（秒） · lost_after_s" in page
    assert "留空：90" in page
    assert "fifo: 先到先得" in page


def test_a_quota_is_deleted_with_a_reason_and_its_history_stays(root: Client) -> None:
    quota = Quota.objects.get()
    page = address(Quota, "delete", quota.pk)
    assert 'name="reason"' in text(root.get(page))
    assert "Say why" in text(root.post(page, {"post": "yes", "reason": " "}, follow=True))
    assert "at most 255" in text(root.post(page, {"post": "yes", "reason": "x" * 256}, follow=True))
    assert Quota.objects.exists()
    root.post(page, {"post": "yes", "reason": "the team is gone"})
    assert not Quota.objects.exists()
    assert "the team is gone" in text(root.get(address(Quota, "history", quota.pk)))


def test_many_quotas_are_not_deleted_at_once(root: Client) -> None:
    form = {"action": "delete_selected", "_selected_action": [Quota.objects.get().pk], "post": "yes"}
    root.post(address(Quota, "changelist"), form)
    assert Quota.objects.exists()


def test_no_earlier_row_is_turned_back_to(root: Client) -> None:
    quota = Quota.objects.get()
    change(root, quota, cards=8, reason="r")
    earlier = f"{address(Quota, 'history', quota.pk)}{quota.history.last().pk}/"
    assert root.post(earlier, {"cards": 16, "reason": "back"}).status_code == 404


def refused(root: Client, row: Any) -> str:
    """Try to delete a row, alone and as selected; return what is said, once it is still there."""
    alone = text(root.get(address(type(row), "delete", row.pk)))
    root.post(address(type(row), "delete", row.pk), {"post": "yes"})
    form = {"action": "delete_selected", "_selected_action": [row.pk]}
    selected = text(root.post(address(type(row), "changelist"), form))
    root.post(address(type(row), "changelist"), form | {"post": "yes"})
    assert type(row).objects.filter(pk=row.pk).exists()
    assert "protected related objects" in alone
    assert "protected related objects" in selected
    return alone


@pytest.mark.parametrize("state", [State.QUEUED, State.RUNNING, State.SUCCEEDED])
def test_what_tasks_need_is_refused_with_the_tasks_that_need_it(
    world: World, root: Client, state: str
) -> None:
    task = world.task(task_flag="ranking", state=state, region=world.region("SZ"))
    for row in (task.business, task.user, world.region("SZ")):
        said = refused(root, row)
        assert "Tasks (1)" in said
        assert f'<a href="{address(Task, "change", task.pk)}">{task.pk} ranking</a>' in said


def test_a_type_that_a_queued_task_would_take_is_refused_although_no_key_names_it(
    world: World, root: Client
) -> None:
    world.task(task_flag="patient", gpu_types=["M40", "V100"])
    assert "patient" in refused(root, world.gpu_type("V100"))
    Task.objects.update(state=State.SUCCEEDED)
    root.post(address(GpuType, "delete", world.gpu_type("V100").pk), {"post": "yes"})
    assert not GpuType.objects.filter(name="V100").exists()


def test_a_type_and_a_region_say_which_cards_hosts_and_quotas_need_them(world: World, root: Client) -> None:
    host = world.host("gpu-7", cards=12)
    said = refused(root, world.gpu_type("P40"))
    assert "Cards (12)" in said
    assert said.count(address(Card, "changelist")) == in_use.SHOWN + 1  # and the way back
    assert "Quotas (1)" in said
    assert f">{host}<" in refused(root, host.region)


def test_open_tasks_are_named_before_those_that_are_over(
    world: World, root: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(in_use, "SHOWN", 1)
    monkeypatch.setattr(in_use, "COUNTED", 2)
    world.task(task_flag="lives")
    for _ in range(3):
        world.task(task_flag="is-over", state="succeeded", ended_at="2030-01-01T00:00Z")
    said = refused(root, world.business("ads"))
    assert "lives" in said
    assert "is-over" not in said
    assert "Tasks (more than 2)" in said


def test_a_user_without_work_is_deleted_with_his_memberships(world: World, root: Client) -> None:
    user = world.user("bob", "ads")
    root.post(reverse("admin:auth_user_delete", args=[user.pk]), {"post": "yes"})
    assert not User.objects.filter(username="bob").exists()
    assert not Member.objects.filter(business__flag="ads").exists()


@pytest.mark.parametrize("name", ["P40-24G", "p40-24g"])
def test_a_renamed_type_keeps_quota_queue_and_history(world: World, root: Client, name: str) -> None:
    task = world.task()
    p40 = world.gpu_type("P40")
    root.post(address(GpuType, "change", p40.pk), {"name": name, "aliases": "[]"})
    assert str(Quota.objects.get().gpu_type) == name
    assert Task.objects.get().gpu_types == [p40.pk]
    shown = text(root.get(address(GpuType, "history", p40.pk)))
    assert f"P40 → {name}" in shown
    portal = Client()
    portal.force_login(task.user)
    assert name in text(portal.get(f"/businesses/{task.business_id}/"))


def test_a_name_that_hosts_may_report_their_cards_by_is_not_taken_from_a_type(
    world: World, root: Client
) -> None:
    world.host("h1")
    p40 = world.gpu_type()
    page = address(GpuType, "change", p40.pk)
    root.post(page, {"name": "P40-24G", "aliases": '["Tesla"]'})
    refused = text(root.post(page, {"name": "P40-24G", "aliases": '["Tesla"]'}))
    assert "Its earlier name has to stay: P40. Hosts with such cards may report them by it: h1." in refused
    root.post(page, {"name": "P40-24G", "aliases": '["P40"]'})  # what it never was called goes
    p40.refresh_from_db()
    assert p40.aliases == ["P40"]
    Card.objects.all().update(state=Card.State.MISSING)
    root.post(page, {"name": "P40-24G", "aliases": "[]"})
    p40.refresh_from_db()
    assert p40.aliases == []


def test_a_renamed_business_keeps_quota_queue_and_history(world: World, root: Client) -> None:
    task = world.task()
    form: dict[str, object] = {"flag": "advertising"}
    for prefix in ("quotas", "defaultgputype_set", "member_set"):
        form |= {f"{prefix}-TOTAL_FORMS": 0, f"{prefix}-INITIAL_FORMS": 0}
    root.post(address(Business, "change", task.business_id), form)
    task.refresh_from_db()
    assert (task.business.flag, task.state, task.business.quotas.get().cards) == ("advertising", "queued", 16)
    assert "ads → advertising" in text(root.get(address(Business, "history", task.business_id)))


def test_a_large_business_leaves_its_members_to_their_own_list(
    world: World, root: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("quotas.admin.MEMBERS_INLINE", 2)
    business = world.business("ads")
    page = address(Business, "change", business.pk)
    for number in range(3):
        assert "member_set-TOTAL_FORMS" in text(root.get(page))
        world.user(f"u{number}", "ads")
    world.user("other", "speech")
    shown = text(root.get(page))
    assert "member_set-TOTAL_FORMS" not in shown
    link = f"{address(Member, 'changelist')}?business__id__exact={business.pk}"
    assert link in shown
    assert len(root.get(link).context["cl"].result_list) == 3


def test_tasks_are_found_by_number_business_and_user(world: World, root: Client) -> None:
    mine, other = world.task(user="ann"), world.task("speech", "oz")
    for term, found in {
        str(mine.pk): [mine],
        "speech": [other],
        "ann": [mine],
        "an": [],
        "9" * 30: [],
    }.items():
        assert list(root.get(address(Task, "changelist"), {"q": term}).context["cl"].result_list) == found


def prioritise(root: Client, verb: str, *tasks: Task) -> str:
    form = {"action": verb, "_selected_action": [task.pk for task in tasks]}
    return text(root.post(address(Task, "changelist"), form, follow=True))


def test_a_raised_priority_of_a_waiting_task_is_followed_by_the_next_pass(world: World, root: Client) -> None:
    world.host("h1", cards=8)
    Host.objects.update(last_seen_at=timezone.now(), state="cordoned")
    ended = world.task(state="succeeded", priority=1)
    earlier, raised = world.task(cards=8, priority=1), world.task(cards=8, priority=1)
    passes.run()
    assert "Changed: 1. Left alone: 1" in prioritise(root, "set_high", ended, raised)
    Host.objects.update(state="ready")
    passes.run()
    states = dict(Task.objects.values_list("pk", "state"))
    assert (states[earlier.pk], states[raised.pk]) == (State.QUEUED, State.STARTING)
    assert raised.events.get(code="priority_high").actor == world.operator()
    raised.refresh_from_db()
    assert raised.config["priority"] == "high"


def test_only_operators_are_offered_priorities(world: World, root: Client) -> None:
    auditor = world.user("audrey")
    PlatformRole.objects.create(user=auditor, role=PlatformRole.Role.AUDITOR)
    browser, task = Client(), world.task(priority=1)
    browser.force_login(auditor)
    prioritise(browser, "set_high", task)
    assert Task.objects.get().priority == 1


def test_an_auditor_looks_at_everything_and_changes_nothing(world: World, root: Client) -> None:
    auditor = world.user("audrey")
    PlatformRole.objects.create(user=auditor, role=PlatformRole.Role.AUDITOR)
    browser = Client()
    browser.force_login(auditor)
    quota = Quota.objects.get()
    assert browser.get(address(Quota, "history", quota.pk)).status_code == 200
    assert browser.get(address(Quota, "export")).status_code == 200
    assert browser.get(address(Quota, "import")).status_code == 403
    assert change(browser, quota, cards=1, reason="r").status_code == 403
    assert browser.post(address(Quota, "delete", quota.pk), {"post": "yes", "reason": "r"}).status_code == 403
    assert Quota.objects.get().cards == 16


@pytest.mark.parametrize("model", [Quota, Business, Member, Reservation, GpuType, Region])
def test_lists_cost_the_same_for_any_number_of_rows(
    world: World, root: Client, model: Any, django_assert_max_num_queries: Any
) -> None:
    for number in range(12):
        world.user(f"u{number}", "ads")
        world.business(f"b{number}", P40=1, M40=2)
        ids = {"business": world.business("ads"), "gpu_type": world.gpu_type(f"T{number}")}
        Reservation.objects.create(**ids, cards=1, region=world.region(f"R{number}"))
    with django_assert_max_num_queries(12):
        assert root.get(address(model, "changelist")).status_code == 200


# What Django itself says in English where its Chinese is behind, and what stands for itself.
DJANGOS = {"API", "Add", "Change", "Model", "link", "list", "name", "or", "view", "Search", "True", "False"}
CODES = {"KILL", "ID", "root", *policy.KEYS, *itertools.chain(*policy.CHOICES.values())}


@pytest.mark.parametrize("model", [Quota, Business, Member, Reservation, GpuType, Region, Policy, Task])
def test_lists_forms_and_histories_say_no_word_of_english(world: World, root: Client, model: Any) -> None:
    root.post("/i18n/setlang/", {"language": "zh-hans"})
    task = world.task(user="ann", region=world.region())
    Policy.objects.create(pk=1)
    Reservation.objects.create(business=task.business, gpu_type=world.gpu_type(), cards=1)
    row = model.objects.first()
    pages = [root.get(address(model, "changelist"), follow=True)]
    pages += [root.get(address(model, page, row.pk)) for page in ("change", "history")]
    for page in pages:
        assert english(page, *DJANGOS, *CODES) == []


def test_the_admin_has_an_icon_that_is_there(world: World, root: Client) -> None:
    assert 'rel="icon"' in text(root.get(reverse("admin:index")))
    assert root.get("/favicon.ico")["Location"] == "/static/img/taiji.svg"
