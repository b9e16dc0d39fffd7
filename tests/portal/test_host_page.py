"""The page of one host, and taking it out: whom it hits is said before it is done, and only operators do it."""

from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone

from cluster import host_moves
from cluster.host_states import State
from cluster.models import CardMinute, Host, HostEvent
from jobs.engine import passes
from jobs.models import Task
from jobs.portal.host_page import EVENTS
from tests.portal.conftest import Login, run
from tests.world import World


@pytest.fixture
def host(world: World, ann: Client) -> Host:
    return world.host("h1")


def address(host: Host, more: str = "") -> str:
    return f"/hosts/{host.pk}/{more}"


def test_the_cards_show_the_tasks_on_them(world: World, host: Host, operator: Client) -> None:
    task = world.task(task_flag="mine", cards=2)
    run(task, host)
    page = operator.get(address(host))
    assert f'href="/tasks/{task.pk}/"' in page.content.decode()
    assert [card.in_use for card in page.context["cards"]] == [True] * 2 + [False] * 6


def test_cards_of_a_place_that_is_kept_are_held_and_idle_until_it_is_free_again(
    world: World, host: Host, operator: Client
) -> None:
    task = world.task(cards=2)
    until = timezone.now() + timedelta(minutes=30)
    run(task, host, keep_until=until)
    assert "held, idle" not in operator.get(address(host)).content.decode()
    Task.objects.update(state="keeping")
    page = operator.get(address(host)).content.decode()
    assert page.count(f"held, idle, kept until {timezone.localtime(until):%H:%M}") == 2
    assert f'href="/tasks/{task.pk}/"' in page


def test_a_member_sees_his_own_tasks_there_and_of_others_only_that_a_card_is_in_use(
    world: World, host: Host, ann: Client
) -> None:
    other = world.host("h2")
    run(world.task(task_flag="mine", cards=2), host)
    run(world.task("speech", "oz", task_flag="secret-name", cards=2), other)
    assert "mine" in ann.get(address(host)).content.decode()
    page = ann.get(address(other))
    assert "secret-name" not in page.content.decode()
    assert [card.in_use for card in page.context["cards"]][:3] == [True, True, False]


def test_what_happened_charts_and_buttons_are_not_for_members(
    host: Host, ann: Client, operator: Client, world: World
) -> None:
    host_moves.act(host, "cordon", actor_id=world.operator().pk, reason="the fan is loud")
    mine, theirs = ann.get(address(host)).content.decode(), operator.get(address(host)).content.decode()
    for text in ("host-events", "host-charts", "uncordon/"):
        assert text in theirs
        assert text not in mine
    assert "the fan is loud" in mine
    assert "by root" in theirs
    assert "by root" not in mine
    assert ann.get(address(host, "charts/")).status_code == 404


def test_what_happened_is_paged_by_the_last_one_shown(host: Host, operator: Client) -> None:
    for number in range(EVENTS + 2):
        HostEvent.objects.create(host=host, at=timezone.now(), code="card_back", args={"cards": str(number)})
    first = operator.get(address(host))
    assert len(first.context["events"]) == EVENTS
    second = operator.get(address(host), {"below": first.context["below"]})
    assert [event.said for event in second.context["events"]] == ["Back: card 1", "Back: card 0"]


def test_charts_give_what_was_measured_on_each_card(host: Host, operator: Client) -> None:
    now = int(timezone.now().timestamp() // 60)
    card = host.cards.get(index=3)
    CardMinute.objects.create(card=card, minute=now - 5, use_mean=70, memory_mean_mib=512, xids="79")
    found = operator.get(address(host, "charts/")).json()
    assert [each["index"] for each in found["cards"]] == list(range(8))
    assert 70 in found["cards"][3]["use"]
    assert found["cards"][3]["xids"] == [79]
    assert len(found["at"]) == len(found["cards"][3]["memory"])


def test_a_removed_host_is_there_for_operators_alone(host: Host, ann: Client, operator: Client) -> None:
    Host.objects.filter(pk=host.pk).update(state="removed")
    assert ann.get(address(host)).status_code == 404
    assert operator.get(address(host)).status_code == 200


@pytest.mark.parametrize("verb", ["cordon", "drain", "uncordon", "remove", "restore"])
def test_only_operators_may_take_a_host_out_or_give_it_back(
    verb: str, world: World, host: Host, ann: Client, login: Login
) -> None:
    lead = login(world.user("led", "ads", role="lead"))
    auditor = login(world.auditor())
    for somebody in (ann, lead, auditor):
        assert somebody.get(address(host, f"{verb}/")).status_code == 403
        given = {"reason": "because", "seen": "ready"}
        assert somebody.post(address(host, f"{verb}/"), given).status_code == 403
    host.refresh_from_db()
    assert host.state == State.READY


def test_before_a_host_is_drained_its_page_says_whom_it_hits(
    world: World, host: Host, operator: Client
) -> None:
    world.host("h2")
    elastic = world.task(
        "speech", "oz", task_flag="elastic-one", cards=4, wanted_class="elastic", pull_up=True
    )
    passes.run()
    high = world.task(task_flag="high-one", cards=4, time_limit_s=7200)
    passes.run()
    on = Host.objects.get(instances__gang=world.attempt(elastic).pk)
    assert Host.objects.get(instances__gang=world.attempt(high).pk) == on
    hit = operator.get(address(on, "drain/")).context["hit"]
    assert [(each.flag, each.business, each.cards) for each in hit.leavers] == [("elastic-one", "speech", 4)]
    assert hit.leavers[0].back_on == f"{'h2' if on.name == 'h1' else 'h1'} × 4"
    assert hit.leavers[0].back_at is not None
    assert [(each.flag, each.source) for each in hit.stayers] == [("high-one", "limit")]
    assert hit.free_at == hit.stayers[0].ends_at
    on.refresh_from_db()
    assert on.state == State.READY, "a look changes nothing"


def test_what_the_preview_of_a_drain_says_is_what_the_next_pass_does(
    world: World, host: Host, operator: Client
) -> None:
    task = world.task(cards=4, wanted_class="elastic", pull_up=True)
    stays = world.task(cards=2)
    passes.run()
    for each in (task, stays):
        world.host_says(each, "running")
    passes.run()
    said = operator.get(address(host, "drain/")).context["hit"]
    operator.post(address(host, "drain/"), {"reason": "new cables", "seen": "ready"})
    passes.run()
    task.refresh_from_db()
    stays.refresh_from_db()
    assert [each.id for each in said.leavers] == [task.pk]
    assert (task.state, stays.state) == ("evicting", "running")


def test_a_host_is_moved_with_the_reason_and_the_name_of_who_did_it(
    world: World, host: Host, operator: Client
) -> None:
    answer = operator.post(address(host, "cordon/"), {"reason": " the fan is loud ", "seen": "ready"})
    assert answer["Location"] == address(host)
    host.refresh_from_db()
    assert (host.state, host.state_reason) == (State.CORDONED, "the fan is loud")
    event = HostEvent.objects.get(host=host, code="cordon")
    assert (event.actor, event.reason) == (world.operator(), "the fan is loud")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"reason": "", "seen": "ready"}, "Say why"),
        ({"reason": "x" * 300, "seen": "ready"}, "at most 255"),
        ({"reason": "loud", "seen": "draining"}, "changed by somebody else"),
    ],
)
def test_a_move_without_a_reason_or_from_a_state_that_is_over_is_refused(
    given: dict[str, str], said: str, host: Host, operator: Client
) -> None:
    answer = operator.post(address(host, "cordon/"), given)
    assert answer.status_code == 409
    assert said in answer.content.decode()
    host.refresh_from_db()
    assert host.state == State.READY


def test_what_the_state_of_a_host_forbids_is_said_with_what_it_allows(host: Host, operator: Client) -> None:
    page = operator.get(address(host, "restore/")).content.decode()
    assert "what can be done is Cordon, Drain, Remove" in page
    assert operator.get(address(host, "dance/")).status_code == 404


def test_of_a_host_to_be_removed_all_that_runs_there_is_named_as_lost(
    world: World, host: Host, operator: Client
) -> None:
    task = world.task(cards=4)
    passes.run()
    hit = operator.get(address(host, "remove/")).context["hit"]
    assert [each.id for each in hit.lost] == [task.pk]
    assert hit.stayers == hit.leavers == []
