"""The JSON beside the form: pasted, from a file, changed by hand, and what of both is submitted."""

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client

from jobs.models import Task
from tests.portal.submitting import GOOD


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
