"""The first page: free cards, one's own tasks, templates."""

from datetime import UTC, datetime, timedelta

import pytest
from django.contrib.auth.models import User
from django.test import Client
from pytest_django import DjangoAssertNumQueries

from cluster import fresh, samples
from cluster.models import Host
from jobs.models import Claim, Template
from jobs.portal import free_cards
from quotas.models import PlatformRole, Quota
from tests.portal.conftest import Login, run
from tests.world import World


def text(browser: Client, address: str = "/", **headers: str) -> str:
    return " ".join(browser.get(address, headers=headers).content.decode().split())


def test_free_cards_show_as_a_range_with_the_largest_block_and_the_time(world: World, ann: Client) -> None:
    world.host("h2", 4)
    run(world.task(cards=8), world.host("h1"))
    page = text(ann)
    assert ">4–7<" in page
    assert "up to 4 on one host" in page
    assert "as of " in page


def test_an_operator_sees_the_exact_number_and_the_hosts_behind_it(world: World, operator: Client) -> None:
    world.host("h2", 5)
    world.host("h3", 5)
    page = text(operator)
    assert ">18<" in page
    assert "2 hosts have 5 free" in page
    assert "1 host has 8 free" in page


def test_the_largest_gang_that_would_start_now_is_a_click_away(world: World, ann: Client) -> None:
    run(world.task(cards=2), world.host("h1"))
    world.host("h2", 6)
    world.host("h3", 3)
    page = text(ann)
    assert "a gang of 2 × 6 starts now" in page
    form = ann.get("/tasks/new/?gpu_type=P40&region=SZ&host_num=2&host_gpu_num=6").context["form"]
    assert [str(form[name].value()) for name in ("host_num", "host_gpu_num")] == ["2", "6"]


def test_what_is_left_of_my_quotas_stands_beside_what_is_idle(world: World, ann: Client) -> None:
    run(world.task(cards=8), world.host("h1"))
    world.business("speech", P40=64)
    page = text(ann)
    assert "quota of ads" in page
    assert "8 of 16 left" in page
    assert "speech" not in page


def test_a_quota_without_a_region_is_not_taken_for_one_of_each(world: World, ann: Client) -> None:
    world.host("elsewhere", region="BJ")
    page = text(ann)
    assert page.count("16 of 16 left") == page.count("all regions together") == 2
    ann.post("/i18n/setlang/", {"language": "zh-hans"})
    assert "所有地域合计" in text(ann)


def test_a_quota_of_the_region_caps_what_is_left_in_it(world: World, ann: Client) -> None:
    Quota.objects.create(
        business=world.business("ads"), gpu_type=world.gpu_type(), region=world.region("SZ"), cards=4
    )
    world.host("elsewhere", region="BJ")
    tiles = {
        region.name: region.tiles[0] for region in free_cards.by_region(free_cards.kind_of(world.user("ann")))
    }
    left = {name: tile.quotas[0] for name, tile in tiles.items()}
    assert [(name, quota.left) for name, quota in left.items()] == [("BJ", 16), ("SZ", 4)]
    assert [quota.everywhere for quota in left.values()] == [True, False]
    assert text(ann).count("all regions together") == 1


def test_the_last_day_is_drawn_from_left_to_right_and_no_higher_than_the_most() -> None:
    now = datetime(2030, 1, 2, tzinfo=UTC)
    day = [(now - timedelta(hours=24 - 6 * n), free) for n, free in enumerate((0, 8, 4, 8, 2))]
    assert free_cards.line(day, now) == "0.0,23.0 24.0,1.0 48.0,12.0 72.0,1.0 96.0,17.5"


@pytest.mark.parametrize("day", [[], [(datetime(2030, 1, 1, tzinfo=UTC), 3)]])
def test_a_line_takes_two_points(day: list[tuple[datetime, int]]) -> None:
    assert free_cards.line(day, datetime(2030, 1, 1, 1, tzinfo=UTC)) == ""


def test_a_day_without_any_free_card_is_a_flat_line() -> None:
    now = datetime(2030, 1, 2, tzinfo=UTC)
    assert free_cards.line([(now - timedelta(hours=1), 0), (now, 0)], now) == "92.0,23.0 96.0,23.0"


def test_the_quarters_of_the_last_day_are_asked_for_and_no_others(world: World) -> None:
    world.host("h1")
    now = datetime(2030, 1, 2, 8, 31, tzinfo=UTC)
    for before in (timedelta(0), timedelta(minutes=1), timedelta(hours=3, minutes=16), timedelta(hours=25)):
        samples.take(now - before, {})
    [course] = samples.last_day(now).values()
    assert course == [
        (datetime(2030, 1, 2, 5, 15, tzinfo=UTC), 8),
        (datetime(2030, 1, 2, 8, 30, tzinfo=UTC), 8),
    ]


def test_the_exact_number_of_free_cards_stays_unsaid(world: World, ann: Client) -> None:
    world.host("h2", 5)
    world.host("h3", 6)
    cards = text(ann, "/?part=cards", **{"HX-Request": "true"})
    assert ">17–19<" in cards, "there are no more than 19"
    assert ">19<" not in cards


def test_a_range_ends_at_what_there_is(world: World, ann: Client) -> None:
    assert ">8<" in text(ann), "eight cards are no 8–16"
    world.host("h2", 5)
    fresh.forget_all()
    assert ">8–13<" in text(ann)


def test_whoever_belongs_to_no_business_is_told_so_and_whom_to_ask(world: World, login: Login) -> None:
    world.business("ads", P40=16)
    User.objects.create(
        username="root", is_superuser=True, first_name="Rita", last_name="Root", email="r@x.io"
    )
    User.objects.create(username="gone", is_superuser=True, is_active=False)
    PlatformRole.objects.create(user=world.user("opal"), role="operator")
    new = login(world.user("newcomer"))
    for address in ("/", "/tasks/new/", "/tasks/new/?gpu_type=P40"):
        page = text(new, address)
        assert "You belong to no business yet" in page
        assert "<bdi>opal</bdi>, <bdi>Rita Root &lt;r@x.io&gt;</bdi>" in page
        assert "gone" not in page
    assert 'id="config"' not in text(new, "/tasks/new/"), "a form that could never be submitted"
    new.post("/i18n/setlang/", {"language": "zh-hans"})
    assert "您还不属于任何业务" in text(new, "/tasks/new/")
    world.user("newcomer", "ads")
    assert "no-business" not in text(new) + text(new, "/tasks/new/")


def test_an_operator_before_the_first_business_is_led_to_adding_one(world: World, login: Login) -> None:
    page = text(login(world.operator()), "/tasks/new/")
    assert "There is no business yet" in page
    assert 'href="/admin/quotas/business/add/"' in page


def test_a_type_of_which_none_is_free_says_so(world: World, ann: Client) -> None:
    run(world.task(cards=8), world.host("h1"))
    assert "none is free now" in text(ann)


def test_many_free_cards_have_no_upper_end(world: World, ann: Client) -> None:
    for number in range(9):
        world.host(f"big{number}")
    assert ">65+<" in text(ann)


def test_cards_held_for_a_task_are_not_offered(world: World, ann: Client) -> None:
    host = world.host("h1")
    Claim.objects.create(
        task=world.task(), gpu_type=world.gpu_type(), hosts={str(host.pk): 8}, made_at="2030-01-01T00:00:00Z"
    )
    assert "none is free now" in text(ann)


def test_a_click_on_free_cards_opens_an_elastic_form_of_that_type_and_region(
    world: World, ann: Client
) -> None:
    world.host("h2", gpu_type="A100 & co", region="S Z")
    link = "/tasks/new/?gpu_type=A100%20%26%20co&amp;region=S%20Z"
    assert link in text(ann)
    form = ann.get(link.replace("&amp;", "&")).context["form"]
    assert form["GPUName"].value() == "A100 & co"
    assert form["region"].value() == "S Z"
    assert form["is_elasticity"].value() == "true"


def test_an_installation_without_cards_says_how_they_come(world: World, ann: Client) -> None:
    world.host("h1").cards.all().delete()
    Host.objects.all().delete()
    assert "No cards yet" in text(ann)


def test_only_my_own_tasks_that_are_not_over_stand_on_the_first_page(world: World, ann: Client) -> None:
    world.task(task_flag="mine-waits")
    world.task(task_flag="mine-is-over", state="succeeded")
    world.task(user="cid", task_flag="not-mine")
    page = text(ann)
    assert "mine-waits" in page
    assert "mine-is-over" not in page
    assert "not-mine" not in page


def test_the_first_page_leads_to_all_of_my_own_tasks(world: World, ann: Client) -> None:
    world.task(task_flag="mine-is-over", state="succeeded")
    world.task(user="cid", task_flag="not-mine")
    link = ann.get("/").content.decode().partition(">All of mine<")[0].rpartition('href="')[2].rstrip('"')
    page = text(ann, link)
    assert "mine-is-over" in page
    assert "not-mine" not in page


def test_templates_for_all_and_for_my_businesses_are_offered(world: World, ann: Client) -> None:
    Template.objects.create(name="for all", config={})
    Template.objects.create(name="for ads", business=world.business("ads"), config={})
    Template.objects.create(name="for speech", business=world.business("speech"), config={})
    page = text(ann)
    assert "for all" in page
    assert "for ads" in page
    assert "for speech" not in page


@pytest.mark.parametrize(
    ("part", "has", "lacks"), [("cards", 'id="cards"', 'id="mine"'), ("mine", 'id="mine"', "P40")]
)
def test_htmx_gets_one_fragment(ann: Client, part: str, has: str, lacks: str) -> None:
    fragment = text(ann, f"/?part={part}", **{"HX-Request": "true"})
    assert has in fragment
    assert lacks not in fragment
    assert "<html" not in fragment


@pytest.mark.parametrize("tasks", [1, 6])
def test_the_first_page_takes_as_many_queries_for_many_as_for_few(
    tasks: int, world: World, ann: Client, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    for number in range(tasks):
        world.host(f"more{number}", region=f"R{number}")
        world.task(task_flag=f"t{number}")
    with django_assert_num_queries(16):  # two of them say when the scheduler last looked: it never did here
        ann.get("/")
    with django_assert_num_queries(6):
        ann.get("/?part=cards", headers={"HX-Request": "true"})
