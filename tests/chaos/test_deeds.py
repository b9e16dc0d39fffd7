"""Every choice comes from the seed."""

from collections import Counter
from itertools import pairwise

from tests.chaos import work
from tests.chaos.deeds import SORTS, TASKS, deeds


def test_the_same_seed_gives_the_same_deeds_and_another_others() -> None:
    assert deeds(7, 3) == deeds(7, 3)
    assert deeds(7, 3) != deeds(8, 3)


def test_a_longer_run_begins_as_a_shorter_one() -> None:
    short = deeds(7, 1)
    assert deeds(7, 3)[: len(short)] == short


def test_deeds_come_in_order_and_within_their_minutes() -> None:
    found = deeds(7, 3)
    assert all(one.at <= other.at for one, other in pairwise(found))
    assert found[0].at >= 0
    assert found[-1].at < 180


def test_three_minutes_are_expected_to_bring_more_than_forty_kills_and_enough_tasks() -> None:
    counts = Counter(deed.kind for seed in range(20) for deed in deeds(seed, 3))
    assert counts["kill"] / 20 > 45
    assert counts["submit"] / 20 > 150
    assert len(counts) == len(SORTS)


def test_every_sort_of_task_has_a_document_and_a_command() -> None:
    assert TASKS.keys() == work.SHAPES.keys()
    for deed in deeds(7, 10):
        if deed.kind == "submit":
            document = work.document(deed)
            assert work.SAYS_START in document["start_cmd"]
            assert document["business_flag"] in work.OWNERS
