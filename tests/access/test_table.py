"""Every address of the product, asked by somebody of each role."""

from typing import Any

import pytest
from django.apps import apps
from django.core import serializers

from jobs.portal import urls as portal
from tests.access.people import IN, METHODS, NO_METHOD, ROLES, House, routes
from tests.access.table import TABLE
from tests.world import World

ADMIN = "admin/"
# What is an auditor's own.
OWN = ("account/", "login/", "logout/", "api/v1/tokens/", "api/v1/views/", "tasks/views/", "i18n/")
# How he comes in, and what is written of it.
NOT_WATCHED = {"ownedsession", "session", "auditentry", "logintries"}


def test_every_address_has_a_row_and_every_row_an_address() -> None:
    there = {route for route in routes() if not route.startswith(ADMIN)}
    assert there - set(TABLE) == set(), "say in tests/access/table.py who gets in there"
    assert set(TABLE) - there == set(), "these addresses are gone"


def test_everybody_gets_in_where_the_table_says_and_nowhere_else(world: World) -> None:
    house = House(world)
    wrong = []
    for route in TABLE:
        path = house.path(route)
        for method, letters in TABLE[route].items():
            found = "".join(house.ask(role, method, path) for role in ROLES)
            if found != letters:
                wrong.append(f"{method.upper()} {route}: {found}, not {letters}")
    assert wrong == []


def test_methods_that_are_not_in_the_table_do_nothing_more_than_a_look(world: World) -> None:
    house = House(world)
    wrong = []
    for route, row in TABLE.items():
        for method in METHODS[1:]:
            if method in row:
                continue
            found = house.ask("operator", method, house.path(route))
            if found not in {NO_METHOD, row.get("get", NO_METHOD)[-1]}:
                wrong.append(f"{method.upper()} {route}: {found}")
    assert wrong == []


def test_a_page_of_the_portal_knows_no_method_but_those_of_the_table(world: World) -> None:
    house = House(world)
    pages = {str(pattern.pattern) for pattern in portal.urlpatterns} - {"login/", "logout/"}
    wrong = []
    for route in sorted(pages):
        row = TABLE[route]
        if "h" in row.get("get", "")[-1:]:  # it does not exist where no provider is set
            continue
        for method in METHODS[1:]:
            if method not in row and (found := house.ask("operator", method, house.path(route))) != NO_METHOD:
                wrong.append(f"{method.upper()} {route}: {found}")
    assert len(pages) > 30
    assert wrong == []


def contents() -> str:
    """Return all that the product's tables hold."""
    rooms = [apps.get_app_config(name) for name in ("cluster", "quotas", "jobs", "auth")]
    models = [
        model for room in rooms for model in room.get_models() if model._meta.model_name not in NOT_WATCHED
    ]
    return "".join(serializers.serialize("json", model._base_manager.order_by("pk")) for model in models)


def test_an_auditor_changes_nothing_anywhere(world: World) -> None:
    house = House(world)
    before = contents()
    changed: list[str] = []

    def compare(said: str) -> Any:
        return lambda: changed.append(said) if contents() != before else None

    for route in routes():
        if route.startswith(OWN):
            continue
        # The admin knows of no other method, and has many addresses.
        for method in METHODS[1:2] if route.startswith(ADMIN) else METHODS[1:]:
            house.answer("auditor", method, house.path(route), then=compare(f"{method.upper()} {route}"))
    assert changed == []


@pytest.mark.parametrize("role", ["outsider", "stranger", "member", "owner", "lead"])
def test_the_admin_does_not_exist_for_people_of_businesses(role: str, world: World) -> None:
    house = House(world)
    seen = [
        route
        for route in routes()
        if route.startswith(ADMIN)
        and "(?P" not in route
        and route not in {"admin/login/", "admin/logout/", "admin/jsi18n/"}
        and house.ask(role, "get", house.path(route)) == IN
    ]
    assert seen == []


def test_operators_and_auditors_see_all_of_the_admin(world: World) -> None:
    house = House(world)
    for role in ("auditor", "operator"):
        page = house.clients[role].get("/admin/").content.decode()
        for name in ("Businesses", "Quotas", "Hosts", "Policy", "API tokens"):
            assert name in page, (role, name)
    assert house.ask("operator", "get", "/admin/quotas/quota/add/") == IN
    assert house.ask("auditor", "get", "/admin/quotas/quota/") == IN
    assert house.ask("auditor", "get", "/admin/quotas/quota/add/") != IN
