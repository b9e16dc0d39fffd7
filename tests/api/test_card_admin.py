"""Cards in the admin: what operators may say of one that a fault took out."""

import pytest
from django.contrib.auth.models import Permission
from django.test import Client
from django.urls import reverse

from cluster.models import Card, Host, HostEvent
from quotas.audit import AuditEntry
from tests.api.conftest import Caller
from tests.world import World

URL = "admin:cluster_card_changelist"


@pytest.fixture
def card(ann: Caller) -> Card:
    """Return a card of h1 that an Xid took out."""
    card = Card.objects.get(host__name="h1", index=3)
    Card.objects.filter(pk=card.pk).update(state="broken", state_reason="Xid 79", fault="f1")
    return card


def browser(world: World, name: str, *permissions: str) -> Client:
    """Return the browser of a member of staff with these permissions."""
    user = world.user(name)
    user.is_staff = True
    user.save()
    user.user_permissions.set(Permission.objects.filter(codename__in=permissions))
    client = Client()
    client.force_login(user)
    return client


def clear(client: Client, *cards: Card) -> str:
    """Choose the action for these cards; return the page after it."""
    data = {"action": "clear_faults", "_selected_action": [card.pk for card in cards]}
    return client.post(reverse(URL), data, follow=True).content.decode()


def test_an_operator_takes_a_fault_for_cured_and_that_is_noted(world: World, card: Card) -> None:
    well = Card.objects.get(host__name="h1", index=4)
    page = clear(browser(world, "olga", "view_card", "change_host"), card, well)
    assert "1 card is offered again." in page
    assert "The others have no fault" in page
    assert Host.objects.get(name="h1").cleared_faults == ["f1"]
    event = HostEvent.objects.get(code="card_cleared")
    assert (event.host.name, event.actor, event.args["cards"]) == ("h1", world.user("olga"), "3")
    assert list(AuditEntry.objects.values_list("deed", "actor", "target_id")) == [
        ("card.changed", "olga", str(card.pk))
    ]


def test_who_may_only_look_at_cards_may_not(world: World, card: Card) -> None:
    page = clear(browser(world, "victor", "view_card"), card)
    assert "is offered again" not in page
    assert Host.objects.get(name="h1").cleared_faults == []


def test_a_card_that_is_broken_as_long_as_it_is_seen_so_stays_out(world: World, card: Card) -> None:
    Card.objects.filter(pk=card.pk).update(fault="")
    page = clear(browser(world, "olga", "view_card", "change_host"), card)
    assert "0 cards are offered again." in page
    assert not HostEvent.objects.filter(code="card_cleared").exists()
