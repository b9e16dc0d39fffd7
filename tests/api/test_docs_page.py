"""The page of the API and its description: whatever is asked of them in a way that they have none for is refused."""

import pytest

from tests.api.conftest import Caller
from tests.api.test_lane import ask
from tests.world import World

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.mark.parametrize("page", ["docs/", "schema/"])
@pytest.mark.parametrize("name", ["token", "TOKEN", "access_token", "api_key"])
def test_a_token_in_their_address_is_refused(ann: Caller, page: str, name: str) -> None:
    for token in ("", ann.token, "of-nobody"):
        assert ask(f"{page}?{name}={ann.token}", token=token)[0] == 400


@pytest.mark.parametrize("accept", ["text/xml", "application/json; indent=4", "image/*", "x"])
def test_the_page_comes_in_one_form_whatever_is_asked_for(ann: Caller, world: World, accept: str) -> None:
    for token in ("", ann.token, Caller(world.operator()).token):
        assert ask("docs/", token=token, accept=accept)[0] == 200
    assert ask("docs/", token="of-nobody", accept=accept)[0] == 401


def test_the_page_comes_to_a_browser(ann: Caller) -> None:
    status, headers, body = ask("docs/", accept="text/html,*/*;q=0.8")
    assert (status, headers[b"content-type"]) == (200, b"text/html; charset=utf-8")
    assert b"Taiji API" in body
