"""The documents of one request, read together: each as if it were read alone."""

from typing import Any

import pytest
from django.contrib.auth.models import User
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pytest_django import Settings

from cluster import vault
from jobs import config, services
from jobs.alike import OWN, Read, Reader
from jobs.models import Task
from tests.world import World

GIT = {"path_info": {"group": "g", "project": "p", "branch": "main", "private_token": "private-token"}}
# What fields may hold, good and bad; values that Python takes for equal, and JSON does not, are among them.
VALUES: dict[str, list[Any]] = {
    "business_flag": ["ads", " ads ", "search", 1],
    "start_cmd": ["true", " ", "echo s3cr3t-value", "echo private-token", "echo token-in-body", "a\x00b", 7],
    "exit_cmd": ["sync", "echo other-secret", ""],
    "task_flag": ["run", " run ", "s3cr3t-value", "x" * 256, "", None, 5, "ip1:port,ip2:port"],
    "tags": [["a"], ["a", " b "], [], [" "], ["other-secret"], "a", [1], [[[]]]],
    "env": [
        {},
        {"A": "1"},
        {"A": 1},
        {"A": "s3cr3t-value"},
        {"1A": "x"},
        {"K": {"value": "s3cr3t-value", "secret": True}},
        {"K": {"value": "other-secret", "secret": True}, "A": "1"},
        {"K": {"value": "true", "secret": True}},
        {"K": {"secret": True}},
    ],
    "host_gpu_num": [1, True, 1.0, "1", 8, 9],
    "is_elasticity": [True, False, "auto", 1],
    "GPUName": ["P40", "p40 ,", "V100"],
    "model_params": [GIT, {}],
    "Token": ["token-in-body"],
    "strange": [1],
}
GOOD: dict[str, Any] = {"business_flag": "ads", "start_cmd": "true"}
STARTS = [
    GOOD,
    GOOD | {"env": {"K": {"value": "s3cr3t-value", "secret": True}}},
    GOOD | {"env": {"A": "1"}, "task_flag": "run", "tags": ["a"], "host_gpu_num": 1},
    GOOD | {"model_params": GIT},
]
ALONE = [GOOD, {}, [], 7, {"env": [[[[{}]]]]}]
TELLING = [
    ("host_gpu_num", True),
    ("host_gpu_num", 1.0),
    ("start_cmd", "echo s3cr3t-value"),
    ("start_cmd", "echo private-token"),
    ("task_flag", "s3cr3t-value"),
    ("tags", ["private-token"]),
]
ANY = st.sampled_from([(name, value) for name, values in VALUES.items() for value in values])
FIELD = ANY | st.sampled_from(TELLING)
CHANGES = st.lists(FIELD, max_size=2).map(dict)


@st.composite
def requests(draw: st.DrawFn) -> list[Any]:
    """Return documents that are one document with few changes each, and a strange one now and then."""
    first = draw(st.sampled_from(STARTS))
    alike = [first, *({**first, **draw(CHANGES)} for _ in range(draw(st.integers(1, 6))))]
    return alike + draw(st.lists(st.sampled_from(ALONE), max_size=1))


@pytest.fixture
def ann(world: World, settings: Settings) -> User:
    """Return a member of ads, whose code may come from a git host."""
    settings.GIT_PREFIXES = ["https://git.test/"]
    world.host("h1", 8, "P40")
    world.business("ads", P40=16)
    return world.user("ann", "ads")


def read_alone(user: User, document: object) -> tuple[Any, ...]:
    """Return what reading a document by itself finds."""
    try:
        found = config.read(document, user=user)
    except config.Invalid as invalid:
        return ("refused", invalid.faults)
    return said(found, found.document, found.secrets, found.task_flag)


def said(
    like: config.Config, document: dict[str, Any], secrets: dict[str, str], name: str
) -> tuple[Any, ...]:
    """Return all that a document asks for; a name that was made of the time counts as none."""
    return (
        list(document.items()),
        secrets,
        name if "task_flag" in document else name[:4],
        like.business,
        like.wanted_class,
        like.host_gpu_num,
        like.gpu_types,
        like.code,
    )


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(documents=requests())
def test_each_of_many_documents_says_what_it_says_alone(ann: User, documents: list[object]) -> None:
    reader = Reader(ann, documents)
    for document in documents:
        found = reader.read(document)
        together = (
            said(found.alike.config, found.document, found.secrets, found.task_flag)
            if isinstance(found, Read)
            else ("refused", found.faults)
        )
        assert together == read_alone(ann, document)


def test_documents_that_differ_in_their_own_fields_alone_are_checked_once(
    ann: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole: list[object] = []
    read = config.read

    def counted(given: object, **rest: Any) -> config.Config:
        whole.append(given)
        return read(given, **rest)

    monkeypatch.setattr(config, "read", counted)
    documents = [
        {
            "business_flag": "ads",
            "start_cmd": f"train {n}",
            "task_flag": f"t{n}",
            "env": {"LR": str(n)},
            "tags": [str(n)],
            "host_gpu_num": 1 + n % 2,
        }
        for n in range(50)
    ]
    made = services.submit_many(ann, documents)
    assert whole == documents[:2]
    assert [one.task_flag for one in made if not isinstance(one, config.Invalid)] == [
        f"t{n}" for n in range(50)
    ]
    kept = Task.objects.order_by("pk").values_list(
        "task_flag", "config__start_cmd", "config__env", "host_gpu_num"
    )
    assert list(kept) == [(f"t{n}", f"train {n}", {"LR": str(n)}, 1 + n % 2) for n in range(50)]


def test_a_task_that_is_written_with_others_alike_has_the_columns_that_it_has_alone(ann: User) -> None:
    own = {"task_flag": "b", "start_cmd": "sync", "exit_cmd": "true", "env": {"A": "2"}, "tags": ["b"]}
    assert set(own) == set(OWN)
    first: dict[str, Any] = {
        "business_flag": "ads",
        "start_cmd": "true",
        "task_flag": "a",
        "exit_cmd": "sync",
    }
    first |= {"env": {"A": "1"}, "tags": ["a"]}
    documents = [first, *(first | {name: value} for name, value in own.items())]
    services.submit_many(ann, documents)
    for document in documents:
        services.submit(ann, document)
    of_each = {"id", "secrets", "submitted_at", "queued_at"}
    names = [field.attname for field in Task._meta.concrete_fields if field.name not in of_each]
    rows = list(Task.objects.order_by("pk").values_list(*names))
    assert rows[: len(documents)] == rows[len(documents) :]


def test_each_has_its_own_secrets_however_alike_it_is(ann: User) -> None:
    keys = ["first-key", "second-key", "first-key"]
    services.submit_many(
        ann,
        [
            {"business_flag": "ads", "start_cmd": "true", "env": {"K": {"value": key, "secret": True}}}
            for key in keys
        ],
    )
    assert [vault.unseal(task.secrets) for task in Task.objects.order_by("pk")] == [
        {"env.K": key} for key in keys
    ]


def test_those_without_a_name_are_told_apart(ann: User) -> None:
    made = services.submit_many(ann, [{"business_flag": "ads", "start_cmd": "true"}] * 20)
    assert len({one.task_flag for one in made if not isinstance(one, config.Invalid)}) == 20


def test_one_that_is_nested_too_deeply_is_refused_alone(ann: User) -> None:
    deep: Any = []
    for _ in range(400):
        deep = [deep]
    good = {"business_flag": "ads", "start_cmd": "true"}
    for strange in ({"tags": deep}, {"depends_on": deep}):
        made = services.submit_many(ann, [good, good | strange, good])
        refused = made[1]
        assert isinstance(refused, config.Invalid)
        assert [fault.code for fault in refused.faults] == ["nesting"]
        assert not any(isinstance(one, config.Invalid) for one in (made[0], made[2]))
