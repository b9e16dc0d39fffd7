"""What the first start decides, and what it makes."""

from pathlib import Path

import pytest
from django.contrib.auth.models import User
from django.core.management import call_command
from django.test import Client
from pytest_django import Settings

from cluster.models import Region
from jobs.models import Task, Template
from launch import world as first_world
from launch.places import Places
from launch.programs import Agent
from launch.words import Refusal
from quotas.models import ApiToken, Business, Quota
from taiji_site import first_start
from tests.world import World


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Places:
    monkeypatch.delenv("TAIJI_SIMULATE", raising=False)
    monkeypatch.setattr(first_world, "_found_cards", lambda here: [])
    return Places(data=tmp_path, run=tmp_path / "run", bind="127.0.0.1", port=8765)


def test_a_machine_without_cards_simulates_two_hosts(here: Places) -> None:
    plan = first_world.read(here, empty=False)
    assert plan.agents == [Agent(name="sim-p40", simulate="P40:8"), Agent(name="sim-m40", simulate="M40:4")]
    assert plan.cards == ["P40:8", "M40:4"]


def test_a_machine_with_cards_offers_them(here: Places, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(first_world, "_found_cards", lambda here: ["H200:1"])
    plan = first_world.read(here, empty=False)
    assert [agent.simulate for agent in plan.agents] == [""]
    assert plan.cards == ["H200:1"]


def test_an_empty_start_without_cards_has_neither_agents_nor_a_world(here: Places) -> None:
    assert first_world.read(here, empty=True) == first_world.World(agents=[])


def test_a_later_start_keeps_the_agents_and_makes_no_world(
    here: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = first_world.read(here, empty=False)
    first_world.write(here, first)
    monkeypatch.setattr(first_world, "_found_cards", lambda here: ["H200:1"])
    assert first_world.read(here, empty=False) == first_world.World(agents=first.agents)


def test_hosts_of_one_type_are_numbered(here: Places, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TAIJI_SIMULATE", "P40:8, P40:8")
    assert [agent.name for agent in first_world.read(here, empty=False).agents] == ["sim-p40-1", "sim-p40-2"]


@pytest.mark.parametrize("text", ["P40", "P40:0", "P40:x", "P 40:8"])
def test_simulated_cards_that_are_not_understood_are_refused(
    here: Places, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    monkeypatch.setenv("TAIJI_SIMULATE", text)
    with pytest.raises(Refusal, match="TAIJI_SIMULATE"):
        first_world.read(here, empty=False)


@pytest.mark.django_db
def test_the_operator_logs_in_with_the_files_of_the_data_folder(tmp_path: Path) -> None:
    first_start.make_operator(tmp_path)
    password = (tmp_path / "admin-password").read_text().strip()
    assert Client().login(username="admin", password=password)
    token = ApiToken.objects.by_secret((tmp_path / "admin-token").read_text().strip())
    assert token is not None
    assert token.user.get_username() == "admin"
    for name in ("admin-password", "admin-token"):
        assert (tmp_path / name).stat().st_mode & 0o777 == 0o600


@pytest.mark.django_db
def test_a_second_start_makes_no_second_operator_and_leaves_the_files(tmp_path: Path) -> None:
    User.objects.create_superuser("someone", password="long enough")
    first_start.make_operator(tmp_path)
    assert not User.objects.filter(username="admin").exists()
    assert not (tmp_path / "admin-token").exists()


@pytest.mark.django_db
def test_an_admin_who_is_no_operator_any_more_stops_no_start(tmp_path: Path) -> None:
    User.objects.create_user("admin")
    first_start.make_operator(tmp_path)
    assert not User.objects.filter(is_superuser=True).exists()
    assert not (tmp_path / "admin-password").exists()


@pytest.mark.django_db
def test_the_quotas_of_the_small_world_add_up_to_its_cards() -> None:
    call_command("setup_world", "P40:8", "M40:4", verbosity=0)
    assert Region.objects.count() == 1
    for name, number in (("P40", 8), ("M40", 4)):
        assert sum(Quota.objects.filter(gpu_type__name=name).values_list("cards", flat=True)) == number


@pytest.mark.django_db
def test_making_the_small_world_twice_changes_nothing() -> None:
    call_command("setup_world", verbosity=0)
    Quota.objects.update(cards=1)
    call_command("setup_world", verbosity=0)
    assert Business.objects.count() == 2
    assert Template.objects.count() == 3
    assert set(Quota.objects.values_list("cards", flat=True)) == {1}


@pytest.mark.django_db
@pytest.mark.parametrize("cards", [["P40:8", "M40:4"], ["H200:1"]])
def test_a_member_of_any_business_submits_every_template_as_it_opens(world: World, cards: list[str]) -> None:
    call_command("setup_world", *cards, verbosity=0)
    quotas = {}
    for gpu_type, _, number in (text.partition(":") for text in cards):
        world.host(f"with-{gpu_type}", int(number), gpu_type)
        quotas[gpu_type] = int(number)
    world.business("video", **quotas)
    browser = Client()
    browser.force_login(world.user("maria", "video"))
    for template in Template.objects.all():
        form = browser.get(f"/tasks/new/?template={template.pk}").context["form"]
        opened = {name: form[name].value() for name in form.fields}
        filled = {name: value for name, value in opened.items() if value not in (None, False)}
        assert browser.post("/tasks/new/", filled).status_code == 302, template.name
        task = Task.objects.latest("pk")
        assert (task.business.flag, task.gpu_types != []) == ("video", True)


@pytest.mark.django_db
def test_health_counts_hosts_and_tells_their_names_to_who_knows_the_join_token(
    client: Client, settings: Settings
) -> None:
    from django.utils import timezone

    from cluster.models import Host

    Host.objects.create(name="h1", region=Region.objects.create(name="SZ"), last_seen_at=timezone.now())
    assert client.get("/healthz/").json() == {
        "database": True,
        "hosts": 1,
        "last_pass_s": None,
        "pass_late": False,
        "pass_cause": None,
        "beat_late": False,
        "clock_off_s": 0.0,
        "log_room": True,
    }
    shown = client.get("/healthz/", headers={"Authorization": f"Bearer {settings.JOIN_TOKEN}"}).json()
    assert list(shown["seen"]) == ["h1"]
    wrong = client.get("/healthz/", headers={"Authorization": "Bearer ü"}).json()
    assert "seen" not in wrong


def test_missing_secrets_are_reported_with_a_way_out(settings: Settings) -> None:
    from taiji_site import checks

    settings.SECRET_KEY_GIVEN = ""
    settings.VAULT_KEYS = ["no key"]
    settings.JOIN_TOKEN = ""
    faults = checks.secrets_are_there(None)
    assert [fault.id for fault in faults] == ["taiji.E001", "taiji.E005", "taiji.E006"]
    assert all("script/up" in str(fault.hint) for fault in faults)
