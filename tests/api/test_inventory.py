"""Free cards, hosts, quotas, businesses and templates over the API."""

from django.utils import timezone
from pytest_django import DjangoAssertNumQueries

from cluster.models import Card, Host
from jobs.models import Claim, Template
from quotas.models import Quota
from tests.api.conftest import Caller, run
from tests.world import World


def test_free_cards_are_ranges_with_the_largest_block(ann: Caller, world: World) -> None:
    world.host("m1", 4, "M40", region="SH")
    run(world.task(cards=3), "h1", 0, 1, 2)
    m40, p40 = ann.get("free-cards/").json()
    assert (m40["region"], m40["gpu_type"], m40["low"], m40["high"], m40["largest_block"]) == (
        "SH",
        "M40",
        4,
        4,  # there are no more
        4,
    )
    assert (p40["region"], p40["gpu_type"], p40["low"], p40["high"], p40["largest_block"]) == (
        "SZ",
        "P40",
        8,
        16,
        8,
    )
    assert set(p40) == {"region", "gpu_type", "low", "high", "largest_block", "as_of"}


def test_operators_and_auditors_see_the_number_of_free_cards_itself(ann: Caller, world: World) -> None:
    run(world.task(cards=3), "h1", 0, 1, 2)
    for exactly in (world.operator(), world.auditor()):
        (p40,) = Caller(exactly).get("free-cards/").json()
        assert (p40["low"], p40["high"], p40["largest_block"]) == (13, 13, 8)


def test_cards_held_for_a_task_to_come_are_not_free(ann: Caller, world: World) -> None:
    h1 = Host.objects.get(name="h1")
    Claim.objects.create(
        task=world.task(cards=6),
        gpu_type=world.gpu_type("P40"),
        hosts={str(h1.pk): 6},
        made_at=timezone.now(),
    )
    Host.objects.filter(name="h2").update(state=Host.State.CORDONED)
    [p40] = ann.get("free-cards/").json()
    assert (p40["low"], p40["high"], p40["largest_block"]) == (1, 3, 2)


def test_hosts_are_listed_with_their_cards(
    ann: Caller, world: World, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    run(world.task(cards=1), "h1", 7)
    Card.objects.filter(host__name="h1", index=0).update(state="broken")
    Card.objects.filter(host__name="h1", index=1).update(state="missing")
    Host.objects.filter(name="h2").update(lost_since=timezone.now())
    world.host("h3")
    Host.objects.filter(name="h3").update(state="removed")
    with django_assert_num_queries(4):
        h1, h2 = ann.get("hosts/").json()["results"]
    assert (h1["name"], h1["region"], h1["state"], h2["state"]) == ("h1", "SZ", "ready", "lost")
    assert [card["index"] for card in h1["cards"]] == [0, 2, 3, 4, 5, 6, 7]
    assert h1["cards"][0] == {"index": 0, "gpu_type": "P40", "state": "broken", "in_use": False}
    assert h1["cards"][-1]["in_use"]
    assert not {"token_hash", "address", "agent_boot"} & set(h1)


def test_hosts_come_in_pages(ann: Caller) -> None:
    first = ann.get("hosts/", limit=1).json()
    assert [host["name"] for host in first["results"]] == ["h1"]
    rest = ann.get(first["next"].removeprefix("http://testserver/api/v1/")).json()
    assert ([host["name"] for host in rest["results"]], rest["next"]) == (["h2"], None)


def test_quotas_are_shown_with_their_use(
    ann: Caller, outsider: Caller, world: World, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    p40, sz = world.gpu_type("P40"), world.region("SZ")
    Quota.objects.create(business=world.business("ads"), gpu_type=p40, region=sz, cards=8, elastic_cards=4)
    run(world.task(cards=2), "h1", 0, 1)
    run(world.task(cards=1), "h1", 2, task_class="elastic")
    run(world.task(cards=1), "h1", 3, ended_at=timezone.now(), outcome="failed")
    run(world.task("search", "zoe", cards=1), "h1", 4)
    with django_assert_num_queries(4):
        whole, region = ann.get("quotas/").json()["results"]
    assert (whole["business"], whole["region"], whole["cards"], whole["used"], whole["elastic_used"]) == (
        "ads",
        None,
        16,
        2,
        1,
    )
    assert (region["region"], region["cards"], region["used"], region["elastic_cards"]) == ("SZ", 8, 2, 4)
    assert outsider.get("quotas/").json()["results"] == []


def test_businesses_are_the_callers_own(ann: Caller, outsider: Caller) -> None:
    (shown,) = ann.get("businesses/").json()["results"]
    assert shown.pop("id")
    assert shown == {"business_flag": "ads", "name": "", "default_gpu_types": ["P40"]}
    assert [row["business_flag"] for row in outsider.get("businesses/").json()["results"]] == ["search"]


def test_templates_are_those_for_all_and_ones_own(ann: Caller, world: World) -> None:
    for name, business in (("all", None), ("mine", "ads"), ("theirs", "search")):
        owner = world.business(business) if business else None
        Template.objects.create(name=name, business=owner, config={"start_cmd": "true"})
    assert [row["name"] for row in ann.get("templates/").json()["results"]] == ["all", "mine"]
