"""Products to start."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.system.product import Product


@pytest.fixture
def product(tmp_path: Path) -> Iterator[Product]:
    """Return a product that is not started yet, in a folder with a blank and a letter beyond ASCII."""
    product = Product(tmp_path / "dä ta")
    yield product
    product.clear_away()


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Product]:
    """Return a started product that the tests of a module share."""
    product = Product(tmp_path_factory.mktemp("product") / "dä ta")
    product.up()
    yield product
    product.clear_away()
