"""Tasks from their submission to their end: the real platform, real agents, real processes."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.life.house import House


@pytest.fixture
def house(transactional_db: None, valkey: str, tmp_path: Path) -> Iterator[House]:
    """Return an open house without hosts."""
    house = House(tmp_path)
    try:
        yield house
    finally:
        house.close()
