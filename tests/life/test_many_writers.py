"""Many who submit and many hosts that report at once, while passes are made: the database is locked to nobody."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from jobs.models import Task, TaskEvent
from quotas.models import ApiToken
from tests.chaos import rows, rules
from tests.cluster import words
from tests.life import writers
from tests.life.house import House

SECONDS = float(os.environ.get("WRITERS_S", "15"))
POSTERS, HOSTS, CARDS = 8, 50, 2


@pytest.fixture
def house(transactional_db: None, valkey: str, tmp_path: Path) -> Iterator[House]:
    """Return an open house behind whose doors eight work at once."""
    house = House(tmp_path, workers=POSTERS)
    try:
        yield house
    finally:
        house.close()


def p95(took: list[float]) -> float:
    return sorted(took)[int(len(took) * 0.95)]


def test_many_who_post_and_report_while_passes_run_are_never_told_that_the_database_is_locked(
    house: House,
) -> None:
    """Eight submit without a pause, fifty hosts report something new each second."""
    house.world.business("ads", P40=HOSTS * CARDS)
    work = writers.Work(
        port=int(house.url.rsplit(":", 1)[1]),
        seconds=SECONDS,
        person=ApiToken.objects.issue(house.world.user("ann", "ads"), "test"),
        posters=POSTERS,
        document={"business_flag": "ads", "GPUName": "P40", "start_cmd": "echo well"},
        hosts=[words.token(house.world.host(f"h{number}", CARDS)) for number in range(HOSTS)],
        cards=CARDS,
        every_s=1.0,
    )
    figures = writers.write(work)
    with house.planning:
        found = rows.read()
    ends = [task for task in found.tasks.values() if task.state == "succeeded"]
    print(
        f"{len(figures.posts)} posts, {len(figures.reports)} reports, {len(ends)} ends in {SECONDS:g} s; "
        f"95 of 100 posts within {p95(figures.posts):.2f} s, reports within {p95(figures.reports):.2f} s"
    )
    assert (figures.refused, house.plans) == ([], True)
    assert len(figures.posts) == Task.objects.count() > 3 * SECONDS
    assert TaskEvent.objects.filter(code="submitted").count() == len(figures.posts)  # none is half there
    assert rules.first(rules.broken(found, cap=0)) is None
    assert len(figures.reports) > 3 * SECONDS
    assert len(ends) > SECONDS / 3
    assert p95(figures.posts + figures.reports) < 20
