"""Templates: saved from the form, seen by whom they are for, changed by those who made them."""

import pytest
from django.contrib.auth.models import User
from django.test import Client

from jobs.models import Task, Template
from tests.portal.conftest import Login
from tests.portal.submitting import GOOD
from tests.world import World

AS_NIGHT = {"do": "template", "save_name": "night", "save_for": "me", "save_says": "until dawn"}


def save(browser: Client, **fields: str) -> Template | None:
    """Save the good form as a template with `fields` over it; return it, None where it was refused."""
    answer = browser.post("/tasks/new/", GOOD | AS_NIGHT | fields)
    assert answer.status_code == 200
    return None if answer.context["refused"] else Template.objects.latest("pk")


def names(browser: Client) -> list[str]:
    """Return the names of the templates that are offered."""
    return [offer.name for offer in browser.get("/templates/").context["offers"]]


def test_the_form_is_saved_as_it_is_and_stays_as_it_is(ann: Client) -> None:
    answer = ann.post(
        "/tasks/new/", GOOD | {"do": "template", "save_name": "night", "save_for": "me", "env": "A=1"}
    )
    assert "The template “night” was saved." in answer.content.decode()
    assert answer.context["form"]["env"].value() == "A=1"
    template = Template.objects.get()
    assert template.config["env"] == {"A": "1"}
    assert template.config["start_cmd"] == "python train.py"
    assert not Task.objects.exists()
    form = ann.get(f"/tasks/new/?template={template.pk}").context["form"]
    assert form["host_gpu_num"].value() == "2"


def test_secrets_are_left_out_and_stay_typed(ann: Client) -> None:
    git = '{"path_info": {"group": "g", "project": "p", "private_token": "hush-git"}}'
    fields = {"do": "template", "save_name": "n", "save_for": "me", "secret_env": "KEY=hush-env"}
    answer = ann.post("/tasks/new/", GOOD | fields | {"model_params": git, "rest": '{"Token": "hush-token"}'})
    template = Template.objects.get()
    assert "hush" not in str(template.config)
    assert template.config["env"] == {"KEY": {"secret": True}}
    assert answer.context["form"]["secret_env"].value() == "KEY=hush-env"


def test_json_that_was_changed_and_not_taken_over_yet_is_what_is_saved(ann: Client) -> None:
    context = ann.post("/tasks/new/", GOOD | {"do": "check"}).context
    marks = {name: context[name] for name in ("json_was", "form_was")}
    template = save(ann, **marks, json=context["text"].replace("python train.py", "python other.py"))
    assert template is not None
    assert template.config["start_cmd"] == "python other.py"


def test_json_that_cannot_be_read_is_not_saved_and_stays_as_it_was_typed(ann: Client) -> None:
    context = ann.post("/tasks/new/", GOOD | {"do": "check"}).context
    marks = {name: context[name] for name in ("json_was", "form_was")}
    typed = marks | {"do": "template", "save_name": "night", "save_for": "me", "json": '{"half": '}
    answer = ann.post("/tasks/new/", GOOD | typed)
    assert "The template was not saved" in answer.content.decode()
    assert answer.context["text"] == '{"half": '
    assert answer.context["save_form"]["save_name"].value() == "night"
    assert not Template.objects.exists()


def test_a_secret_in_the_command_is_refused(ann: Client) -> None:
    assert save(ann, secret_env="KEY=hush-hush", start_cmd="curl -H hush-hush x") is None
    assert not Template.objects.exists()


def test_what_is_still_missing_is_for_each_user_to_fill_in(ann: Client) -> None:
    assert save(ann, start_cmd="")


@pytest.mark.parametrize(
    "fields", [{"save_name": " "}, {"save_for": "of:speech"}, {"save_for": ""}, {"host_num": "x"}]
)
def test_what_no_template_could_be_is_refused_and_nothing_typed_is_lost(
    fields: dict[str, str], ann: Client
) -> None:
    said = {"do": "template", "save_name": "night", "save_for": "me", "save_says": "kept words"}
    answer = ann.post("/tasks/new/", GOOD | said | fields)
    assert "The template was not saved" in answer.content.decode()
    assert "kept words" in answer.content.decode()
    assert not Template.objects.exists()


def test_a_template_of_mine_is_seen_by_nobody_else(
    ann: Client, colleague: Client, outsider: Client, operator: Client
) -> None:
    template = save(ann)
    assert template is not None
    assert names(ann) == ["night"]
    for other in (colleague, outsider, operator):
        assert names(other) == []
        page = other.get(f"/tasks/new/?template={template.pk}").content.decode()
        assert "python train.py" not in page
        assert other.get("/").content.decode().count("night") == 0


def test_a_template_of_the_business_is_seen_by_its_members_alone(
    ann: Client, colleague: Client, outsider: Client
) -> None:
    assert save(ann, save_for="of:ads")
    assert (names(ann), names(colleague), names(outsider)) == (["night"], ["night"], [])


def test_a_member_cannot_offer_one_to_everybody_and_an_operator_can(ann: Client, operator: Client) -> None:
    assert save(ann, save_for="all") is None
    assert save(operator, save_for="all")
    assert names(ann) == ["night"]


def test_saving_another_under_a_name_that_is_there_overwrites_nothing(ann: Client, colleague: Client) -> None:
    first = save(ann)
    assert first is not None
    refused = ann.post("/tasks/new/", GOOD | AS_NIGHT | {"start_cmd": "another"})
    assert Template.objects.get().config["start_cmd"] == "python train.py"
    assert "There is a template of this name: choose another name" in refused.content.decode()
    assert refused.context["form"]["start_cmd"].value() == "another"
    assert save(ann, save_for="of:ads"), "for other people it is another one"
    assert save(colleague, save_for="of:ads") is None, "and theirs has one of this name then"
    assert save(colleague), "what is for somebody else alone takes no name away"
    day = save(ann, save_name="day")
    assert day is not None
    assert save(ann, do="template-over", template=str(day.pk)) is None, "nor may a change take it"
    assert save(ann, do="template-over", template=str(first.pk), save_says="till noon")
    ann.post("/i18n/setlang/", {"language": "zh-hans"})
    assert "已有同名模板" in ann.post("/tasks/new/", GOOD | AS_NIGHT).content.decode()


def test_an_opened_template_is_changed_with_its_name_and_readers(ann: Client, colleague: Client) -> None:
    template = save(ann)
    assert template is not None
    page = ann.get(f"/tasks/new/?template={template.pk}").content.decode()
    assert "Change “night”" in page
    fields = {
        "do": "template-over",
        "template": str(template.pk),
        "save_name": "day",
        "save_for": "of:ads",
    }
    save(ann, **fields)
    assert Template.objects.get().name == "day"
    assert names(colleague) == ["day"]


@pytest.mark.parametrize("role", ["member", "lead"])
def test_only_its_maker_and_leads_change_and_remove_one_of_the_business(
    role: str, world: World, ann: Client, login: Login
) -> None:
    template = save(ann, save_for="of:ads")
    assert template is not None
    other = login(world.user("lea", "ads"))
    world.user("lea").member_set.update(role=role)
    page = other.get(f"/tasks/new/?template={template.pk}").content.decode()
    assert ("Change “night”" in page) == (role == "lead")
    over = {
        "do": "template-over",
        "template": str(template.pk),
        "save_name": "x",
        "save_for": "of:ads",
    }
    assert other.post("/tasks/new/", GOOD | over).status_code == (200 if role == "lead" else 404)
    assert other.post(f"/templates/{template.pk}/remove/").status_code == (302 if role == "lead" else 404)
    assert Template.objects.exists() == (role == "member")


def test_one_of_others_can_neither_be_removed_nor_changed(
    world: World, ann: Client, outsider: Client, operator: Client
) -> None:
    template = save(ann)
    assert template is not None
    for other in (outsider, operator):
        assert other.post(f"/templates/{template.pk}/remove/").status_code == 404
    assert outsider.get(f"/templates/{template.pk}/remove/").status_code == 405
    shared = Template.objects.create(name="for all", config={})
    assert ann.post(f"/templates/{shared.pk}/remove/").status_code == 404
    assert operator.post(f"/templates/{shared.pk}/remove/").status_code == 302


def test_what_was_for_one_person_goes_with_him(world: World, ann: Client) -> None:
    save(ann)
    User.objects.get(username="ann").delete()
    assert not Template.objects.exists()


def test_what_was_for_a_business_outlives_its_maker_and_a_lead_may_change_it(
    world: World, ann: Client, colleague: Client, outsider: Client, login: Login
) -> None:
    save(ann, save_for="of:ads")
    User.objects.get(username="ann").delete()
    assert names(colleague) == ["night"]
    assert names(outsider) == []
    lead = login(world.user("lea", "ads", role="lead"))
    [offer] = lead.get("/templates/").context["offers"]
    assert offer.changeable


def test_where_no_template_is_the_list_says_so(ann: Client) -> None:
    assert "There are no templates." in ann.get("/templates/").content.decode()
