"""The config document on its own: what is read, what is forgiven, what is refused and with which words."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs import document
from jobs.fields import FIELDS
from jobs.values import Invalid

# The sample as people copy it: comments behind #, values left blank, a missing space here and there.
SAMPLE = """{
# basics
"Token":"",# from your page
"business_flag": "",# the business
"host_num": 1, # how many hosts
"host_gpu_num": 1 ,# cards of each
"image_full_name": "", # image
"model_local_file_path": "", # 代码目录
# 可选参数
"task_flag": "demo", # a name
"GPUName": "P40", # also 'P40,M40'
"is_elasticity": true,# elastic or not
"start_cmd": "",# what to run
"exit_cmd": "",# what to run at the end
"exec_start_in_all_mpi_pods": true, # all of them
"enable_evicted_pulled_up": true, #default false
"keep_alive": true, #30 minutes
"dataset_id": "", # an old one
"dataset_params": { # a new one
"dataset_source": "outer_ceph", # fixed
"dataset_name": "",# a name
"ceph_info": [# several
{
"addr": "ip1:port,ip2:port",# the addresses
"name": "",# login
"secret": "", # password
"src_path": "", # there
"dst_path": "" # here
}
]
},
"model_id": "", # an old one
"model_params": {
"model_source": "git", # fixed
"model_name": "",# a name
"path_info": {
"group": "",# group
"project": "",# project
"private_token": "",# token
"branch":"",# 选填
"commit_id":""# or this # 注：if both are blank, the newest
}
},
}
"""


def faults(given: object) -> dict[str, str]:
    """Return code by field of everything that is wrong."""
    return {fault.field: fault.code for fault in document.normalise(given).faults}


def values(**fields: Any) -> dict[str, Any]:
    """Return the normal form of a document that has no faults."""
    normal = document.normalise(fields)
    assert normal.faults == []
    return normal.values


def test_the_sample_as_printed_is_read_and_asks_only_for_what_is_filled_in() -> None:
    written = SAMPLE.replace('"business_flag": ""', '"business_flag": "ads"')
    read = document.parse_text(written.replace('"start_cmd": ""', '"start_cmd": "python train.py"'))
    normal = document.normalise(read)
    assert (normal.faults, document.required(read)) == ([], [])
    assert normal.values == {
        "business_flag": "ads",
        "host_num": 1,
        "host_gpu_num": 1,
        "task_flag": "demo",
        "GPUName": "P40",
        "is_elasticity": True,
        "start_cmd": "python train.py",
        "exec_start_in_all_mpi_pods": True,
        "enable_evicted_pulled_up": True,
        "keep_alive": True,
        "priority": "medium",
        "retry_limit": 0,
    }


def test_the_sample_left_blank_lacks_only_the_business_and_a_command() -> None:
    read = document.parse_text(SAMPLE)
    assert document.normalise(read).faults == []
    assert [fault.field for fault in document.required(read)] == ["business_flag", "start_cmd"]


def test_json_and_yaml_say_the_same() -> None:
    written = {
        "business_flag": "广告",
        "host_num": 2,
        "tags": ["a"],
        "is_elasticity": "auto",
        "exit_cmd": None,
    }
    assert document.parse_text(json.dumps(written)) == written
    assert (
        document.parse_text("business_flag: 广告\nhost_num: 2\ntags: [a]\nis_elasticity: auto\nexit_cmd:\n")
        == written
    )


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ('{"a": 1,\n"b": }}', 2),
        ("a: 1\n b: 2", 2),
        ("a: &x [1]\nb: [*x, *x]", 2),
        ("not_before: !!timestamp 2030-01-01", 1),
        ("a: !!python/object/apply:os.system [ls]", 1),
        ("a: \x00", 1),
    ],
)
def test_text_that_cannot_be_read_is_refused_with_its_line(text: str, line: int) -> None:
    with pytest.raises(Invalid) as caught:
        document.parse_text(text)
    [fault] = caught.value.faults
    assert (fault.field, fault.code) == ("", "malformed")
    assert f"Line {line} " in fault.message


@pytest.mark.parametrize("text", ["[" * 100_000, "{" * 5000, "a: " + "9" * 6000, "x" * 300_000, "? [1]\n: 2"])
def test_hostile_text_is_refused_without_a_crash(text: str) -> None:
    with pytest.raises(Invalid) as caught:
        document.parse_text(text)
    assert caught.value.faults[0].code == "malformed"


def test_dates_in_yaml_stay_the_text_that_was_written() -> None:
    assert document.parse_text("not_before: 2030-01-01T00:00:00Z") == {"not_before": "2030-01-01T00:00:00Z"}


def test_all_faults_are_reported_together() -> None:
    assert faults(
        {
            "host_num": "2",
            "host_gpu_num": 0,
            "is_elasticity": 1,
            "keep_alive": "true",
            "GPUname": "P40",
            "priority": "urgent",
            "time_limit": "soon",
            "not_before": "2030-01-01T00:00",
            "env": {"RANK": "1", "1X": "a", "OK": 3},
            "tags": ["a", 5],
            "retry_limit": True,
            "model_params": {"path_info": {"project": "p", "grup": "g"}},
            "notify": {"mail": "me"},
        }
    ) == {
        "host_num": "type",
        "host_gpu_num": "range",
        "is_elasticity": "type",
        "keep_alive": "type",
        "GPUname": "unknown",
        "priority": "choice",
        "time_limit": "type",
        "not_before": "no_zone",
        "env.RANK": "name",
        "env.1X": "name",
        "env.OK": "type",
        "tags.1": "type",
        "retry_limit": "type",
        "model_params.path_info.grup": "unknown",
        "notify": "unsupported",
    }


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("GPUname", "GPUName"),
        ("host_gpu_number", "host_gpu_num"),
        ("is_elastic", "is_elasticity"),
        ("image", "image_full_name"),
        ("Region", "region"),
    ],
)
def test_an_unknown_field_is_answered_with_the_nearest_name(name: str, nearest: str) -> None:
    [fault] = document.normalise({name: ""}).faults
    assert (fault.field, fault.code) == (name, "unknown")
    assert f'"{nearest}"' in fault.message


def test_a_word_of_several_names_is_answered_with_none_of_them() -> None:
    [fault] = document.normalise({"num": 1}).faults  # of host_num and host_gpu_num
    assert fault.message == "There is no such field; remove it."


@pytest.mark.parametrize(
    ("project", "said"), [(".git", "required"), ("a.git", None), ("a/b", "format"), ("..", "format")]
)
def test_a_project_has_a_name_before_its_ending(project: str, said: str | None) -> None:
    given = {"model_params": {"path_info": {"group": "vision", "project": project}}}
    found = faults(given)
    assert found == ({"model_params.path_info.project": said} if said else {})
    if said is None:
        assert values(**given)["model_params"]["path_info"]["project"] == "a"


@pytest.mark.parametrize("written", ["M40, P40", "m40,P40", "M40，P40,", " M40 , M40,P40,,m40", "M40、P40"])
def test_types_are_forgiven_their_spelling_and_keep_their_order(written: str) -> None:
    assert values(GPUName=written)["GPUName"].casefold() == "m40,p40"


@pytest.mark.parametrize("blank", ["", "  ", ",", None])
def test_blank_types_count_as_absent(blank: str | None) -> None:
    assert "GPUName" not in values(GPUName=blank)


@pytest.mark.parametrize(
    ("written", "seconds"),
    [
        (90, 90),
        ("90", 90),
        ("90s", 90),
        ("2h30m", 9000),
        ("2H 30M", 9000),
        ("1d1h1m1s", 90061),
        ("1d", 86400),
    ],
)
def test_a_time_span_is_seconds_or_text(written: object, seconds: int) -> None:
    assert values(time_limit=written)["time_limit"] == seconds


@pytest.mark.parametrize("written", [0, -1, "0s", 10**12, True, 1.5, "h", "1m2h", "١s", ["1h"]])
def test_other_time_spans_are_refused(written: object) -> None:
    assert set(faults({"time_limit": written})) == {"time_limit"}


def test_a_moment_is_kept_in_utc() -> None:
    assert values(not_before="2030-01-31T08:00:00+08:00")["not_before"] == "2030-01-31T00:00:00Z"


@pytest.mark.parametrize(
    "written", ["0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z", "2000-01-01T00:30+01:00"]
)
def test_a_moment_that_not_every_zone_can_show_is_refused(written: str) -> None:
    assert faults({"not_before": written}) == {"not_before": "range"}


@pytest.mark.parametrize(
    "written", ["2030-01-31", "tomorrow", "9999-12-31T23:59:59-14:00", 5, "0001-01-01T00:00:00+14:00"]
)
def test_a_moment_without_a_zone_or_sense_is_refused(written: object) -> None:
    assert set(faults({"not_before": written})) == {"not_before"}


@pytest.mark.parametrize(
    ("written", "kept"), [(True, True), (False, False), ("auto", "auto"), (" Auto ", "auto")]
)
def test_elasticity_has_three_values(written: object, kept: object) -> None:
    assert values(is_elasticity=written)["is_elasticity"] == kept


@pytest.mark.parametrize("bad", ["a\x00b", "a\x1b[31m", "\ud800", "a\u202eb", "a\nb", "a\u2028b"])
def test_a_name_takes_no_control_characters(bad: str) -> None:
    assert faults({"task_flag": bad}) == {"task_flag": "character"}


@pytest.mark.parametrize("good", ["训练 bert", "naïve – ✓", "👩‍💻", "a/b\\c"])
def test_a_name_takes_any_script(good: str) -> None:
    assert values(task_flag=good)["task_flag"] == good


def test_a_command_has_lines_but_no_nul() -> None:
    assert values(start_cmd="a\n\tb\r\n")["start_cmd"] == "a\n\tb\n"  # a shell would take the CR for a letter
    assert faults({"start_cmd": "a\x00"}) == {"start_cmd": "character"}
    assert faults({"start_cmd": "x" * 40_000}) == {"start_cmd": "length"}


def test_secrets_leave_only_a_mark() -> None:
    normal = document.normalise({"Token": "t0k3n", "env": {"A": "1", "B": {"value": "hush", "secret": True}}})
    assert normal.values["env"] == {"A": "1", "B": {"secret": True}}
    assert normal.secrets == {"env.B": "hush"}
    assert "Token" not in normal.values
    assert "hush" not in json.dumps(normal.values)


def test_a_secret_without_a_value_is_named_as_missing() -> None:
    normal = document.normalise({"env": {"B": {"secret": True}, "C": {"secret": True, "value": ""}}})
    assert normal.secrets == {"env.B": None, "env.C": None}


def test_env_values_may_be_blank_and_plain_ones_may_be_written_long() -> None:
    assert values(env={"A": "", "B": {"value": "x"}, "C": {"value": "", "secret": False}})["env"] == {
        "A": "",
        "B": "x",
        "C": "",
    }
    assert faults({"env": {"A": {"valu": "x"}, "B": {}}}) == {
        "env.A.valu": "unknown",
        "env.B.value": "required",
    }


@pytest.mark.parametrize(
    "name", ["CUDA_VISIBLE_DEVICES", "RANK", "TAIJI_STORAGE", "A B", "", "é", "A=B", "x" * 129]
)
def test_the_platforms_own_and_ill_formed_variables_are_refused(name: str) -> None:
    assert list(faults({"env": {name: "1"}}).values()) == ["name"]


def test_messages_never_quote_a_value() -> None:
    written = {
        "env": {"A": {"value": ["hush-hush"], "secret": True}},
        "Token": {"x": "hush-hush"},
        "priority": "hush-hush",
    }
    assert "hush-hush" not in repr(document.normalise(written).faults)


@pytest.mark.parametrize("strange", [None, [], "text", 5, True])
def test_what_is_no_object_is_refused_as_a_whole(strange: object) -> None:
    assert faults(strange) == {"": "type"}


def test_deep_nesting_is_refused_as_a_whole() -> None:
    deep: list[Any] = []
    for _level in range(900):
        deep = [deep]
    assert faults({"tags": deep}) == {"": "nesting"}


def test_names_from_outside_are_made_safe_to_show() -> None:
    [fault] = document.normalise({"a\x1b\ud800" + "x" * 500: 1}).faults
    assert fault.field.isprintable()
    assert len(fault.field) <= 64


@pytest.mark.parametrize("name", [name for name, field in FIELDS.items() if field.refused])
def test_what_is_not_done_yet_is_refused_with_what_to_do_instead(name: str) -> None:
    [fault] = document.normalise({name: "x"}).faults
    assert (fault.field, fault.code) == (name, "unsupported")
    assert ";" in fault.message


ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=10), inner, max_size=4),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from(list(FIELDS)) | st.text(max_size=8), ANY_JSON, max_size=8))
def test_no_document_crashes_and_a_normal_form_is_its_own(written: dict[str, Any]) -> None:
    normal = document.normalise(written)
    json.dumps([[fault.field, fault.message] for fault in normal.faults]).encode()
    again = document.normalise(normal.values)
    if not normal.faults:
        assert (again.values, again.faults) == (normal.values, [])


def test_comments_as_other_languages_have_them_are_named_as_what_is_wrong() -> None:
    with pytest.raises(Invalid) as refused:
        document.parse_text('{ // the form\n "host_num": 1,\n}')
    assert "comments begin with #" in refused.value.faults[0].message
    with pytest.raises(Invalid) as other:
        document.parse_text('{"image_full_name": "https://example.org", }}')
    assert "comments" not in other.value.faults[0].message
