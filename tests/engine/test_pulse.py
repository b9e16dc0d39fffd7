"""The age of the last pass: known, and shown where it is too great, with where to look."""

from datetime import timedelta

import pytest
import time_machine
from django.test import Client
from django.utils import timezone, translation
from pytest_django import Settings

from cluster import samples
from jobs.engine import lease, passes, pulse
from jobs.models import PassLease
from tests.world import World

pytestmark = pytest.mark.django_db


def ended(minutes: float, *, lease_ended: float | None = None, holder: str = "") -> None:
    """Let the last pass have ended so many minutes ago, and the last lease too unless said."""
    now = timezone.now()
    passes.run()
    PassLease.objects.update(
        finished_at=now - timedelta(minutes=minutes),
        expires_at=now - timedelta(minutes=minutes if lease_ended is None else lease_ended),
        holder=holder,
    )


def test_a_pass_that_just_ended_is_nothing_to_speak_of(world: World) -> None:
    passes.run()
    found = pulse.look()
    assert (found.late, found.advice) == (False, "")
    assert found.age_s is not None
    assert found.age_s < 5


@pytest.mark.parametrize(
    ("lease_ended", "holder", "words"),
    [(3.0, "", "Valkey"), (0.1, "", "break off"), (-0.1, "w:1", "goes on"), (0.1, "w:1", "break off")],
)
def test_one_that_is_minutes_old_says_so_and_where_to_look(
    world: World, lease_ended: float, holder: str, words: str
) -> None:
    ended(3.5, lease_ended=lease_ended, holder=holder)
    found = pulse.look()
    assert found.late
    assert found.message == "The scheduler last looked 3 minutes ago."
    assert words in found.advice


@pytest.mark.parametrize("hours", [-1, 1])
def test_the_clock_of_who_asks_makes_a_pass_neither_late_nor_young(world: World, hours: int) -> None:
    ended(3)
    with time_machine.travel(timezone.now() + timedelta(hours=hours)):
        assert pulse.look().message == "The scheduler last looked 3 minutes ago."
    lease.take("w", 0)
    with time_machine.travel(timezone.now() + timedelta(hours=hours)):
        assert pulse.look().cause == "running"


def test_a_pass_that_breaks_off_each_time_is_known_by_its_lease(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended(5)

    def broken(*_: object) -> None:
        raise RuntimeError("no plan")

    monkeypatch.setattr("jobs.engine.passes.reconcile.run", broken)
    with pytest.raises(RuntimeError):
        passes.run()
    assert pulse.look().cause == "failing"


def test_a_new_installation_is_late_only_once_somebody_waits(world: World) -> None:
    assert not pulse.look().late
    task = world.task()
    assert not pulse.look().late
    type(task).objects.update(queued_at=timezone.now() - timedelta(minutes=2))
    found = pulse.look()
    assert (found.late, found.cause, found.message) == (True, "silent", "The scheduler has never looked yet.")


def test_a_longer_period_of_the_beat_is_late_later(world: World, settings: Settings) -> None:
    ended(5)
    settings.PASS_PERIOD_S = 60
    assert not pulse.look().late
    ended(11)
    assert pulse.look().late


def test_hours_are_told_as_hours_and_seconds_as_seconds(world: World) -> None:
    ended(200)
    assert pulse.look().message == "The scheduler last looked 3 hours ago."
    ended(0.5)
    assert pulse.look().message == "The scheduler last looked 30 seconds ago."


def test_every_page_says_it_and_pages_that_stay_open_ask(world: World, client: Client) -> None:
    client.force_login(world.user("ann", "ads"))
    ended(3)
    for address in ("/", "/tasks/", "/tasks/new/"):
        assert "The scheduler last looked 3 minutes ago." in client.get(address).content.decode()
    fragment = client.get("/scheduler/", headers={"HX-Request": "true"}).content.decode()
    assert "3 minutes ago" in fragment
    assert "<html" not in fragment
    passes.run()
    assert "ago" not in client.get("/scheduler/", headers={"HX-Request": "true"}).content.decode()
    assert 'hx-get="/scheduler/"' in client.get("/").content.decode()


def test_it_is_said_in_chinese(world: World) -> None:
    ended(3)
    with translation.override("zh-hans"):
        assert pulse.look().message == "调度器上次运行是 3 分钟前。"
        assert "Valkey" in pulse.look().advice
        assert "日志" in pulse.look().advice


def test_those_who_watch_are_told(world: World, client: Client) -> None:
    ended(3)
    health = client.get("/healthz/").json()
    assert (health["pass_late"], health["pass_cause"]) == (True, "silent")
    fence = lease.take("w", 0)
    assert fence is not None
    assert client.get("/healthz/").json()["pass_cause"] == "running"


@pytest.mark.parametrize(("minutes", "late"), [(None, False), (4, False), (6, True)])
def test_a_beat_that_is_away_is_told_although_passes_are_made(
    world: World, client: Client, minutes: int | None, late: bool
) -> None:
    passes.run()
    if minutes is not None:
        world.host("h1")
        samples.take(timezone.now() - timedelta(minutes=minutes), {})
    found = pulse.look()
    assert (found.late, found.beat_late, "beat and Valkey" in found.advice) == (False, late, late)
    assert client.get("/healthz/").json()["beat_late"] == late
    client.force_login(world.operator())
    assert (
        "see whether the beat and Valkey run" in client.get("/cluster/scheduler/").content.decode()
    ) == late
    assert (client.get("/api/v1/scheduler/").json()["advice"] != "") == late
    with translation.override("zh-hans"):
        assert ("请检查 beat 与 Valkey 是否在运行" in pulse.look().advice) == late


@pytest.mark.parametrize(("off_s", "told"), [(4.0, False), (-7.2, True), (3600.0, True)])
def test_a_server_whose_clock_is_off_is_told_of(
    world: World, client: Client, off_s: float, told: bool
) -> None:
    passes.run()
    PassLease.objects.update(clock_off_s=off_s)
    assert client.get("/healthz/").json()["clock_off_s"] == off_s
    words = f"differs from the database&#x27;s by {abs(round(off_s))} s"
    client.force_login(world.operator())
    assert (words in client.get("/cluster/scheduler/").content.decode()) == told
    assert ("NTP" in client.get("/api/v1/scheduler/").json()["advice"]) == told
    with translation.override("zh-hans"):
        assert ("校准时钟" in pulse.look().advice) == told


def test_the_clock_of_the_server_that_is_asked_is_told_of_too(world: World) -> None:
    passes.run()
    with time_machine.travel(timezone.now() - timedelta(seconds=90)):
        assert pulse.look().clock_off_s == pytest.approx(-90, abs=20)


def test_a_login_page_asks_nothing(client: Client, django_assert_num_queries: object) -> None:
    assert "pulse" not in client.get("/login/").content.decode()
