"""The doors of agents alone: these tests do not need the rest of the site."""

import pytest
from pytest_django import Settings


@pytest.fixture(autouse=True)
def _urls(settings: Settings) -> None:
    """Mount the agents' addresses where the site has them."""
    settings.ROOT_URLCONF = "tests.cluster.urls"
