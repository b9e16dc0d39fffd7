"""Lists of the admin fit thousands of rows: each search, filter and order costs what it costs for a few."""

import json
from collections.abc import Iterator
from datetime import timedelta
from typing import Any
from urllib.parse import urlencode

import pytest
from django.contrib import admin
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from jobs.models import Attempt, Task
from quotas.models import AuditEntry
from tests.api.test_kept_admin import address, root
from tests.api.thousands import fill
from tests.world import World

__all__ = ["root"]  # the fixture

FEW, THOUSANDS = 6, 2000
ON_A_PAGE = 4
NAME = "n00003"
SITE: dict[Any, admin.ModelAdmin] = admin.site._registry


@pytest.fixture
def few(world: World, root: Client, monkeypatch: pytest.MonkeyPatch) -> World:
    """Return a world with a few rows of each kind, whose lists have short pages."""
    for shown in SITE.values():
        monkeypatch.setattr(shown, "list_per_page", ON_A_PAGE)
    for number in range(2):  # a filter of one choice is not shown
        world.host(f"first-{number}", 1, f"T{number}", f"R{number}")
    fill(world, 0, FEW)
    return world


def queries_of(root: Client) -> dict[str, int]:
    """Return how many queries each address of each list takes, by address."""
    found = {}
    for where in _addresses(root):
        with CaptureQueriesContext(connection) as asked:
            answer = root.get(where)
        assert answer.status_code == 200, where
        found[where] = len(asked)
    return found


def _addresses(root: Client) -> Iterator[str]:
    for model, shown in SITE.items():
        start = address(model, "changelist")
        listed = root.get(start, follow=True).context.get("cl")
        if listed is None:
            continue  # the policy, of which there is one
        yield start
        yield f"{start}?p=2"
        queries = [list(spec.choices(listed))[1] for spec in listed.filter_specs]
        yield from (start + str(query["query_string"]) for query in queries)
        yield f"{start}?o={'.'.join(str(place) for place in range(1, len(shown.list_display)))}"
        if shown.search_fields:
            yield from (f"{start}?{urlencode({'q': term})}" for term in (NAME, "2", "no-such-thing"))
        for name in shown.autocomplete_fields:
            field = {
                "app_label": model._meta.app_label,
                "model_name": model._meta.model_name,
                "field_name": name,
            }
            yield from (f"/admin/autocomplete/?{urlencode({**field, 'term': term})}" for term in ("", NAME))


def test_every_list_asks_as_often_for_thousands_of_rows_as_for_a_few(few: World, root: Client) -> None:
    before = queries_of(root)
    fill(few, FEW, THOUSANDS)
    after = queries_of(root)
    assert {where: (before[where], number) for where, number in after.items() if number > before[where]} == {}
    assert max(after.values()) <= 12
    assert len(after) > 100, "there are lists, filters and orders to look at"


def choices_of(root: Client) -> dict[str, int]:
    """Return how many choices each form offers, by address."""
    pages = [
        address(model, "change", model.objects.order_by("pk")[0].pk)
        for model in SITE
        if model.objects.exists()
    ]
    return {page: root.get(page).content.count(b"<option") for page in pages}


def test_no_form_offers_thousands_of_choices_to_scroll_through(few: World, root: Client) -> None:
    before = choices_of(root)
    fill(few, FEW, FEW)
    assert choices_of(root) == before


def make_some_rare(few: World) -> None:
    """Fill a world with thousands of rows, of which a few are held, open or of another kind."""
    fill(few, FEW, THOUSANDS)
    some = list(Task.objects.order_by("pk").values_list("pk", flat=True)[:3])
    Task.objects.exclude(pk__in=some).update(state="succeeded", ended_at=timezone.now())
    Task.objects.filter(pk__in=some).update(state="held", wanted_class="auto")
    Attempt.objects.exclude(task__in=some).update(ended_at=timezone.now(), outcome="succeeded")
    Attempt.objects.filter(task__in=some[:1]).update(outcome="evicted", ended_at=timezone.now())
    Attempt.objects.filter(task__in=some[1:]).update(gpu_type=few.gpu_type("T1"), ended_at=None)
    entry = {"at": timezone.now() - timedelta(days=1), "deed": "host.drain", "address": "192.0.2.1"}
    AuditEntry.objects.create(**entry)
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")
        cursor.execute("SET LOCAL enable_seqscan = off")  # which is quick as long as a table is small


def looks() -> Iterator[tuple[Any, str]]:
    """Give the lists that may be of millions, and what is asked of them."""
    yield from ((Task, query) for query in ("", "state__exact=held", "open=auto", "q=7", f"q={NAME}", "q=no"))
    yield from (
        (Attempt, query) for query in ("", "is=open", "is=evicted", "gpu_type__id__exact={T1}", "q=7")
    )
    yield from ((AuditEntry, f"q={term}") for term in ("", "7", NAME, "host.drain", "192.0.2.1"))
    yield from ((AuditEntry, order) for order in ("o=1", "o=-1"))
    yield from ((model, "o=5") for model in (Task, Attempt, AuditEntry))  # not followed: it has no index


@pytest.mark.postgresql_alone
def test_an_index_leads_to_what_is_asked_of_a_list_of_millions(few: World, root: Client) -> None:
    if connection.vendor == "sqlite":
        return  # nobody has millions of rows there
    make_some_rare(few)
    unled = "SELECT id FROM jobs_task WHERE wanted_class = 'auto' ORDER BY id DESC LIMIT 10"
    assert list(_faults(unled, "jobs_task")), "what no index leads to is found out"
    faults = []
    for model, query in looks():
        asked, table = query.format(T1=few.gpu_type("T1").pk), model._meta.db_table
        with CaptureQueriesContext(connection) as captured:
            assert root.get(f"{address(model, 'changelist')}?{asked}").status_code == 200
        of_it = [one["sql"] for one in captured.captured_queries if f'FROM "{table}"' in one["sql"]]
        assert of_it or query == "q=no"
        faults += [fault for sql in of_it for fault in _faults(sql, table)]
    assert faults == []


def _faults(sql: str, table: str) -> Iterator[str]:
    """Give what reads rows of a table only to leave them out, or sorts many of them."""
    with connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN (FORMAT JSON) {sql}")
        (found,) = cursor.fetchone()
    plan = json.loads(found) if isinstance(found, str) else found
    for node in _nodes(plan[0]["Plan"]):
        kind, index = node["Node Type"], node.get("Index Name", "")
        is_of_it = node.get("Relation Name") == table
        if is_of_it and kind == "Seq Scan":
            yield f"{kind}: {sql}"
        if is_of_it and "Filter" in node and index.endswith("_pkey"):
            yield f"{index} with {node['Filter']}: {sql}"
        if kind == "Sort" and node["Plan Rows"] > THOUSANDS / 2:
            yield f"{kind} by {node['Sort Key']}: {sql}"


def _nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for inner in plan.get("Plans", ()):
        yield from _nodes(inner)
