"""The submit form: what becomes of what is typed, what stays when it is refused."""

from typing import Any

import pytest
from django.test import Client
from pytest_django import DjangoAssertNumQueries, Settings

from cluster import vault
from jobs.fields import FIELDS
from jobs.models import Task
from jobs.portal.entries import FLAGS, typed
from jobs.portal.forms import ConfigForm
from tests.portal.submitting import GOOD, refused, submitted
from tests.world import World


def test_what_is_typed_becomes_a_task(ann: Client) -> None:
    task = submitted(
        ann,
        is_elasticity="true",
        exit_cmd="touch saved",
        enable_evicted_pulled_up="on",
        priority="high",
        time_limit="2h",
        retry_limit="3",
        env="EPOCHS=3\n\nPATHS=a=b",
        region="SZ",
        rest='{"tags": ["night"]}',
    )
    assert (task.task_flag, task.wanted_class, task.host_gpu_num, task.priority) == ("demo", "elastic", 2, 2)
    assert (task.pull_up, task.keep_alive, task.time_limit_s, task.retry_limit) == (True, False, 7200, 3)
    assert task.config["env"] == {"EPOCHS": "3", "PATHS": "a=b"}
    assert task.config["tags"] == ["night"]


@pytest.mark.parametrize(("value", "wanted"), [("false", "high"), ("true", "elastic"), ("auto", "auto")])
def test_each_class_can_be_chosen(value: str, wanted: str, ann: Client) -> None:
    assert submitted(ann, is_elasticity=value).wanted_class == wanted


def test_a_local_time_is_understood_in_the_zone_of_the_pages(ann: Client, settings: Any) -> None:
    settings.TIME_ZONE = "Asia/Shanghai"
    task = submitted(ann, not_before="2031-01-31T20:00")
    assert task.ready_at is not None
    assert task.ready_at.isoformat() == "2031-01-31T12:00:00+00:00"
    assert typed(task.config)["not_before"] == "2031-01-31T20:00"


def test_every_fault_stands_beside_its_field_and_nothing_is_lost(ann: Client) -> None:
    form = refused(
        ann,
        host_num="many",
        GPUName="H800",
        start_cmd=" ",
        env="1BAD=x",
        exit_cmd="kept as typed",
        rest="{no json",
    )
    assert set(form.errors) == {"host_num", "GPUName", "start_cmd", "env", "rest"}
    assert "P40" in form.errors["GPUName"][0]
    page = ann.post("/tasks/new/", GOOD | {"host_num": "many", "exit_cmd": "kept as typed"}).content.decode()
    assert 'value="many"' in page
    assert "kept as typed" in page
    assert 'aria-invalid="true"' in page
    assert not Task.objects.exists()


def test_the_group_of_a_fault_stands_open(ann: Client) -> None:
    page = ann.post("/tasks/new/", GOOD | {"retry_limit": "-1"}).content.decode()
    assert '<details class="card mb-3" id="optional" open>' in " ".join(page.split())


def test_more_than_the_quota_is_refused(ann: Client) -> None:
    form = refused(ann, host_num="3", host_gpu_num="8")
    assert not set(form.errors) - {"host_num", "host_gpu_num"}


def test_a_business_of_others_is_refused_and_still_shown_as_typed(world: World, ann: Client) -> None:
    world.business("speech")
    form = refused(ann, business_flag="speech")
    assert "business_flag" in form.errors
    assert form["business_flag"].value() == "speech"


def test_a_fault_of_a_further_field_stands_at_them(ann: Client) -> None:
    form = refused(ann, rest='{"tagss": 1}')
    assert "tagss" in form.errors["rest"][0]


@pytest.mark.parametrize("rest", ["[1]", "nonsense", '"text"', "[" * 100_000, '{"a":' * 10_000])
def test_further_fields_have_to_be_an_object(rest: str, ann: Client) -> None:
    assert "rest" in refused(ann, rest=rest).errors


@pytest.mark.parametrize("name", sorted(ConfigForm.base_fields.keys() - set(FLAGS)))
@pytest.mark.parametrize("address", ["/tasks/new/", "/tasks/new/preview/"])
def test_a_character_that_nothing_may_hold_is_refused_in_every_field(
    address: str, name: str, ann: Client
) -> None:
    answer = ann.post(address, GOOD | {name: "A\0=1"})
    assert answer.status_code == 200
    assert not Task.objects.exists()
    if address == "/tasks/new/":
        assert set(answer.context["form"].errors) == {name}


def test_lines_that_a_browser_ends_with_crlf_reach_the_shell_without_the_cr(ann: Client) -> None:
    task = submitted(ann, start_cmd="cd /tmp\r\npwd\r\n", exit_cmd="echo a\r\necho b", env="A=1\r\nB=2\r\n")
    assert (task.config["start_cmd"], task.config["exit_cmd"]) == ("cd /tmp\npwd\n", "echo a\necho b")
    assert task.config["env"] == {"A": "1", "B": "2"}


def test_every_faulty_line_of_the_environments_is_named(ann: Client) -> None:
    form = refused(ann, env="1A=x\n2B=x", secret_env="3C=x\n4D=x", rest='{"tagss": 1, "notags": 1}')
    assert [len(form.errors[name]) for name in ("env", "secret_env", "rest")] == [2, 2, 2]


def test_a_class_that_does_not_exist_is_refused_and_never_becomes_another(ann: Client) -> None:
    assert "is_elasticity" in refused(ann, is_elasticity="golden").errors


def test_a_line_of_the_environment_without_a_value_is_named(ann: Client) -> None:
    assert "2" in refused(ann, env="A=1\nB").errors["env"][0]


def test_a_secret_is_stored_sealed_and_never_comes_back(ann: Client) -> None:
    task = submitted(ann, secret_env="API_KEY=hush-hush")
    assert vault.unseal(task.secrets) == {"env.API_KEY": "hush-hush"}
    for address in (f"/tasks/{task.pk}/", f"/tasks/new/?clone={task.pk}"):
        page = ann.get(address).content.decode()
        assert "API_KEY" in page
        assert "hush-hush" not in page


def test_a_copy_takes_secrets_over_unseen_and_names_its_origin(ann: Client) -> None:
    first = submitted(ann, secret_env="API_KEY=hush-hush", env="EPOCHS=3")
    form = ann.get(f"/tasks/new/?clone={first.pk}").context["form"]
    assert form["secret_env"].value() == "API_KEY"
    copy = submitted(ann, clone=str(first.pk), secret_env="API_KEY", env="EPOCHS=4")
    assert copy.origin == first
    assert vault.unseal(copy.secrets) == {"env.API_KEY": "hush-hush"}
    assert copy.config["env"]["EPOCHS"] == "4"


def test_the_secrets_of_another_are_not_taken_over(ann: Client, colleague: Client) -> None:
    first = submitted(ann, secret_env="API_KEY=hush-hush")
    form = refused(colleague, clone=str(first.pk), secret_env="API_KEY")
    assert "secret_env" in form.errors


def test_a_copy_begins_with_all_that_the_first_had(ann: Client) -> None:
    wished = {
        "is_elasticity": "auto",
        "keep_alive": "on",
        "time_limit": "60",
        "env": "A=1",
        "rest": '{"env": {"LONG": "two\\nlines"}, "tags": ["x"]}',
        "not_before": "2031-01-31T20:00",
    }
    first = submitted(ann, **wished)
    form = ConfigForm(typed(first.config), businesses=["ads"], regions=[])
    again = form.document()
    assert not form.errors
    for name in ("keep_alive", "time_limit", "env", "tags", "is_elasticity", "start_cmd"):
        assert again[name] == first.config[name]


def test_a_second_click_makes_no_second_task(ann: Client) -> None:
    key = ann.get("/tasks/new/").context["key"]
    assert submitted(ann, key=key) == submitted(ann, key=key)
    assert Task.objects.count() == 1


def test_going_back_and_changing_something_makes_another_task(ann: Client) -> None:
    key = ann.get("/tasks/new/").context["key"]
    first = submitted(ann, key=key)
    changed = submitted(ann, key=key, start_cmd="another")
    assert changed != first
    assert submitted(ann, key=key, start_cmd="another") == changed


def test_the_mark_against_second_clicks_outlives_a_fault(ann: Client) -> None:
    key = ann.get("/tasks/new/").context["key"]
    answer = ann.post("/tasks/new/", GOOD | {"key": key, "start_cmd": ""})
    assert answer.context["key"] == key


@pytest.mark.parametrize("key", ["", "x", "\0" * 32, "é" * 32])
def test_a_mark_that_is_none_is_ignored(key: str, ann: Client) -> None:
    assert submitted(ann, key=key).idempotency_key is None


def test_every_field_of_the_config_is_on_the_form_or_named_as_not_run_yet(ann: Client) -> None:
    page = ann.get("/tasks/new/").content.decode()
    elsewhere = {"Token", "tags"}  # the session stands for the token; tags are among the further fields
    for name, field in FIELDS.items():
        if name not in elsewhere:
            assert (f'name="{name}"' in page) != bool(field.refused), name
            assert (f'id="not_yet_{name}"' in page) == bool(field.refused), name


GIT = '{"path_info": {"group": "vision", "project": "resnet", "private_token": "s3cr3t-token"}}'


def test_code_from_git_needs_no_command_and_a_copy_keeps_its_token_unseen(
    ann: Client, settings: Settings
) -> None:
    settings.GIT_PREFIXES = ["https://git.example.com/"]
    task = submitted(ann, start_cmd="", model_params=GIT)
    assert task.code is not None
    assert task.code.params["url"] == "https://git.example.com/vision/resnet.git"
    page = ann.get(f"/tasks/new/?clone={task.pk}")
    assert "s3cr3t-token" not in page.content.decode()
    again = page.context["form"]["model_params"].value()
    copied = {**GOOD, "start_cmd": "", "model_params": again, "clone": str(task.pk)}
    asked = ann.post("/tasks/new/preview/", copied, headers={"HX-Request": "true"})
    assert "Starts now" in asked.content.decode()
    ann.post("/tasks/new/", copied)
    assert Task.objects.latest("pk").code == task.code


def test_a_fault_of_git_stands_beside_its_field(ann: Client, settings: Settings) -> None:
    settings.GIT_PREFIXES = []
    form = ann.post("/tasks/new/", GOOD | {"model_params": GIT}).context["form"]
    assert "path_info.host: Operators allow code from these git hosts" in form.errors["model_params"][0]
    form = ann.post("/tasks/new/", GOOD | {"dataset_params": "{"}).context["form"]
    assert "This is not JSON" in form.errors["dataset_params"][0]


def test_the_form_takes_a_fixed_number_of_queries(
    ann: Client, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    with django_assert_num_queries(11):
        ann.get("/tasks/new/")
