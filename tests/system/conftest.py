"""Products to start."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from launch import testing
from launch.places import ROOT
from tests.system.product import Product


@pytest.fixture(scope="session")
def migrated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a data folder in which there are tables and no rows: what a first start takes longest for."""
    folder = tmp_path_factory.mktemp("migrated")
    command = [sys.executable, "manage.py", "migrate", "--verbosity=0"]
    subprocess.run(command, cwd=ROOT, env=testing.environment(str(folder)), check=True)
    (folder / "secrets.json").write_text("{}")  # without it a start would think that they were lost
    return folder


@pytest.fixture
def product(tmp_path: Path, migrated: Path) -> Iterator[Product]:
    """Return a product that is not started yet, in a folder with a blank and a letter beyond ASCII."""
    product = Product(tmp_path / "dä ta", like=migrated)
    yield product
    product.clear_away()


@pytest.fixture
def new_product(tmp_path: Path) -> Iterator[Product]:
    """Return a product whose folder is not there yet."""
    product = Product(tmp_path / "dä ta")
    yield product
    product.clear_away()


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory, migrated: Path) -> Iterator[Product]:
    """Return a started product that the tests of a module share."""
    product = Product(tmp_path_factory.mktemp("product") / "dä ta", like=migrated)
    product.up()
    yield product
    product.clear_away()
