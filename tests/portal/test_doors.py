"""Who gets into which page."""

import pytest
from django.test import Client, RequestFactory
from django.urls import reverse
from django.views.defaults import server_error

from jobs.models import Task
from tests.world import World

PAGES = ["/", "/tasks/", "/tasks/new/", "/templates/"]


@pytest.mark.django_db
@pytest.mark.parametrize(
    "address",
    [
        *PAGES,
        "/tasks/1/",
        "/tasks/1/stop/",
        "/tasks/new/preview/",
        "/tasks/new/fill/",
        "/templates/1/remove/",
    ],
)
def test_whoever_is_not_logged_in_is_led_to_the_login(client: Client, address: str) -> None:
    answer = client.get(address)
    assert answer.status_code == 302
    assert answer["Location"] == f"{reverse('login')}?next={address}"


@pytest.mark.django_db
def test_a_fragment_asked_for_after_the_session_ended_is_refused_and_reloads_no_page(client: Client) -> None:
    answer = client.get("/?part=cards", headers={"HX-Request": "true"})
    assert answer.status_code == 401
    assert "HX-Refresh" not in answer
    assert b"password" not in answer.content


def test_an_inactive_user_gets_in_no_more(world: World, ann: Client) -> None:
    user = world.user("ann")
    user.is_active = False
    user.save()
    assert ann.get("/tasks/").status_code == 302


def test_a_number_beyond_all_tasks_is_not_found(ann: Client) -> None:
    page = ann.get(f"/tasks/{10**30}/")
    assert page.status_code == 404
    assert "Nothing is here" in page.content.decode()


def test_the_page_of_a_failure_needs_nothing_that_could_fail_too(rf: RequestFactory) -> None:
    assert "Something went wrong" in server_error(rf.get("/")).content.decode()


def test_pages_are_not_kept_by_caches(ann: Client) -> None:
    assert "no-store" in ann.get("/tasks/")["Cache-Control"]


def test_a_user_logs_in_and_out(world: World, client: Client) -> None:
    user = world.user("ann")
    user.set_password("a long secret")
    user.save()
    wrong = client.post("/login/", {"username": "ann", "password": "no"})
    assert "Please enter a correct username and password" in wrong.content.decode()
    right = client.post(
        "/login/?next=/tasks/", {"username": "ann", "password": "a long secret", "next": "/tasks/"}
    )
    assert right["Location"] == "/tasks/"
    assert client.post("/logout/")["Location"] == "/login/"
    assert client.get("/").status_code == 302


def test_logging_in_leads_nowhere_outside(world: World, client: Client) -> None:
    user = world.user("ann")
    user.set_password("a long secret")
    user.save()
    form = {"username": "ann", "password": "a long secret", "next": "https://elsewhere.test/"}
    assert client.post("/login/", form)["Location"] == "/"


@pytest.fixture
def task(world: World, ann: Client) -> Task:
    return world.task("ads", "ann", task_flag="of-ann")


@pytest.mark.parametrize(
    ("who", "sees"), [("ann", True), ("colleague", True), ("operator", True), ("outsider", False)]
)
def test_a_task_shows_to_its_business_and_to_operators_alone(
    who: str, sees: bool, task: Task, request: pytest.FixtureRequest
) -> None:
    browser: Client = request.getfixturevalue(who)
    page = browser.get(f"/tasks/{task.pk}/")
    assert page.status_code == (200 if sees else 404)
    assert (b"of-ann" in browser.get("/tasks/").content) is sees
    assert (b"of-ann" in page.content) is sees
    copied = browser.get(f"/tasks/new/?clone={task.pk}")
    assert copied.status_code == (200 if sees else 404)


@pytest.mark.parametrize(
    ("who", "status", "state"),
    [
        ("ann", 302, "held"),
        ("operator", 302, "held"),
        ("colleague", 403, "queued"),
        ("outsider", 404, "queued"),
    ],
)
def test_only_the_owner_and_operators_hold_a_task(
    who: str, status: int, state: str, task: Task, request: pytest.FixtureRequest
) -> None:
    browser: Client = request.getfixturevalue(who)
    assert browser.post(f"/tasks/{task.pk}/hold/").status_code == status
    task.refresh_from_db()
    assert task.state == state


def test_a_lead_of_the_business_stops_the_task_of_another(world: World, task: Task, login: "object") -> None:
    browser = login(world.user("lea", "ads", role="lead"))  # type: ignore[operator]
    assert browser.post(f"/tasks/{task.pk}/stop/").status_code == 302
    task.refresh_from_db()
    assert task.state == "stopped"


def test_nothing_is_done_without_the_token_against_forgery(world: World, task: Task) -> None:
    strict = Client(enforce_csrf_checks=True)
    strict.force_login(world.user("ann"))
    answer = strict.post(f"/tasks/{task.pk}/stop/")
    assert answer.status_code == 403
    assert "This page was open for too long" in answer.content.decode()
    task.refresh_from_db()
    assert task.state == "queued"


def test_the_way_to_the_admin_shows_to_staff_alone(ann: Client, operator: Client) -> None:
    assert b"/admin/" in operator.get("/").content
    assert b"/admin/" not in ann.get("/").content
