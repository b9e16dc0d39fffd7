"""Hosts for operators, over the API and in the admin: what they are used for, who said so, and why."""

from datetime import timedelta
from typing import Any

import pytest
import time_machine
from django.test import Client
from django.urls import reverse
from django.utils import timezone
from django.utils.html import escape

from cluster import clock, host_events, host_moves
from cluster.fencing import QUIET_S
from cluster.host_states import State
from cluster.models import Host, HostEvent
from quotas.audit import AuditEntry
from tests.api.conftest import Caller, errors
from tests.world import World


@pytest.fixture
def root(world: World) -> Caller:
    """Return an operator."""
    return Caller(world.operator())


@pytest.fixture
def h1(ann: Caller) -> Host:
    """Return the host h1."""
    return Host.objects.get(name="h1")


def test_an_operator_takes_a_host_out_and_back_and_it_is_known_who_when_and_why(
    root: Caller, h1: Host
) -> None:
    answer = root.post(f"hosts/{h1.pk}/cordon/", {"reason": "fan is loud"})
    assert (answer.status_code, answer.json()) == (
        200,
        {"id": h1.pk, "name": "h1", "state": "cordoned", "reason": "fan is loud"},
    )
    assert root.post(f"hosts/{h1.pk}/drain/", {"reason": "it has to go"}).json()["state"] == "draining"
    assert root.post(f"hosts/{h1.pk}/uncordon/").json()["state"] == "ready"
    events = root.get(f"hosts/{h1.pk}/events/").json()["results"]
    assert [(one["code"], one["actor"], one["reason"]) for one in events] == [
        ("uncordon", "root", ""),
        ("drain", "root", "it has to go"),
        ("cordon", "root", "fan is loud"),
    ]
    assert (events[1]["old_state"], events[1]["new_state"]) == ("cordoned", "draining")
    assert events[1]["message"] == "Draining: takes no starts, and its elastic tasks leave"


def test_a_removed_host_leaves_the_list_and_may_be_restored(root: Caller, ann: Caller, h1: Host) -> None:
    assert root.post(f"hosts/{h1.pk}/remove/", {"reason": "sold"}).json()["state"] == "removed"
    assert [host["name"] for host in ann.get("hosts/").json()["results"]] == ["h2"]
    assert root.post(f"hosts/{h1.pk}/restore/").json()["state"] == "ready"


@pytest.mark.parametrize(
    ("verb", "body", "wrong"),
    [
        ("cordon", None, {"reason": "required"}),
        ("drain", {"reason": "  "}, {"reason": "required"}),
        ("remove", {"reason": None}, {"reason": "required"}),
        ("cordon", {"reason": 7}, {"reason": "type"}),
        ("cordon", {"reason": "x" * 256}, {"reason": "value"}),
        ("uncordon", {"reason": "a\nb"}, {"reason": "value"}),
        ("cordon", {"reason": "x", "state": "ready"}, {"state": "unknown"}),
        ("cordon", ["x"], {"": "type"}),
    ],
)
def test_a_bad_body_is_refused_with_all_that_is_wrong(
    root: Caller, h1: Host, verb: str, body: object, wrong: dict[str, str]
) -> None:
    answer = root.post(f"hosts/{h1.pk}/{verb}/", body)
    assert (answer.status_code, errors(answer)) == (400, wrong)
    assert not HostEvent.objects.exists()


def test_what_the_state_forbids_is_a_conflict_that_says_what_can_be_done(root: Caller, h1: Host) -> None:
    answer = root.post(f"hosts/{h1.pk}/restore/")
    assert (answer.status_code, errors(answer)) == (409, {"": "state"})
    assert "cordon, drain, remove" in answer.json()["errors"][0]["message"]


@pytest.mark.parametrize("verb", ["cordon", "uncordon", "drain", "remove", "restore"])
def test_only_operators_steer_hosts(ann: Caller, outsider: Caller, h1: Host, verb: str) -> None:
    for caller in (ann, outsider):
        assert caller.post(f"hosts/{h1.pk}/{verb}/", {"reason": "x"}).status_code == 403
        assert caller.post("hosts/99999/cordon/", {"reason": "x"}).status_code == 404
    nobody = Client().post(f"/api/v1/hosts/{h1.pk}/{verb}/", "{}", content_type="application/json")
    assert nobody.status_code == 401
    assert (Host.objects.get(pk=h1.pk).state, HostEvent.objects.count()) == ("ready", 0)


def test_only_operators_read_what_happened_and_see_removed_hosts(root: Caller, ann: Caller, h1: Host) -> None:
    assert ann.get(f"hosts/{h1.pk}/events/").status_code == 403
    Host.objects.filter(pk=h1.pk).update(state="removed")
    assert ann.get(f"hosts/{h1.pk}/events/").status_code == 404
    assert ann.post(f"hosts/{h1.pk}/restore/").status_code == 404
    assert root.get(f"hosts/{h1.pk}/events/").status_code == 200


def test_staff_who_are_no_operators_are_no_operators_here(world: World, h1: Host) -> None:
    staff = world.user("sue", "ads")
    staff.is_staff = True
    staff.save()
    assert Caller(staff).post(f"hosts/{h1.pk}/cordon/", {"reason": "x"}).status_code == 403


def test_the_list_says_what_to_look_at(ann: Caller, h1: Host) -> None:
    Host.objects.filter(pk=h1.pk).update(
        clock_offset_s=420.0, agent_protocol=1, agent_version="0.0.9", last_seen_at=timezone.now()
    )
    host_moves.move(h1.pk, State.READY, State.QUARANTINED, args={"failed": [3, 5, 7]})
    shown = ann.get("hosts/").json()["results"][0]
    assert (shown["state"], shown["reason"]) == ("quarantined", "3 tasks failed at start here: 3, 5, 7")
    assert (shown["clock_offset_s"], shown["agent_version"]) == (420.0, "0.0.9")
    assert [word.split()[1] for word in shown["warnings"]] == ["agent", "clock"]


def test_calls_that_fail_again_and_again_are_told_wherever_a_host_is_shown(
    root: Caller, browser: Client, h1: Host
) -> None:
    figures = {"over_s": 600, "made": 42, "failed": 12, "times": 3, "longest_s": 3, "fault": "<b>cut</b>"}
    Host.objects.filter(pk=h1.pk).update(calls=figures, last_seen_at=timezone.now())
    said = (
        "Its calls to the platform fail again and again: 12 of 42 in 600 s, at 3 times, for 3 s at most. "
        "The last: <b>cut</b>"
    )
    assert root.get(f"hosts/{h1.pk}/").json()["warnings"] == [said]
    for url in (reverse("host", args=[h1.pk]), page_of(h1)):
        assert escape(said) in browser.get(url).content.decode()


@pytest.mark.parametrize("off", [-timedelta(hours=1), timedelta(hours=1)], ids=["behind", "ahead"])
@pytest.mark.parametrize("door", ["API", "page"])
def test_when_it_was_goes_by_the_database_whatever_the_clock_of_the_web_server(
    root: Caller, browser: Client, h1: Host, door: str, off: timedelta, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clock, "follows", True)
    right = timezone.now()
    with time_machine.travel(right + off):
        if door == "API":
            assert root.post(f"hosts/{h1.pk}/cordon/", {"reason": "fan is loud"}).status_code == 200
        else:
            browser.post(
                reverse("host-verb", args=[h1.pk, "cordon"]), {"reason": "fan is loud", "seen": "ready"}
            )
    event = HostEvent.objects.get(code="cordon")
    assert abs(event.at - right) < timedelta(seconds=30)
    assert (event.actor, event.reason) == (root.user, "fan is loud")


# In the admin


@pytest.fixture
def browser(world: World, h1: Host) -> Client:
    """Return an operator's browser."""
    client = Client()
    client.force_login(world.operator())
    return client


def page_of(host: Host) -> str:
    return reverse("admin:cluster_host_change", args=[host.pk])


def save(browser: Client, host: Host, **fields: str) -> Any:
    return browser.post(page_of(host), {"cards-TOTAL_FORMS": "0", "cards-INITIAL_FORMS": "0", **fields})


def test_the_page_of_a_host_offers_only_what_is_legal(browser: Client, h1: Host) -> None:
    def offered() -> list[str]:
        return [
            value for value, _ in browser.get(page_of(h1)).context["adminform"].form.fields["state"].choices
        ]

    assert offered() == ["ready", "cordoned", "draining", "removed"]
    Host.objects.update(state="quarantined")
    assert offered() == ["ready", "cordoned", "draining", "quarantined", "removed"]
    Host.objects.update(state="removed")
    assert offered() == ["ready", "removed"]
    refused = save(browser, h1, state="draining", state_reason="x")
    assert "state" in refused.context["adminform"].errors


def test_the_page_of_a_host_shows_what_happened_and_who_did_it(browser: Client, h1: Host) -> None:
    save(browser, h1, state="cordoned", state_reason="<b>fan</b>")
    save(browser, h1, state="cordoned", state_reason="fan, again")
    save(browser, h1, state="ready", state_reason="fan, again")
    assert Host.objects.get(pk=h1.pk).state_reason == ""  # it said why the host was out
    events = list(HostEvent.objects.order_by("id").values_list("code", "reason", "actor__username"))
    assert events == [
        ("cordon", "<b>fan</b>", "root"),
        ("explained", "fan, again", "root"),
        ("uncordon", "", "root"),
    ]
    page = browser.get(page_of(h1)).content.decode()
    assert "Cordoned: takes no starts (root: &lt;b&gt;fan&lt;/b&gt;)" in page
    assert "Takes tasks again (root)" in page


def test_a_quarantined_host_shows_which_tasks_failed_and_is_cleared(browser: Client, h1: Host) -> None:
    host_moves.move(h1.pk, State.READY, State.QUARANTINED, args={"failed": [3, 5, 7]})
    said = "3 tasks failed at start here: 3, 5, 7"
    assert said in browser.get(page_of(h1)).content.decode()
    assert said in browser.get(reverse("admin:cluster_host_changelist")).content.decode()
    save(browser, h1, state="ready", state_reason="")
    host = Host.objects.get(pk=h1.pk)
    assert (host.state, host_events.reason(host.state_reason, host.state_args)) == ("ready", "")


def test_the_list_of_hosts_says_of_a_removed_one_that_it_is_removed_not_that_it_is_lost(
    browser: Client, h1: Host
) -> None:
    silent = Host.objects.filter(pk=h1.pk)
    for state, shown in (("ready", "lost"), ("removed", "removed")):
        silent.update(state=state, lost_since=timezone.now())
        page = browser.get(reverse("admin:cluster_host_changelist"), {"q": "h1"}).content.decode()
        assert f'<td class="field-condition">{shown}</td>' in page


def test_who_saves_a_page_that_shows_an_old_state_of_the_host_is_told_and_changes_nothing(
    browser: Client, h1: Host
) -> None:
    shown = browser.get(page_of(h1)).content.decode()
    assert 'name="initial-state" value="ready"' in shown
    host_moves.move(h1.pk, State.READY, State.QUARANTINED, args={"failed": [3, 5, 7]})
    old_page = {"state": "ready", "initial-state": "ready", "state_reason": "well oiled"}
    refused = save(browser, h1, **old_page)
    assert "changed by somebody else" in str(refused.context["adminform"].errors)
    assert Host.objects.get(pk=h1.pk).state == "quarantined"
    save(browser, h1, **(old_page | {"initial-state": "quarantined"}))
    assert Host.objects.get(pk=h1.pk).state == "ready"


def test_another_machine_is_let_in_by_an_operator_and_noted(browser: Client, h1: Host) -> None:
    Host.objects.update(machine="m1", seat="s1", last_seen_at=timezone.now() - timedelta(seconds=QUIET_S))
    url = reverse("admin:cluster_host_changelist")
    browser.post(url, {"action": "accept_machine", "_selected_action": [h1.pk]})
    assert set(Host.objects.values_list("name", "machine", "seat")) == {("h1", "", ""), ("h2", "m1", "s1")}
    assert list(HostEvent.objects.values_list("code", "actor__username")) == [("machine_accepted", "root")]
    assert list(AuditEntry.objects.values_list("deed", "actor", "target")) == [("host.changed", "root", "h1")]


def test_no_other_machine_is_let_in_while_the_agent_of_the_host_is_heard(browser: Client, h1: Host) -> None:
    seen = timezone.now() - timedelta(seconds=QUIET_S)
    Host.objects.update(machine="m1", seat="s1", last_seen_at=seen)
    Host.objects.filter(pk=h1.pk).update(last_seen_at=timezone.now() - timedelta(seconds=QUIET_S - 30))
    chosen = list(Host.objects.values_list("pk", flat=True))
    url = reverse("admin:cluster_host_changelist")
    answer = browser.post(url, {"action": "accept_machine", "_selected_action": chosen}, follow=True)
    refused, done = map(str, answer.context["messages"])
    assert refused.startswith("The agent of h1 was heard less than 45 s ago. Stop it")
    assert done.startswith("The next agent that calls with the token of 1 host")
    assert set(Host.objects.values_list("name", "machine", "seat")) == {("h1", "m1", "s1"), ("h2", "", "")}
    assert HostEvent.objects.get(code="machine_accepted").host.name == "h2"
