"""What the submit form begins with: the last task, a template, a copy, a link."""

import pytest
from django.test import Client
from pytest_django import Settings

from jobs.models import Task, Template
from quotas.models import PlatformRole
from tests.portal.conftest import Login
from tests.portal.submitting import GOOD, submitted
from tests.world import World


@pytest.mark.parametrize("given", ["x", "999999", "-1", "9" * 40])
def test_a_copy_of_nothing_is_not_found(given: str, ann: Client) -> None:
    assert ann.get(f"/tasks/new/?clone={given}").status_code == 404


def test_a_template_fills_the_form(ann: Client) -> None:
    template = Template.objects.create(
        name="t", config={"business_flag": "ads", "start_cmd": "run me", "is_elasticity": True}
    )
    form = ann.get(f"/tasks/new/?template={template.pk}").context["form"]
    assert form["start_cmd"].value() == "run me"
    assert form["is_elasticity"].value() == "true"


def offered(browser: Client, query: str) -> list[str]:
    """Return the businesses that a form offers, blank: none; the first is what a browser shows chosen."""
    answer = browser.get(f"/tasks/new/{query}")
    assert "speech" not in answer.content.decode()
    return [value for value, _label in answer.context["form"].fields["business_flag"].widget.choices]


def test_a_template_that_names_another_business_fills_the_rest_and_leaves_that_to_be_chosen(
    world: World, ann: Client
) -> None:
    world.business("speech")
    config = {"business_flag": "speech", "start_cmd": "run me"}
    query = f"?template={Template.objects.create(name='t', config=config).pk}"
    assert offered(ann, query) == ["", "ads"]
    assert origins(ann, query)["business_flag"] == "The template's business is not yours; choose one."
    assert ann.get(f"/tasks/new/{query}").context["form"]["start_cmd"].value() == "run me"
    ann.post("/i18n/setlang/", {"language": "zh-hans"})
    assert origins(ann, query)["business_flag"] == "该模板的业务不属于您，请选择一个业务。"


def test_a_template_that_names_no_business_begins_with_the_users_own(world: World, ann: Client) -> None:
    query = f"?template={Template.objects.create(name='t', config={'start_cmd': 'run me'}).pk}"
    assert offered(ann, query) == ["ads"]
    assert origins(ann, query)["business_flag"] == "Your only business."


def test_the_copy_of_a_task_of_a_business_that_was_left_asks_for_another(world: World, login: Login) -> None:
    left = world.task("speech", "ann", task_flag="old")
    Task.objects.update(config={"business_flag": "speech", "start_cmd": "run me"})
    world.business("speech").members.clear()
    PlatformRole.objects.create(user=world.user("ann", "ads"), role="auditor")  # who still sees it
    browser, query = login(world.user("ann")), f"?clone={left.pk}"
    assert offered(browser, query) == ["", "ads"]
    assert origins(browser, query)["business_flag"] == "The task's business is not yours; choose one."


def test_a_document_that_names_another_business_is_refused_and_its_name_is_no_choice(
    world: World, ann: Client
) -> None:
    world.business("speech")
    typed = '{"business_flag": "speech", "start_cmd": "run me"}'
    form = ann.post("/tasks/new/fill/", GOOD | {"json": typed}).context["form"]
    choices = [value for value, _label in form.fields["business_flag"].widget.choices]
    assert choices == ["", "ads"], "none of his own stands there unchosen"
    assert form.errors["business_flag"] == ["You belong to no business of this name; yours: ads."]


def test_the_template_of_another_business_fills_nothing(world: World, ann: Client) -> None:
    template = Template.objects.create(
        name="t", business=world.business("speech"), config={"start_cmd": "their-command"}
    )
    assert "their-command" not in ann.get(f"/tasks/new/?template={template.pk}").content.decode()


def origins(browser: Client, query: str = "") -> dict[str, str]:
    """Return what stands beside each field about where its value comes from."""
    form = browser.get(f"/tasks/new/{query}").context["form"]
    return {name: str(field.origin) for name, field in form.fields.items() if field.origin}


def test_a_first_form_says_where_its_values_come_from(ann: Client) -> None:
    found = origins(ann)
    assert found["business_flag"] == "Your only business."
    assert found["host_num"] == found["host_gpu_num"] == found["is_elasticity"] == "Default of the platform."
    assert "Blank: P40, the default types of the business." in " ".join(
        ann.get("/tasks/new/").content.decode().split()
    )


def test_a_next_form_begins_as_the_last_task_was(world: World, ann: Client) -> None:
    world.user("ann", "speech")
    last = submitted(ann, is_elasticity="true", image_full_name="")
    form = ann.get("/tasks/new/").context["form"]
    assert (form["business_flag"].value(), form["is_elasticity"].value()) == ("ads", "true")
    assert origins(ann)["business_flag"] == f"As in your last task, #{last.pk}."


def test_nothing_of_a_last_task_is_taken_from_a_business_that_was_left(world: World, ann: Client) -> None:
    submitted(ann, is_elasticity="true")
    world.business("ads").members.clear()
    world.user("ann", "speech")
    form = ann.get("/tasks/new/").context["form"]
    assert (form["business_flag"].value(), form["is_elasticity"].value()) == ("speech", "false")


def test_each_source_goes_before_the_one_under_it(ann: Client) -> None:
    submitted(ann)
    template = Template.objects.create(name="Night", config={"GPUName": "M40", "start_cmd": "x"})
    found = origins(ann, f"?template={template.pk}&gpu_type=P40&region=SZ")
    assert found["start_cmd"] == "From the template “Night”."
    assert found["GPUName"] == found["region"] == "From the free cards that you clicked."
    copied = origins(ann, f"?clone={Task.objects.get().pk}")
    assert copied["start_cmd"] == f"From task #{Task.objects.get().pk}."


def test_a_link_may_name_the_class_and_the_size_too(ann: Client) -> None:
    form = ann.get("/tasks/new/?gpu_type=P40&is_elasticity=false&host_num=2&host_gpu_num=4").context["form"]
    values = [form[name].value() for name in ("GPUName", "is_elasticity", "host_num", "host_gpu_num")]
    assert values == ["P40", "false", "2", "4"]
    form = ann.get("/tasks/new/?is_elasticity=x&host_num=-1&host_gpu_num=%C2%B2").context["form"]
    assert [form[name].value() for name in ("is_elasticity", "host_num", "host_gpu_num")] == [
        "false",
        "1",
        "1",
    ]


def test_what_was_sent_says_nothing_of_where_it_began(ann: Client) -> None:
    assert "Default of the platform" not in ann.post("/tasks/new/", GOOD | {"host_num": "x"}).content.decode()


def test_the_image_that_operators_chose_is_named(ann: Client, settings: Settings) -> None:
    settings.DEFAULT_IMAGE = "registry.example.com/base:1"
    assert "Blank: registry.example.com/base:1" in ann.get("/tasks/new/").content.decode()


def test_the_types_of_a_business_of_others_are_not_told(world: World, ann: Client) -> None:
    world.business("speech", A100=8)
    page = ann.post("/tasks/new/preview/", GOOD | {"business_flag": "speech"}).content.decode()
    assert "A100, the default types" not in page
