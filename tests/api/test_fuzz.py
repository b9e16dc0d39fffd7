"""Anything at all in the place of a document: a clear refusal, or a sound task out of it."""

from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from jobs import config
from jobs.fields import FIELDS
from jobs.models import Task
from jobs.states import State
from tests.api.conftest import Caller, doc, errors

ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
LIKELY: dict[str, st.SearchStrategy[Any]] = {
    "business_flag": st.sampled_from(["ads", " ads ", "search", ""]),
    "host_num": st.integers(-1, 3),
    "host_gpu_num": st.integers(0, 9),
    "GPUName": st.sampled_from(["P40", "p40，", "M40,P40", "P41", ""]),
    "is_elasticity": st.sampled_from([True, False, "auto", "Auto", 1]),
    "start_cmd": st.text(max_size=30),
    "time_limit": st.sampled_from([60, "2h", "2 h", "-1", 0, "9" * 30]),
    "not_before": st.sampled_from(["2030-01-31T08:00:00+08:00", "2030-01-31", "9999-12-31T23:59:59-23:59"]),
    "priority": st.sampled_from(["low", "HIGH", "urgent"]),
    "env": st.dictionaries(
        st.sampled_from(["A", "B_1", "1X", "RANK"]),
        st.text(max_size=5) | st.fixed_dictionaries({"value": st.text(max_size=5), "secret": st.booleans()}),
        max_size=3,
    ),
    "tags": st.lists(st.text(max_size=6), max_size=3),
    "retry_limit": st.integers(-1, 101),
    "region": st.sampled_from(["SZ", "sz", "nowhere"]),
}
DOCUMENTS = st.fixed_dictionaries(
    {}, optional={name: LIKELY.get(name, ANY_JSON) | ANY_JSON for name in FIELDS}
) | st.dictionaries(st.sampled_from(list(FIELDS)) | st.text(max_size=8), ANY_JSON, max_size=6)
fuzz = settings(
    max_examples=150,
    deadline=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)


def is_sound(task: Task) -> bool:
    """Say whether the task is one that the pass can deal with and that can be submitted again as it is shown."""
    again = config.read(task.config, user=task.user, origin=task)
    return (
        task.state == State.QUEUED
        and task.host_num >= 1
        and task.host_gpu_num >= 1
        and bool(task.gpu_types)
        and again.document == task.config
        and task.events.count() == 1
    )


def test_any_json_is_refused_clearly_or_is_a_sound_task(ann: Caller) -> None:
    taken = [0]

    @fuzz
    @given(document=DOCUMENTS | ANY_JSON)
    def trying(document: Any) -> None:
        before = Task.objects.count()
        answer = ann.post("tasks/", document)
        if answer.status_code == 201:
            taken[0] += 1
            assert is_sound(Task.objects.get(pk=answer.json()["id"]))
        else:
            assert answer.status_code in {400, 401}, answer.content
            assert errors(answer)
            assert Task.objects.count() == before

    trying()
    assert isinstance(taken[0], int)


def test_a_good_document_with_one_field_of_anything_is_refused_for_that_field_or_taken(ann: Caller) -> None:
    @fuzz
    @given(name=st.sampled_from(sorted(set(FIELDS) - {"Token"})), value=ANY_JSON, likely=st.data())
    def trying(name: str, value: Any, likely: st.DataObject) -> None:
        if name in LIKELY and likely.draw(st.booleans()):
            value = likely.draw(LIKELY[name])
        answer = ann.post("tasks/", doc(is_elasticity=True) | {name: value})
        if answer.status_code == 201:
            assert is_sound(Task.objects.get(pk=answer.json()["id"]))
        else:
            assert answer.status_code == 400, answer.content
            found = errors(answer)
            # Infinity is no JSON, and what is nested too deeply is not looked into: neither is a field's.
            assert found.pop("", "malformed") in {"malformed", "nesting"}
            assert {field.partition(".")[0] for field in found} <= {
                *(
                    name,
                    "host_num",
                    "host_gpu_num",
                    "GPUName",
                    "start_cmd",
                    "image_full_name",
                    "dataset_params",
                ),
            }

    trying()
    assert Task.objects.exists()


@pytest.mark.parametrize(
    "path", ["tasks/bulk/", "tasks/preview/", "templates/", "views/", "tasks/bulk/stop/"]
)
def test_any_json_at_other_doors_is_refused_clearly_or_does_something(ann: Caller, path: str) -> None:
    @settings(fuzz, max_examples=40)
    @given(
        body=ANY_JSON
        | st.fixed_dictionaries(
            {},
            optional={
                "tasks": st.lists(DOCUMENTS, max_size=3),
                "ids": ANY_JSON,
                "filter": ANY_JSON,
                "name": ANY_JSON,
                "query": ANY_JSON,
                "config": ANY_JSON | DOCUMENTS,
            },
        )
    )
    def trying(body: Any) -> None:
        answer = ann.post(path, body)
        assert answer.status_code in {200, 201, 400, 401, 409}, answer.content
        if answer.status_code >= 400:
            assert errors(answer)

    trying()
