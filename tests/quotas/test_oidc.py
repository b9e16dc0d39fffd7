"""Logging in with an identity provider that runs, from the first click to the last."""

import warnings
from collections.abc import Iterator
from datetime import timedelta
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import requests
import time_machine
from django.contrib.auth.models import User
from django.db import IntegrityError
from django.test import Client
from django.utils import timezone

from quotas import oidc
from quotas.audit import AuditEntry
from quotas.models import GroupRule, Member, PlatformRole, ProviderIdentity
from quotas.oidc import ProviderBackend
from tests.world import World


@pytest.fixture(scope="module")
def issuer() -> Iterator[str]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the provider's own libraries
        from oidc_provider_mock import run_server_in_thread

        with run_server_in_thread() as server:
            yield f"http://localhost:{server.server_port}"


@pytest.fixture(autouse=True)
def _provider(issuer: str, settings: Any, world: World) -> None:
    settings.OIDC_ISSUER = issuer
    settings.OIDC_RP_CLIENT_ID, settings.OIDC_RP_CLIENT_SECRET = "taiji", "a-secret-of-the-client"
    settings.OIDC_NAME = "Example Inc"
    settings.AUTHENTICATION_BACKENDS = ["quotas.backend.RoleBackend", "quotas.oidc.ProviderBackend"]
    oidc._kept.clear()


def person(issuer: str, subject: str = "s-1", **claims: object) -> None:
    """Let the provider know somebody."""
    known = {"preferred_username": "ann", "email": "ann@example.com", "groups": [], **claims}
    requests.put(f"{issuer}/users/{subject}", json=known, timeout=10).raise_for_status()


def come_back(client: Client, subject: str = "s-1", way: str = "/login/provider/", **form: str) -> str:
    """Go to the provider, log in there, and return the address that it sends back to."""
    there = client.get(way)["Location"]
    answer = requests.post(there, data={"sub": subject, **form}, allow_redirects=False, timeout=10)
    back = urlsplit(answer.headers["Location"])
    assert back.path == "/login/provider/back/"
    return f"{back.path}?{back.query}"


def enter(client: Client, subject: str = "s-1", **more: str) -> Any:
    return client.get(come_back(client, subject, **more))


def test_who_is_known_to_the_provider_gets_in_with_what_his_groups_give(issuer: str, world: World) -> None:
    ads, speech = world.business("ads"), world.business("speech")
    GroupRule.objects.create(group="gpu-ads", role="member", business=ads)
    GroupRule.objects.create(group="gpu-speech-leads", role="lead", business=speech)
    GroupRule.objects.create(group="gpu-speech", role="member", business=speech)
    GroupRule.objects.create(group="audit", role="auditor")
    person(issuer, groups=["gpu-ads", "gpu-speech", "gpu-speech-leads", "audit", "cooks"])
    client = Client()
    assert "Log in with Example Inc" in client.get("/login/").content.decode()
    assert enter(client)["Location"] == "/"
    user = User.objects.get()
    assert (user.username, user.email, user.has_usable_password()) == ("ann", "ann@example.com", False)
    assert dict(Member.objects.values_list("business__flag", "role")) == {"ads": "member", "speech": "lead"}
    assert PlatformRole.objects.get().role == "auditor"
    assert client.get("/audit/").status_code == 200
    entry = AuditEntry.objects.get(deed="login")
    assert (entry.actor, entry.args) == ("ann", {"by_provider": True})


def test_who_left_a_group_leaves_the_business_at_the_next_login(issuer: str, world: World) -> None:
    ads, hand = world.business("ads"), world.business("hand")
    GroupRule.objects.create(group="gpu-ads", role="lead", business=ads)
    GroupRule.objects.create(group="ops", role="operator")
    person(issuer, groups=["gpu-ads", "ops"])
    enter(Client())
    user = User.objects.get()
    Member.objects.create(user=user, business=hand)  # by operators: none of the provider's business
    person(issuer, groups=[])
    enter(Client())
    assert list(Member.objects.values_list("business__flag", flat=True)) == ["hand"]
    assert not PlatformRole.objects.exists()
    assert set(AuditEntry.objects.values_list("deed", flat=True)) >= {"member.left", "role.taken"}


def test_the_same_subject_is_the_same_user_whatever_he_is_called(issuer: str) -> None:
    person(issuer)
    enter(Client())
    person(issuer, preferred_username="ann.smith", email="smith@example.com")
    enter(Client())
    user = User.objects.get()
    assert (user.username, user.email) == ("ann", "smith@example.com")


def test_nobody_takes_over_an_account_by_its_name(issuer: str, world: World) -> None:
    local = world.user("ann", "ads")
    local.set_password("of-her-own")
    local.save()
    person(issuer, "s-2")
    client = Client()
    answer = client.get(come_back(client, "s-2"), follow=True)
    assert "did not work" in answer.content.decode()
    assert not ProviderIdentity.objects.exists()
    assert "_auth_user_id" not in client.session


def test_an_account_that_operators_made_for_it_is_taken(issuer: str, world: World) -> None:
    made = User.objects.create_user("ann")
    person(issuer)
    enter(Client())
    assert ProviderIdentity.objects.get().user == made


def test_one_who_was_made_inactive_stays_out(issuer: str) -> None:
    person(issuer)
    enter(Client())
    User.objects.update(is_active=False)
    client = Client()
    assert enter(client)["Location"] == "/login/"
    assert "_auth_user_id" not in client.session


def test_an_answer_serves_once_and_only_the_browser_that_asked(issuer: str) -> None:
    person(issuer)
    asking, other = Client(), Client()
    back = come_back(asking)
    assert other.get(back)["Location"] == "/login/"  # another's login is not slipped to anybody
    assert "_auth_user_id" not in other.session
    assert asking.get(back)["Location"] == "/"
    asking.post("/logout/")
    assert asking.get(back)["Location"] == "/login/"


@pytest.mark.parametrize("part", ["state", "code"])
def test_a_forged_answer_lets_nobody_in(part: str, issuer: str) -> None:
    person(issuer)
    client = Client()
    back = come_back(client)
    true = parse_qs(urlsplit(back).query)[part][0]
    answer = client.get(back.replace(true, "x" * len(true)))
    assert (answer.status_code, answer["Location"]) == (302, "/login/")
    assert AuditEntry.objects.filter(deed="login.failed").count() == 1


def test_a_nonce_of_another_login_lets_nobody_in(issuer: str) -> None:
    person(issuer)
    client = Client()
    back = come_back(client)
    session = client.session
    for state in session["oidc_states"].values():
        state["nonce"] = "of-another"
    session.save()
    assert client.get(back)["Location"] == "/login/"
    assert "_auth_user_id" not in client.session


def test_a_token_for_another_client_lets_nobody_in(issuer: str, settings: Any) -> None:
    person(issuer)
    client = Client()
    back = come_back(client)
    settings.OIDC_RP_CLIENT_ID = "somebody-else"
    assert client.get(back)["Location"] == "/login/"
    assert "_auth_user_id" not in client.session


def test_a_token_that_is_over_lets_nobody_in(issuer: str, monkeypatch: pytest.MonkeyPatch) -> None:
    person(issuer)
    client = Client()
    back = come_back(client)
    later, get_token = time_machine.travel(timezone.now() + timedelta(days=1)), ProviderBackend.get_token

    def fetched_and_kept(self: ProviderBackend, asked: dict[str, Any]) -> Any:
        found = get_token(self, asked)
        later.start()
        return found

    monkeypatch.setattr(ProviderBackend, "get_token", fetched_and_kept)
    try:
        assert client.get(back)["Location"] == "/login/"
    finally:
        later.stop()
    assert AuditEntry.objects.get(deed="login.failed").args["why"] == "ExpiredSignatureError"


def test_a_token_that_never_ends_lets_nobody_in(issuer: str, monkeypatch: pytest.MonkeyPatch) -> None:
    person(issuer)
    client = Client()
    back = come_back(client)
    read = ProviderBackend.get_payload_data

    def endless(self: ProviderBackend, token: str, key: Any) -> dict[str, Any]:
        return {name: value for name, value in read(self, token, key).items() if name != "exp"}

    monkeypatch.setattr(ProviderBackend, "get_payload_data", endless)
    assert client.get(back)["Location"] == "/login/"
    assert "_auth_user_id" not in client.session


@pytest.mark.parametrize(
    ("asked", "led"), [("/tasks/", "/tasks/"), ("https://evil.example.com/", "/"), ("//evil", "/")]
)
def test_the_login_leads_on_to_pages_of_ours_alone(asked: str, led: str, issuer: str) -> None:
    person(issuer)
    assert enter(Client(), way=f"/login/provider/?next={asked}")["Location"] == led


def test_logging_out_ends_the_session_of_the_provider_too(issuer: str) -> None:
    person(issuer)
    client = Client()
    enter(client)
    address = urlsplit(client.post("/logout/")["Location"])
    query = parse_qs(address.query)
    assert f"{address.scheme}://{address.netloc}" == issuer
    assert query["post_logout_redirect_uri"] == ["http://testserver/login/"]
    assert query["id_token_hint"][0].count(".") == 2
    assert client.get("/account/").status_code == 302


def test_where_others_change_something_at_that_moment_one_is_asked_to_log_in_again(
    issuer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries: list[str] = []

    def gone(*args: object) -> None:
        tries.append("try")
        raise IntegrityError("of a business that was deleted")

    person(issuer)
    client = Client()
    back = come_back(client)
    with monkeypatch.context() as meanwhile:
        meanwhile.setattr(ProviderBackend, "create_user", gone)
        answer = client.get(back, follow=True)
    assert "Try again" in answer.content.decode()
    assert (len(tries), User.objects.count()) == (1, 0)
    assert [entry.deed for entry in AuditEntry.objects.filter(deed__startswith="login")] == ["login.failed"]
    assert enter(client)["Location"] == "/"


def test_an_error_in_the_address_logs_nobody_out(issuer: str) -> None:
    person(issuer)
    client = Client()
    enter(client)
    client.get("/login/provider/back/?error=access_denied&state=x")
    assert client.get("/account/").status_code == 200


def test_a_provider_that_is_away_is_said_on_a_page(settings: Any) -> None:
    settings.OIDC_ISSUER = "http://127.0.0.1:9"
    answer = Client().get("/login/provider/", follow=True)
    assert answer.status_code == 200
    assert "did not work" in answer.content.decode()


def test_without_a_provider_there_is_no_such_door(settings: Any) -> None:
    settings.OIDC_ISSUER = ""
    assert Client().get("/login/provider/").status_code == 404
    assert Client().get("/login/provider/back/").status_code == 404
    assert "Log in with" not in Client().get("/login/").content.decode()


@pytest.mark.parametrize("name", ["a\u200bnn", "ann\u202etxt", "an\x00n"])
def test_nobody_gets_a_name_that_looks_like_another_s(issuer: str, name: str) -> None:
    person(issuer, preferred_username=name)
    client = Client()
    answer = client.get(come_back(client), follow=True)
    assert "did not work" in answer.content.decode()
    assert not User.objects.exists()


def test_what_is_said_besides_and_no_text_may_hold_is_left_out(issuer: str, world: World) -> None:
    GroupRule.objects.create(group="gpu-ads", role="member", business=world.business("ads"))
    person(issuer, given_name="An\x00n", family_name="Smith", groups=["gpu\x00", "gpu-ads"])
    assert enter(Client())["Location"] == "/"
    assert (User.objects.get().first_name, User.objects.get().last_name) == ("", "Smith")
    assert Member.objects.exists()
