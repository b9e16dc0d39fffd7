"""Views of the list: those for all, and filters that somebody named."""

import pytest
from django.test import Client

from jobs import kept_views
from jobs.models import SavedView
from jobs.portal import views
from tests.world import World


def tabs(browser: Client, query: str = "") -> dict[str, bool]:
    """Return the names of the views, and which is shown."""
    return {str(tab.name): tab.active for tab in browser.get(f"/tasks/{query}").context["tabs"]}


def save(browser: Client, name: str, query: str) -> str:
    """Save a view, and return the page that follows."""
    answer = browser.post("/tasks/views/", {"name": name, "query": query}, follow=True)
    return str(answer.content.decode())


def test_the_views_for_all_are_there_and_the_shown_one_is_marked(ann: Client) -> None:
    assert tabs(ann) == {
        "All": True,
        "My open": False,
        "Waiting": False,
        "Running": False,
        "Failed today": False,
    }
    assert tabs(ann, "?user=me&state=open&q=")["My open"]
    assert not any(tabs(ann, "?user=me&state=open&q=x").values())


@pytest.mark.parametrize("query", list(views.FOR_ALL))
def test_every_view_for_all_is_a_page_without_faults(query: str, ann: Client) -> None:
    assert ann.get(f"/tasks/?{query}").context["faults"] == []


def test_a_saved_view_is_ones_own_and_leads_back_to_its_filters(ann: Client, colleague: Client) -> None:
    assert "is saved" in save(ann, "夜间", "state=failed&q=night&below=7&odd=1")
    assert tabs(ann, "?q=night&state=failed")["夜间"]
    assert 'href="/tasks/?q=night&amp;state=failed"' in ann.get("/tasks/").content.decode()
    assert "夜间" not in tabs(colleague)


def test_saving_under_a_name_that_is_there_changes_its_filters(ann: Client) -> None:
    save(ann, "mine", "state=failed")
    save(ann, "mine", "state=open")
    assert [(view.name, view.query) for view in SavedView.objects.all()] == [("mine", "state=open")]


@pytest.mark.parametrize(
    ("name", "query", "said"),
    [
        ("", "state=open", "Name: write 1 to 40"),
        ("x" * 41, "state=open", "Name: write 1 to 40"),
        ("a\x00b", "state=open", "Name: write 1 to 40"),
        ("all", "", "Filters: set at least one"),
        ("long", "q=" + "x" * 3000, "Filters: set at least one"),
    ],
)
def test_a_view_without_a_name_or_filters_is_refused_with_what_would_do(
    name: str, query: str, said: str, ann: Client
) -> None:
    assert said in save(ann, name, query)
    assert not SavedView.objects.exists()


def test_so_many_views_are_enough(ann: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_views, "MOST", 1)
    save(ann, "one", "state=open")
    assert "you have 1 views" in save(ann, "two", "state=open")
    assert "is saved" in save(ann, "one", "state=over")


def test_only_its_owner_removes_a_view(world: World, ann: Client, colleague: Client) -> None:
    save(ann, "mine", "state=open")
    address = f"/tasks/views/{SavedView.objects.get().pk}/remove/"
    assert colleague.post(address).status_code == 404
    assert ann.get(address).status_code == 405
    assert "is removed" in ann.post(address, follow=True).content.decode()
    assert not SavedView.objects.exists()


def test_a_name_is_shown_as_text(ann: Client) -> None:
    save(ann, "<b>x</b>", "state=open")
    assert "<b>x" not in ann.get("/tasks/").content.decode()
