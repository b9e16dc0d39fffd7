"""What the platform says is read strictly, and a fault in one order harms no other."""

import pytest

from cluster.agent.orders import BadSpec, read_desired, read_spec
from tests.agent.conftest import new_id, spec


def test_a_list_is_read_whatever_is_in_the_specs_of_its_orders() -> None:
    one, two, old = new_id(), new_id(), new_id()
    desired = read_desired(
        {
            "version": "7",
            "now": 1.0,
            "instances": [{"id": one, "run": True, "spec": 12}, {"id": two, "run": False}],
            "forget": [old],
        }
    )
    assert desired.wanted() == {one: True, two: False}
    assert desired.forget == {old}
    with pytest.raises(BadSpec, match="The order has no spec"):
        read_spec(desired.orders[one].spec)


@pytest.mark.parametrize(
    "answer",
    [
        None,
        [],
        {},
        {"version": "1", "now": 1.0, "instances": None, "forget": []},
        {"version": "1", "now": 1.0, "instances": [{"run": True}], "forget": []},
        {"version": "1", "now": 1.0, "instances": [{"id": "../../etc", "run": True}], "forget": []},
        {"version": "1", "now": 1.0, "instances": [], "forget": ["x"]},
        {"version": "1", "now": float("inf"), "instances": [], "forget": []},
        {"version": "1", "now": 10**400, "instances": [], "forget": []},
    ],
)
def test_an_answer_that_is_no_list_of_orders_is_refused_whole(answer: object) -> None:
    with pytest.raises(ValueError, match=r"."):
        read_desired(answer)


def test_what_the_platform_says_of_an_agent_may_be_absent() -> None:
    answer = {"version": "1", "now": 1.0, "instances": [], "forget": []}
    assert [read_desired(answer | more).notice for more in ({}, {"notice": None}, {"notice": "old"})] == [
        "",
        "",
        "old",
    ]


def test_a_grace_is_never_longer_than_thirty_seconds() -> None:
    assert read_spec(spec("true", grace_s=300)).grace_s == 30


@pytest.mark.parametrize("folder", ["", "/", "..", "a/../../b", "/etc", "a\0b", 3, None])
def test_a_folder_that_leaves_the_storage_is_refused(folder: object) -> None:
    with pytest.raises(BadSpec, match="The order's storage"):
        read_spec(spec("true", storage=folder))


def test_a_spec_that_lacks_a_part_says_which() -> None:
    document = spec("true")
    del document["master_port"]
    with pytest.raises(BadSpec, match="lacks master_port"):
        read_spec(document)


@pytest.mark.parametrize(
    "changes",
    [
        {"cards": [float("inf")]},
        {"rank": float("inf")},
        {"grace_s": float("nan")},
        {"limits": {"cpus": float("inf")}},
        {"container": {"image": "a:1", "cpus": float("inf")}},
        {"container": {"image": "a:1", "pids": float("inf")}},
        {"code": {"kind": "upload", "digest": "0" * 64, "files": float("inf"), "bytes": 1}},
    ],
)
def test_a_number_without_end_harms_only_the_order_that_says_it(changes: dict[str, object]) -> None:
    with pytest.raises(BadSpec, match="cannot be read"):
        read_spec(spec("true", **changes))


def test_a_wrong_value_of_the_environment_is_not_repeated() -> None:
    with pytest.raises(BadSpec) as caught:
        read_spec(spec("true", env={"KEY": "secret\0"}))
    assert "secret" not in str(caught.value)
