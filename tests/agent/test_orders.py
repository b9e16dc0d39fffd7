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
        {"version": "1", "instances": None, "forget": []},
        {"version": "1", "instances": [{"run": True}], "forget": []},
        {"version": "1", "instances": [{"id": "../../etc", "run": True}], "forget": []},
        {"version": "1", "instances": [], "forget": ["x"]},
    ],
)
def test_an_answer_that_is_no_list_of_orders_is_refused_whole(answer: object) -> None:
    with pytest.raises(ValueError, match=r"."):
        read_desired(answer)


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


def test_a_wrong_value_of_the_environment_is_not_repeated() -> None:
    with pytest.raises(BadSpec) as caught:
        read_spec(spec("true", env={"KEY": "secret\0"}))
    assert "secret" not in str(caught.value)
