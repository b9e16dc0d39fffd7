"""Hosts register, cards come and go, silent hosts are lost, free cards are counted."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.test import Client
from pytest_django import DjangoAssertNumQueries

from cluster import inventory
from cluster.executors import agents
from cluster.inventory import FreeCards, free_cards
from cluster.models import Card, GpuType, Host, Instance, Region
from cluster.reports import CardReport
from tests.cluster import words
from tests.world import World

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def register(client: Client, token: str = "join-token-of-the-test", **more: object) -> Any:
    """Register host h1 in SZ."""
    document = {"name": "h1", "region": "SZ", "address": "10.0.0.1", "protocol": 1, **more}
    return client.post(
        "/api/agent/register/", document, "application/json", headers={"authorization": f"Bearer {token}"}
    )


def test_a_host_that_registers_gets_a_token_of_which_only_the_hash_is_kept(db: None, client: Client) -> None:
    answer = register(client)
    assert answer.status_code == 201
    host = Host.objects.get()
    assert answer.json()["host"] == host.pk
    assert (host.name, host.region.name, host.address) == ("h1", "SZ", "10.0.0.1")
    assert host.token_hash == inventory.digest(answer.json()["token"])


@pytest.mark.parametrize("token", ["", "wrong", "join-token-of-the-tesT"])
def test_a_wrong_join_token_is_refused(db: None, client: Client, token: str) -> None:
    assert register(client, token).status_code == 401
    assert not Host.objects.exists()


def test_nobody_joins_where_no_join_token_is_set(db: None, client: Client, settings: Any) -> None:
    settings.JOIN_TOKEN = ""
    assert register(client, "").status_code == 401


def test_a_name_that_is_taken_is_refused_until_an_operator_frees_it(db: None, client: Client) -> None:
    first = register(client).json()
    refused = register(client)
    assert refused.status_code == 409
    assert refused.json()["errors"][0]["code"] == "taken"
    assert "h1" in refused.json()["errors"][0]["message"]
    Host.objects.update(token_hash="", state=Host.State.REMOVED)
    again = register(client).json()
    assert again["host"] == first["host"]
    assert again["token"] != first["token"]
    assert Host.objects.get().state == Host.State.READY


def test_a_freed_host_that_is_cordoned_stays_cordoned(db: None, client: Client) -> None:
    register(client)
    Host.objects.update(token_hash="", state=Host.State.CORDONED)
    register(client)
    assert Host.objects.get().state == Host.State.CORDONED


def test_all_faults_of_a_registration_are_told_together(db: None, client: Client) -> None:
    answer = register(client, name="a\nb", region=7, address=None)
    assert answer.status_code == 400
    assert [fault["field"] for fault in answer.json()["errors"]] == ["name", "region", "address"]
    assert not Host.objects.exists()


@pytest.mark.parametrize(
    ("protocol", "status"), [(0, 426), (None, 400), ("1", 400), (True, 400), (1, 201), (2, 201)]
)
def test_a_protocol_that_is_too_old_is_told_so(
    db: None, client: Client, protocol: object, status: int
) -> None:
    assert register(client, protocol=protocol).status_code == status


@pytest.mark.parametrize(
    ("regions", "expected"), [([], "default"), (["GZ"], "GZ"), (["GZ", "SZ"], "default")]
)
def test_a_blank_region_is_the_only_one_there_is(db: None, regions: list[str], expected: str) -> None:
    Region.objects.bulk_create(Region(name=name) for name in regions)
    host, _ = inventory.register("h1", "", "")
    assert Host.objects.get(pk=host).region.name == expected


def reported(*cards: dict[str, object]) -> list[CardReport]:
    """Return cards as a report has them."""
    return [CardReport(**one) for one in cards]  # type: ignore[arg-type]


def take_cards(host: Host, *cards: dict[str, object]) -> int:
    """Take a report of these cards, and return how many rows that changed."""
    changed = inventory.changed_cards(host.pk, reported(*cards))
    inventory.report_cards(host.pk, changed)
    return len(changed)


def test_new_cards_get_rows_and_an_unknown_type_is_made_once(world: World) -> None:
    host = world.host("h1", cards=0)
    assert take_cards(host, words.card(0, "H100"), words.card(1, "h100", uuid="GPU-1", memory_mib=80)) == 2
    assert GpuType.objects.get().name == "H100"
    assert host.cards.get(index=1).uuid == "GPU-1"
    assert take_cards(host, words.card(0, "H100"), words.card(1, "H100", uuid="GPU-1", memory_mib=80)) == 0


def test_a_renamed_type_keeps_answering_to_its_old_name(world: World) -> None:
    host = world.host("h1", cards=1)
    GpuType.objects.update(name="Tesla P40", aliases=["P40"])
    assert take_cards(host, words.card(0, "p40")) == 0
    assert take_cards(host, words.card(0, "p40", state="broken", reason="XID 79")) == 1
    assert GpuType.objects.get().name == "Tesla P40"


@pytest.mark.parametrize(
    "change",
    [{"gpu_type": "M40"}, {"uuid": "GPU-9"}, {"memory_mib": 1}, {"state": "external"}, {"reason": "hot"}],
)
def test_a_card_that_changed_keeps_its_row(world: World, change: dict[str, object]) -> None:
    host = world.host("h1", cards=2)
    before = set(host.cards.values_list("pk", flat=True))
    assert take_cards(host, words.card(0), words.card(1, **{"gpu_type": "P40", **change})) == 1  # type: ignore[arg-type]
    assert set(host.cards.values_list("pk", flat=True)) == before
    assert inventory.changed_cards(host.pk, reported(words.card(0), words.card(1))) != []


def test_a_card_no_longer_reported_is_missing_and_comes_back(world: World) -> None:
    host = world.host("h1", cards=2)
    assert take_cards(host, words.card(0)) == 1
    assert host.cards.get(index=1).state == Card.State.MISSING
    assert take_cards(host, words.card(0)) == 0
    assert take_cards(host, words.card(0), words.card(1)) == 1
    assert host.cards.get(index=1).state == Card.State.OK


def test_only_hosts_silent_for_too_long_become_lost_and_only_once(world: World) -> None:
    silent, heard, never = (world.host(name, cards=0) for name in ("silent", "heard", "never"))
    Host.objects.exclude(pk=never.pk).update(last_seen_at=NOW - timedelta(seconds=91))
    Host.objects.filter(pk=heard.pk).update(last_seen_at=NOW - timedelta(seconds=89))
    assert inventory.sweep(NOW, 90) == [silent.pk]
    assert inventory.sweep(NOW, 90) == []
    silent.refresh_from_db()
    assert silent.lost_since == NOW


def test_a_sweep_that_finds_nothing_is_one_query(
    world: World, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    world.host("h1")
    with django_assert_num_queries(1):
        inventory.sweep(NOW, 90)


def count() -> dict[tuple[str, str], tuple[int, int]]:
    """Return region and type → (free, largest block)."""
    return {(one.region, one.gpu_type): (one.free, one.largest_block) for one in free_cards(NOW)}


def test_free_cards_are_counted_by_region_and_type(world: World) -> None:
    world.host("h1", 8)
    leased = world.host("h2", 8)
    world.host("h3", 4, "M40", "GZ")
    words.launch(leased, cards=3)
    assert count() == {("GZ", "M40"): (4, 4), ("SZ", "P40"): (13, 8)}


def test_released_cards_are_free_again(world: World) -> None:
    host = world.host("h1", 4)
    pk = words.launch(host, gang=7, cards=4)
    assert count() == {("SZ", "P40"): (0, 0)}
    Instance.objects.filter(pk=pk).update(phase="gone")
    agents.release([7])
    assert count() == {("SZ", "P40"): (4, 4)}


@pytest.mark.parametrize("state", ["cordoned", "draining", "quarantined"])
def test_hosts_that_take_no_work_offer_none_but_keep_their_place(world: World, state: str) -> None:
    world.host("h1", 8)
    Host.objects.update(state=state)
    assert count() == {("SZ", "P40"): (0, 0)}


def test_lost_hosts_offer_none(world: World) -> None:
    world.host("h1", 8)
    Host.objects.update(lost_since=NOW)
    assert count() == {("SZ", "P40"): (0, 0)}


def test_removed_hosts_and_missing_cards_are_not_there_at_all(world: World) -> None:
    world.host("h1", 8)
    world.host("h2", 8, "M40")
    Card.objects.filter(gpu_type__name="M40").update(state="missing")
    Host.objects.filter(name="h1").update(state="removed")
    assert count() == {}


@pytest.mark.parametrize("state", ["broken", "external"])
def test_cards_that_are_broken_or_used_from_outside_are_not_free(world: World, state: str) -> None:
    host = world.host("h1", 8)
    host.cards.filter(index__lt=3).update(state=state)
    assert count() == {("SZ", "P40"): (5, 5)}


def test_held_cards_are_not_free_and_never_count_below_none(world: World) -> None:
    host, other = world.host("h1", 8), world.host("h2", 2)
    gpu_type = world.gpu_type("P40").pk
    held = {host.pk: {gpu_type: 5}, other.pk: {gpu_type: 8}}
    assert [(one.free, one.largest_block) for one in free_cards(NOW, held)] == [(3, 3)]


@pytest.mark.parametrize(
    ("free", "low", "high"),
    [
        (0, 0, 0),
        (1, 1, 3),
        (3, 1, 3),
        (4, 4, 7),
        (7, 4, 7),
        (8, 8, 16),
        (16, 8, 16),
        (17, 17, 32),
        (33, 33, 64),
        (64, 33, 64),
        (65, 65, None),
        (66, 65, None),
    ],
)
def test_ranges(world: World, free: int, low: int, high: int | None) -> None:
    host = world.host("h1", max(free, 1))
    if not free:
        host.cards.update(state="broken")
    figure: FreeCards = free_cards(NOW)[0]
    assert (figure.free, figure.low, figure.high, figure.as_of) == (free, low, high, NOW)


def test_free_cards_are_one_query_whatever_there_is(
    world: World, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    for number in range(6):
        world.host(f"h{number}", 4, ["P40", "M40"][number % 2], ["SZ", "GZ", "BJ"][number % 3])
    with django_assert_num_queries(1):
        assert len(free_cards(NOW)) == 6
