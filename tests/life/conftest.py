"""Tasks from their submission to their end: the real platform, real agents, real processes."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.agent import engines
from tests.agent.engines import Service
from tests.life.house import House


@pytest.fixture
def house(transactional_db: None, valkey: str, tmp_path: Path) -> Iterator[House]:
    """Return an open house without hosts."""
    house = House(tmp_path)
    try:
        yield house
    finally:
        house.close()


@pytest.fixture(scope="module")
def podman() -> Iterator[Service]:
    """Return a Podman, the same for all tests of a file."""
    with engines.service() as service:
        yield service


@pytest.fixture(params=["processes", pytest.param("containers", marks=pytest.mark.postgresql_alone)])
def either(request: pytest.FixtureRequest, house: House) -> House:
    """Return an open house whose tasks are plain processes, and once more one whose tasks are containers."""
    if request.param == "containers":
        house.contain(request.getfixturevalue("podman"))
    return house
