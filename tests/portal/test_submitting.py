"""The submit form: what it begins with, what becomes of what is typed, what stays when it is refused."""

from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from pytest_django import DjangoAssertNumQueries, Settings

from cluster import vault
from jobs.fields import FIELDS
from jobs.models import Task, Template
from jobs.portal.entries import FLAGS, typed
from jobs.portal.forms import ConfigForm
from tests.portal.conftest import run
from tests.world import World

GOOD = {
    "business_flag": "ads",
    "task_flag": "demo",
    "is_elasticity": "false",
    "GPUName": "P40",
    "host_num": "1",
    "host_gpu_num": "2",
    "start_cmd": "python train.py",
}


def submitted(browser: Client, **fields: str) -> Task:
    """Submit the good form with `fields` over it, and return the task it became."""
    answer = browser.post("/tasks/new/", GOOD | fields)
    assert answer.status_code == 302, answer.context["form"].errors
    task = Task.objects.latest("pk")
    assert answer["Location"] == f"/tasks/{task.pk}/"
    return task


def refused(browser: Client, **fields: str) -> ConfigForm:
    """Submit the good form with `fields` over it, and return the form that comes back."""
    answer = browser.post("/tasks/new/", GOOD | fields)
    assert answer.status_code == 200
    form = answer.context["form"]
    assert isinstance(form, ConfigForm)
    assert form.errors or form.general
    return form


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


def test_the_template_of_another_business_fills_nothing(world: World, ann: Client) -> None:
    template = Template.objects.create(
        name="t", business=world.business("speech"), config={"start_cmd": "their-command"}
    )
    assert "their-command" not in ann.get(f"/tasks/new/?template={template.pk}").content.decode()


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


def test_asking_says_what_is_wrong_and_makes_nothing(ann: Client) -> None:
    answer = ann.post("/tasks/new/preview/", GOOD | {"host_num": "x"}, headers={"HX-Request": "true"})
    assert "Would be refused" in answer.content.decode()
    assert "Hosts" in answer.content.decode()
    assert not Task.objects.exists()


def test_asking_for_more_than_there_ever_is_says_never(ann: Client) -> None:
    answer = ann.post("/tasks/new/preview/", GOOD | {"host_gpu_num": "9"}, headers={"HX-Request": "true"})
    assert "Never starts" in answer.content.decode()


def test_asking_says_that_it_starts_and_makes_nothing(ann: Client) -> None:
    answer = ann.post("/tasks/new/preview/", GOOD, headers={"HX-Request": "true"})
    assert "Starts now" in answer.content.decode()
    assert not Task.objects.exists()


def test_asking_says_when_it_would_start(world: World, ann: Client) -> None:
    run(world.task(cards=8, time_limit_s=3600), world.host("h1"))
    answer = ann.post("/tasks/new/preview/", GOOD, headers={"HX-Request": "true"})
    said = " ".join(answer.content.decode().split())
    assert "Queues at 1 of 1" in said
    assert "Estimated start: <time" in said
    assert "if tasks before it run until their time limits (1 of them)" in said


def test_what_is_missing_is_no_fault_yet_and_the_cards_are_looked_for_all_the_same(ann: Client) -> None:
    answer = ann.post("/tasks/new/preview/", GOOD | {"start_cmd": ""})
    said = answer.content.decode()
    assert "Starts now" in said
    assert "Still to fill in:" in said
    assert 'href="#id_start_cmd"' in said


def test_a_start_says_where(ann: Client) -> None:
    said = " ".join(ann.post("/tasks/new/preview/", GOOD).content.decode().split())
    assert "P40</span> · SZ · as a high task" in said
    assert "h1: 2 cards" in said


def test_a_start_after_evicting_says_whose_and_what_is_lost(world: World, ann: Client) -> None:
    run(world.task("speech", "oz", cards=8, wanted_class="elastic", pull_up=True), world.host("h1"))
    said = " ".join(ann.post("/tasks/new/preview/", GOOD).content.decode().split())
    assert "Starts after evicting 1 task" in said
    assert "· speech" in said
    assert "· oz" not in said  # whose it is, the members of its business know
    assert "8 cards · loses 0.7 card-hours · comes back by itself" in said
    assert "In all 0.7 card-hours" in said


def test_what_else_would_start_is_offered_as_a_change_of_the_form(world: World, ann: Client) -> None:
    run(world.task(cards=8), world.host("h1"))
    world.host("m1", gpu_type="M40")
    world.business("ads", M40=8)
    page = ann.post("/tasks/new/preview/?alternatives", GOOD).content.decode()
    assert "This would start:" in page
    use = '{"GPUName": "M40"}'
    assert use.replace('"', "&quot;") in page
    fields = ann.post("/tasks/new/fill/", GOOD | {"use": use}).content.decode()
    assert 'value="M40"' in fields
    assert "Starts now" in fields
    whole = ann.post("/tasks/new/", GOOD | {"use": use})  # the same without scripts
    assert whole.context["form"]["GPUName"].value() == "M40"
    assert whole.context["form"]["start_cmd"].value() == "python train.py"
    assert not Task.objects.filter(task_flag="demo").exists()


@pytest.mark.parametrize("use", ["", "nonsense", "[1]", "[" * 100_000])
def test_a_change_that_is_none_changes_nothing(use: str, ann: Client) -> None:
    form = ann.post("/tasks/new/", GOOD | {"use": use}).context["form"]
    assert form["GPUName"].value() == "P40"


def test_without_scripts_check_says_what_would_become_of_it(ann: Client) -> None:
    page = ann.post("/tasks/new/", GOOD | {"do": "check"})
    assert "Starts now" in page.content.decode()
    assert page.context["form"]["task_flag"].value() == "demo"
    assert not Task.objects.exists()


def test_the_secret_of_a_copy_of_another_is_asked_for_before_it_is_submitted(
    ann: Client, colleague: Client
) -> None:
    first = submitted(ann, secret_env="API_KEY=hush-hush")
    copied = GOOD | {"clone": str(first.pk), "secret_env": "API_KEY"}
    assert "Starts now" in ann.post("/tasks/new/preview/", copied).content.decode()
    assert "Give the value of this secret" in colleague.post("/tasks/new/preview/", copied).content.decode()


# --- the JSON beside the form


def begun(browser: Client) -> dict[str, str]:
    """Return what the browser would send of a form that was just checked: its fields, its JSON, their marks."""
    context = browser.post("/tasks/new/", GOOD | {"do": "check"}).context
    return GOOD | {name: context[name] for name in ("json_was", "form_was")} | {"json": context["text"]}


SEED = """{
# 基础配置
"Token":"", # token
"business_flag": "ads",
"host_num": 1, # 几台GPU机器
"host_gpu_num": 2 ,
"GPUName": 'P40',
"is_elasticity": true,
"start_cmd": "python seed.py",
"model_params": {"model_source": "git", "path_info": {"group": "", "project": "",}},
}
"""


@pytest.mark.parametrize(
    "text",
    [SEED, SEED.replace("\n", "\r\n"), "business_flag: ads\nstart_cmd: python seed.py\nis_elasticity: true"],
    ids=["the commented sample", "with CRLF", "YAML"],
)
def test_the_form_is_filled_from_what_is_pasted(text: str, ann: Client) -> None:
    fields = ann.post("/tasks/new/fill/", GOOD | {"json": text})
    assert "python seed.py" in fields.content.decode()
    assert "HX-Reswap" not in fields
    form = ann.post("/tasks/new/", GOOD | {"json": text, "do": "read"}).context["form"]
    assert form["start_cmd"].value() == "python seed.py"
    assert form["is_elasticity"].value() == "true"
    assert form["model_params"].value() is None  # nothing is filled in there


def test_a_file_fills_the_form_without_scripts(ann: Client) -> None:
    file = SimpleUploadedFile("config.json", b"\xef\xbb\xbf" + SEED.encode())
    form = ann.post("/tasks/new/", GOOD | {"do": "read", "file": file}).context["form"]
    assert form["start_cmd"].value() == "python seed.py"


def test_a_file_that_is_no_text_is_refused_and_nothing_typed_is_lost(ann: Client) -> None:
    file = SimpleUploadedFile("model.bin", b"\xff\xfe\x00")
    page = ann.post("/tasks/new/", GOOD | {"do": "read", "file": file})
    assert "model.bin is no text" in page.content.decode()
    assert page.context["form"]["task_flag"].value() == "demo"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"a": 1', "Line 1 cannot be read"),
        ("[1]", "A config is an object"),
        ("", "A config is an object"),
        ('{"a":' * 40 + "1" + "}" * 40, "nested too deeply"),
        ("x" * 300_000, "longer than 256 KiB"),
    ],
)
def test_a_text_that_is_no_document_fills_nothing_and_says_why(text: str, said: str, ann: Client) -> None:
    answer = ann.post("/tasks/new/fill/", GOOD | {"json": text})
    assert answer["HX-Reswap"] == "none"
    assert said in answer.content.decode()
    page = ann.post("/tasks/new/", GOOD | {"json": text, "do": "read"})
    assert said in page.content.decode()
    assert page.context["form"]["task_flag"].value() == "demo"


def test_faults_of_the_text_stand_beside_it_and_in_the_form(ann: Client) -> None:
    text = '{"business_flag": "ads", "start_cmd": "x", "host_num": "two", "hostgpu": 1, "env": {"1A": "x"}}'
    page = ann.post("/tasks/new/fill/", GOOD | {"json": text}).content.decode()
    for name in ("host_num", "hostgpu", "env.1A"):
        assert f"<code>{name}</code>" in page
    assert 'value="two"' in page
    assert 'data-field="host_num"' in page


def test_secrets_show_as_marks_in_the_json_and_survive_it(ann: Client) -> None:
    page = ann.post("/tasks/new/", GOOD | {"do": "check", "secret_env": "KEY=hush-hush"})
    text = page.context["text"]
    assert "hush" not in text
    changed = {**GOOD, "secret_env": "KEY=hush-hush", "json": text.replace("train.py", "other.py")}
    form = ann.post("/tasks/new/", changed | {"do": "read"}).context["form"]
    assert form["start_cmd"].value() == "python other.py"
    assert form["secret_env"].value() == "KEY=hush-hush"


def test_a_changed_text_is_what_is_submitted(ann: Client) -> None:
    sent = begun(ann)
    sent["json"] = sent["json"].replace("train.py", "other.py")
    assert ann.post("/tasks/new/", sent).status_code == 302
    assert Task.objects.get().config["start_cmd"] == "python other.py"


def test_a_changed_form_is_what_is_submitted_with_the_text_as_it_was(ann: Client) -> None:
    assert ann.post("/tasks/new/", begun(ann) | {"start_cmd": "python form.py"}).status_code == 302
    assert Task.objects.get().config["start_cmd"] == "python form.py"


def test_where_both_were_changed_nothing_is_submitted_or_lost(ann: Client) -> None:
    sent = begun(ann)
    sent |= {"json": sent["json"].replace("train.py", "other.py"), "start_cmd": "python form.py"}
    page = ann.post("/tasks/new/", sent)
    assert "The form and its JSON were both changed" in page.content.decode()
    assert page.context["form"]["start_cmd"].value() == "python form.py"
    assert "other.py" in page.context["text"]
    assert not Task.objects.exists()
    again = sent | {name: page.context[name] for name in ("json_was", "form_was")}
    assert ann.post("/tasks/new/", again).status_code == 200  # it does not go away by being sent again
    assert ann.post("/tasks/new/", again | {"json": ""}).status_code == 302


def test_a_text_that_cannot_be_read_keeps_the_task_from_being_submitted(ann: Client) -> None:
    page = ann.post("/tasks/new/", begun(ann) | {"json": "{broken"})
    assert page.context["text"] == "{broken"
    assert "cannot be taken as it is" in page.content.decode()
    assert not Task.objects.exists()


def test_a_half_character_in_the_text_does_not_break_the_page(ann: Client) -> None:
    text = '{"business_flag": "ads", "start_cmd": "\\ud800", "task_flag": "\\ud800", "\\udfff": 1}'
    for address in ("/tasks/new/fill/", "/tasks/new/"):
        answer = ann.post(address, GOOD | {"json": text, "do": "read"})
        assert answer.status_code == 200
        assert "U+D800" in answer.content.decode()


# --- what the form begins with


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


def test_the_form_takes_a_fixed_number_of_queries(
    ann: Client, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    with django_assert_num_queries(11):
        ann.get("/tasks/new/")
