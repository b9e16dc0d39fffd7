"""The map of all cards and its table: what each card is used for, to those who may know it."""

from datetime import timedelta

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from cluster.fresh import forget_all
from cluster.models import Card, Host
from jobs.engine import card_map
from jobs.models import Claim
from jobs.portal.hosts_page import PAGE
from quotas.models import Reservation
from tests.portal.conftest import Login, run
from tests.world import World


def cells(world: World, name: str = "h1") -> str:
    forget_all()
    return next(block.cells for block in card_map.current().blocks if block.name == name)


def test_each_card_shows_what_it_is_used_for(world: World) -> None:
    host = world.host("h1")
    run(world.task(cards=2), host)
    elastic = world.host("h2", 2)
    run(world.task(cards=2, wanted_class="elastic"), elastic)
    host.cards.filter(index=6).update(state=Card.State.BROKEN)
    host.cards.filter(index=7).update(state=Card.State.EXTERNAL)
    assert cells(world) == "hhffffbo"
    assert cells(world, "h2") == "ee"


def test_a_card_that_its_host_reports_no_more_is_not_on_the_map(world: World) -> None:
    world.host("h1").cards.filter(index=7).update(state=Card.State.MISSING)
    assert cells(world) == "fffffff"


@pytest.mark.parametrize("state", ["cordoned", "draining", "quarantined", "lost"])
def test_free_cards_of_a_host_that_takes_no_tasks_are_not_free(world: World, state: str) -> None:
    host = world.host("h1", 2)
    lost = {"lost_since": timezone.now()} if state == "lost" else {"state": state}
    Host.objects.filter(pk=host.pk).update(**lost)
    assert cells(world) == "aa"
    assert card_map.current().blocks[0].state == state


def test_a_removed_host_is_not_on_the_map(world: World) -> None:
    Host.objects.filter(pk=world.host("h1").pk).update(state="removed")
    assert card_map.load().blocks == ()


def test_free_cards_that_a_claim_holds_are_held(world: World) -> None:
    host = world.host("h1")
    task = world.task(cards=3)
    Claim.objects.create(
        task=task, gpu_type=world.gpu_type(), hosts={str(host.pk): 3}, made_at=timezone.now()
    )
    assert cells(world) == "kkkfffff"


def test_free_cards_that_are_reserved_now_are_reserved_and_those_of_tomorrow_are_not(world: World) -> None:
    world.host("h1")
    now = timezone.now()
    row = Reservation.objects.create(
        business=world.business("speech"),
        gpu_type=world.gpu_type(),
        cards=2,
        kind="once",
        starts_at=now - timedelta(hours=1),
        ends_at=now + timedelta(hours=1),
    )
    assert cells(world) == "rrffffff"
    Reservation.objects.filter(pk=row.pk).update(starts_at=now + timedelta(minutes=30))
    assert cells(world) == "ffffffff"


def test_the_map_takes_the_same_number_of_queries_for_any_number_of_hosts(
    world: World, operator: Client
) -> None:
    def queries(address: str) -> int:
        forget_all()
        with CaptureQueriesContext(connection) as seen:
            operator.get(address)
        return len(seen)

    few = [queries("/hosts/"), queries("/hosts/map/")]
    for number in range(20):
        host = world.host(f"more-{number}", region=f"R{number}", gpu_type=f"T{number % 3}")
        run(world.task(cards=2, wanted_class="elastic"), host)
    assert [queries("/hosts/"), queries("/hosts/map/")] == few


def test_who_sees_all_tells_classes_apart_and_a_member_sees_only_that_cards_are_in_use(
    world: World, ann: Client, operator: Client
) -> None:
    run(world.task("speech", "oz", cards=2, wanted_class="elastic"), world.host("h1"))
    assert operator.get("/hosts/map/").json()["groups"][0]["hosts"][0][3] == "eeffffff"
    assert ann.get("/hosts/map/").json()["groups"][0]["hosts"][0][3] == "uuffffff"
    assert ann.get("/hosts/?card=e").context["hosts"] == 0
    assert operator.get("/hosts/?card=e").context["hosts"] == 1


def test_filters_narrow_map_and_table_alike(world: World, operator: Client) -> None:
    world.host("a-1", region="GZ")
    world.host("a-2", gpu_type="M40")
    Host.objects.filter(name="h1").update(state="cordoned")

    def found(query: str) -> tuple[list[str], list[str]]:
        groups = operator.get(f"/hosts/map/?{query}").json()["groups"]
        rows = operator.get(f"/hosts/?{query}").context["rows"]
        drawn = sorted(host[1] for group in groups for host in group["hosts"])
        return drawn, [row.block.name for row in rows]

    for query, names in {
        "": ["a-1", "a-2", "h1"],
        "region=GZ": ["a-1"],
        "gpu_type=M40": ["a-2"],
        "q=A-": ["a-1", "a-2"],
        "state=cordoned": ["h1"],
        "card=a": ["h1"],
        "card=b": [],
        "region=GZ&gpu_type=M40": [],
    }.items():
        assert found(query) == (names, names), query


def test_the_spread_of_free_cards_counts_hosts_by_them(world: World, operator: Client) -> None:
    run(world.task(cards=5), world.host("h2"))
    world.host("h3")
    spread = operator.get("/hosts/").context["spreads"][0]
    assert (spread.hosts, spread.cards, spread.free, spread.largest) == (3, 24, 19, 8)
    assert {bar.free: bar.hosts for bar in spread.bars if bar.hosts} == {3: 1, 8: 2}


def test_the_table_goes_on_behind_the_last_host_of_a_page(world: World, operator: Client) -> None:
    for number in range(PAGE + 3):
        world.host(f"n-{number:03}", 1)
    first = operator.get("/hosts/?q=n-")
    assert len(first.context["rows"]) == PAGE
    second = operator.get("/hosts/", {"q": "n-", "below": first.context["below"]})
    names = [row.block.name for row in second.context["rows"]]
    assert names == [f"n-{number:03}" for number in range(PAGE, PAGE + 3)]
    assert second.context["below"] == ""


def test_an_auditor_sees_what_an_operator_sees(world: World, ann: Client, login: Login) -> None:
    run(world.task(cards=2, wanted_class="elastic"), world.host("h1"))
    auditor = login(world.auditor())
    assert auditor.get("/hosts/map/").json()["groups"][0]["hosts"][0][3] == "eeffffff"
