"""Secrets that a document also writes in clear."""

import pytest
from django.utils import translation

from jobs import document


def test_a_secret_in_a_plain_field_is_refused_without_being_quoted() -> None:
    written = {
        "start_cmd": "login s3cr3t!",
        "env": {"P": {"value": "s3cr3t!", "secret": True}, "Q": "xs3cr3t!"},
    }
    normal = document.normalise(written)
    found = document.leaks(normal.values, {"env.P": "s3cr3t!"})
    assert [fault.field for fault in found] == ["start_cmd", "env.Q"]
    assert "$P" in found[0].message
    assert not any("s3cr3t!" in fault.message for fault in found)


TOKEN = "model_params.path_info.private_token"


@pytest.mark.parametrize(
    ("path", "way_out"),
    [
        ("env.AWS_SECRET", "write $AWS_SECRET instead"),
        ("Token", "leave it out here"),
        (TOKEN, "leave it out here"),
        ("dataset_params.ceph_info.0.secret", "leave it out here"),
    ],
)
def test_a_secret_written_in_clear_is_named_with_what_to_write_instead(path: str, way_out: str) -> None:
    values = {"start_cmd": "run --key s3cr3t-of-mine", "tags": ["a", "s3cr3t-of-mine"]}
    start, tag = document.leaks(values, {path: "s3cr3t-of-mine"})
    assert (start.field, tag.field, start.code) == ("start_cmd", "tags.1", "secret_shown")
    assert start.message == f"This holds the value of the secret {path} and would show it; {way_out}."
    with translation.override("zh-hans"):
        [said, _tag] = document.leaks(values, {path: "s3cr3t-of-mine"})
    assert path in said.message
    assert ("$AWS_SECRET" in said.message) == path.startswith("env.")
    assert "This holds" not in said.message


def test_a_secret_is_found_wherever_the_words_are_the_user_s_own() -> None:
    values = {
        "image_full_name": "registry.example.com/s3cr3t-of-mine",
        "model_params": {"path_info": {"project": "p", "branch": "s3cr3t-of-mine"}},
        "dataset_params": {
            "ceph_info": [{"name": "ann", "secret": {"secret": True}, "src_path": "/s3cr3t-of-mine"}]
        },
        "GPUName": "s3cr3t-of-mine",  # one that there is, or refused as none
    }
    assert {fault.field for fault in document.leaks(values, {"env.P": "s3cr3t-of-mine"})} == {
        "image_full_name",
        "model_params.path_info.branch",
        "dataset_params.ceph_info.0.src_path",
    }


def test_each_secret_is_named_and_short_ones_stand_in_any_text() -> None:
    values = {"start_cmd": "echo first-one second-one abc", "exit_cmd": "true", "env": {"A": "first-one"}}
    found = document.leaks(values, {"env.P": "first-one", TOKEN: "second-one", "env.Q": "abc"})
    assert [(fault.field, fault.message.split(" ")[7]) for fault in found] == [
        ("start_cmd", "env.P"),
        ("start_cmd", TOKEN),
        ("env.A", "env.P"),
    ]
