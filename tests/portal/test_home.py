"""The first page: free cards, one's own tasks, templates."""

import pytest
from django.test import Client
from pytest_django import DjangoAssertNumQueries

from cluster.models import Host
from jobs.models import Claim, Template
from tests.portal.conftest import run
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


def test_the_exact_number_of_free_cards_stays_unsaid(world: World, ann: Client) -> None:
    world.host("h2", 5)
    world.host("h3", 6)
    cards = text(ann, "/?part=cards", **{"HX-Request": "true"})
    assert ">17–32<" in cards
    assert ">19<" not in cards


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
    with django_assert_num_queries(8):
        ann.get("/")
    with django_assert_num_queries(4):
        ann.get("/?part=cards", headers={"HX-Request": "true"})
