"""The admin asked with what no link of it says: by hand, by a stale page, by a robot; never an answer of 500."""

import re
from collections.abc import Iterator
from urllib.parse import urlencode

import pytest
from django.contrib import admin
from django.contrib.admin import ModelAdmin
from django.db import transaction
from django.db.models import ForeignKey, Model
from django.test import Client
from django.urls import reverse

from cluster.models import Region
from quotas.models import Quota
from tests.access.people import House
from tests.world import World

HUGE = "9" * 40
ODD = ("", "x", "-1", "1.5", HUGE, "\x00", "%", "'\"<", "١", "[1]", "1,2", "null", "日本", "(", "a" * 2000)
ODDEST = ("x", HUGE, "\x00", "(")
ODD_KEYS = (
    "page",
    "p",
    "o",
    "q",
    "e",
    "all",
    "term",
    "_popup",
    "_to_field",
    "_changelist_filters",
    "_facets",
)
NO_SUCH_ROW = ("x", "-1", HUGE, "1.5", "_00", "日本", "1/../2")


def sites() -> Iterator[tuple[type[Model], ModelAdmin]]:  # type: ignore[type-arg]  # of any model
    yield from admin.site._registry.items()


def page_of(model: type[Model], name: str, *args: object) -> str:
    return reverse(f"admin:{model._meta.app_label}_{model._meta.model_name}_{name}", args=args)


def fields_of(model: type[Model], kind: type = object) -> list[str]:
    fields = (*model._meta.fields, *model._meta.many_to_many)
    return [field.name for field in fields if isinstance(field, kind)]


def keys_of_lists(model: type[Model], known: ModelAdmin) -> Iterator[str]:  # type: ignore[type-arg]
    """Return what a list may be narrowed by, and what nobody foresaw."""
    filters = [
        each if isinstance(each, str) else getattr(each, "parameter_name", "") for each in known.list_filter
    ]
    yield from (f"{name}__exact" for name in filters)
    yield from (f"{name}__id__exact" for name in fields_of(model, ForeignKey))
    yield from ("pk", "pk__in", "id__gte", "pk__regex", "pk__nothing", "nothing", "p", "o", "q")


@pytest.fixture
def root(world: World) -> Client:
    """Return the browser of an operator, in a world in which there is one of everything."""
    return House(world).clients["operator"]


def broken(browser: Client, path: str, query: dict[str, str]) -> Iterator[str]:
    address = f"{path}?{urlencode(query)}"
    with transaction.atomic():  # so that what one breaks is no fault of the next
        status = browser.get(address).status_code
    if status >= 500:
        yield f"{status} GET {address[:150]}"


def test_no_list_breaks_at_an_odd_filter(root: Client) -> None:
    wrong = [
        fault
        for model, known in sites()
        for key in keys_of_lists(model, known)
        for value in ODDEST
        for fault in broken(root, page_of(model, "changelist"), {key: value})
    ]
    assert wrong == []


@pytest.mark.parametrize("key", ["e", "all", "_popup", "_to_field", "_changelist_filters", "_facets"])
def test_no_list_breaks_at_an_odd_word_of_the_admin_itself(root: Client, key: str) -> None:
    page = page_of(Quota, "changelist")
    assert [fault for value in ODD for fault in broken(root, page, {key: value})] == []


def test_no_empty_form_breaks_at_an_odd_value_to_begin_with(root: Client) -> None:
    wrong = [
        fault
        for model, _ in sites()
        for value in ODD
        for fault in broken(root, page_of(model, "add"), dict.fromkeys(fields_of(model), value))
    ]
    assert wrong == []


def test_no_form_breaks_at_an_odd_value_that_is_sent(root: Client) -> None:
    wrong = []
    for model, _ in sites():
        path = page_of(model, "add")
        shown = root.get(path)
        if shown.status_code != 200 or "adminform" not in (shown.context or {}):
            continue
        names = re.findall(r'<(?:input|select|textarea)[^>]* name="([^"]+)"', shown.content.decode())
        for value in ODD:
            with transaction.atomic():
                answer = root.post(path, dict.fromkeys(names, value))
            if answer.status_code >= 500:
                wrong.append(f"{answer.status_code} POST {path} all {value[:20]!r}")
    assert wrong == []


def test_no_search_of_a_field_breaks_at_odd_words(root: Client) -> None:
    path = reverse("admin:autocomplete")
    good = {"app_label": "quotas", "model_name": "quota", "field_name": "business", "term": "a"}
    assert root.get(path, good).status_code == 200
    wrong = [
        fault
        for key in (*good, "page")
        for value in ODD
        for fault in broken(root, path, {**good, key: value})
    ]
    assert wrong == []


def test_no_page_of_a_row_that_is_not_there_breaks(root: Client) -> None:
    wrong = [
        fault
        for model, _ in sites()
        for name in ("change", "delete", "history")
        for pk in NO_SUCH_ROW
        for fault in broken(root, page_of(model, name, pk), {})
    ]
    assert wrong == []


@pytest.mark.parametrize(
    "order", [("delete_selected", ""), ("", "delete_selected"), ("delete_selected", "x")]
)
@pytest.mark.parametrize("index", ["0", "1", "-1"])
def test_a_list_that_is_asked_for_several_things_does_none(
    world: World, order: tuple[str, str], index: str
) -> None:
    kept = world.region("BJ")
    browser = Client()
    browser.force_login(world.operator())
    form = {"action": list(order), "index": index, "_selected_action": [kept.pk], "post": "yes"}
    assert browser.post(reverse("admin:cluster_region_changelist"), form).status_code == 400
    assert Region.objects.filter(pk=kept.pk).exists()


def test_a_list_that_is_asked_for_one_thing_does_it(world: World) -> None:
    gone = world.region("BJ")
    browser = Client()
    browser.force_login(world.operator())
    form = {"action": "delete_selected", "index": "0", "_selected_action": [gone.pk], "post": "yes"}
    assert browser.post(reverse("admin:cluster_region_changelist"), form).status_code == 302
    assert not Region.objects.filter(pk=gone.pk).exists()
