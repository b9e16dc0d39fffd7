"""The document as people type it: nothing of it is lost on the way into the fields and back."""

from datetime import datetime
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from jobs.document import absent
from jobs.fields import FIELDS
from jobs.portal.entries import KEPT, NAMED
from jobs.portal.entries import typed as typed_of
from jobs.portal.forms import ConfigForm

NAMES = sorted(FIELDS.keys() - {"Token"})
texts = st.text(max_size=6) | st.sampled_from(["auto", "2h", "7", " ", "a\nb", "high", "2031-01-31T20:00"])
scalars = st.none() | st.booleans() | st.integers() | texts
values = scalars | st.lists(scalars, max_size=2) | st.dictionaries(texts, scalars, max_size=2)
secrets = st.just(KEPT) | st.builds(lambda value: {"value": value, "secret": True}, texts)
names = st.sampled_from(["A", "B_1", " A", "A=B", ""]) | texts
environments = st.dictionaries(names, values | secrets, max_size=4)
documents = st.dictionaries(st.sampled_from(NAMES) | texts, values, max_size=6) | st.fixed_dictionaries(
    {"env": environments}
)


def through_the_form(document: dict[str, Any]) -> dict[str, Any]:
    """Return the document that the form says after it was filled with `document`."""
    form = ConfigForm(typed_of(document), businesses=["ads"], regions=["SZ"])
    found = form.document()
    assert not form.errors
    return found


def meant(document: dict[str, Any]) -> dict[str, Any]:
    """Return what of a document says anything; text and number name the same source."""
    given = {name: value for name, value in document.items() if not absent(name, value)}
    plain = {
        name: str(value)
        if name in NAMED and isinstance(value, int) and not isinstance(value, bool)
        else value
        for name, value in given.items()
        if name != "Token" and value is not False
    }
    if isinstance(plain.get("is_elasticity"), str) and plain["is_elasticity"].strip().lower() == "auto":
        plain["is_elasticity"] = "auto"
    return plain


def comparable(document: dict[str, Any]) -> dict[str, Any]:
    """Return a document whose time is that moment, in whatever zone it was written."""
    try:
        moment = datetime.fromisoformat(str(document.get("not_before")))
    except ValueError:
        return document
    return document | ({"not_before": moment} if moment.tzinfo else {})


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])  # the machine may be busy
@given(documents)
@example(
    {"host_num": "2", "host_gpu_num": True, "keep_alive": "yes", "GPUName": ["P40"], "is_elasticity": "true"}
)
@example({"start_cmd": "\r\n\ud800", "task_flag": "a\nb", "not_before": "tomorrow", "env": ["A=1"]})
@example({"not_before": "2031-01-31T20:00", "priority": "HIGH", "model_params": "x", "rest": {"rest": 1}})
def test_whatever_a_document_holds_comes_back_out_of_the_form(document: dict[str, Any]) -> None:
    found = through_the_form(document)
    assert comparable({name: value for name, value in found.items() if value is not False}) == comparable(
        meant(document)
    )


@pytest.mark.parametrize("moment", ["2031-01-31T20:00:00+08:00", "2031-01-31T20:00:07Z"])
def test_a_time_comes_back_as_the_same_moment(moment: str) -> None:
    found = through_the_form({"not_before": moment})["not_before"]
    assert datetime.fromisoformat(found) == datetime.fromisoformat(moment)


@pytest.mark.parametrize("typed", ["99999999999999999999", "-99999999999999999999"])
def test_a_number_that_is_far_too_large_is_a_number_still(typed: str) -> None:
    """Else who typed one would read that it is text."""
    form = ConfigForm({"host_num": typed}, businesses=["ads"], regions=["SZ"])
    assert form.document()["host_num"] == int(typed)


def test_a_token_is_never_taken_into_the_form() -> None:
    assert "t0ken" not in str(typed_of({"Token": "t0ken", "business_flag": "ads"}))


def test_secrets_that_a_document_brings_stand_in_the_field_for_secrets() -> None:
    document = {"env": {"A": "1", "KEY": {"value": "hush", "secret": True}, "OLD": KEPT}}
    typed = typed_of(document)
    assert (typed["env"], typed["secret_env"]) == ("A=1", "KEY=hush\nOLD")
