"""What the pages of operators have in common: who gets in, and that they speak Chinese."""

from zoneinfo import available_timezones

import pytest
from django.test import Client
from django.urls import reverse

from cluster import host_moves
from jobs.engine import passes, what_ifs
from jobs.simulation.what_if import Change, HostChange, NewHosts, QuotaChange
from jobs.what_ifs import WhatIf
from quotas.models import Reservation
from tests.portal.test_chinese import english
from tests.portal.test_what_if import answered
from tests.world import World

ADDRESSES = (
    *("/hosts/", "/hosts/map/", "/hosts/1/", "/hosts/1/charts/", "/hosts/1/drain/", "/cluster/scheduler/"),
    *("/cluster/reservations/", "/cluster/what-if/", "/cluster/what-if/new/", "/cluster/what-if/1/"),
    *("/cluster/what-if/1/apply/", "/cluster/what-if/1/call-off/"),
)


@pytest.mark.django_db
@pytest.mark.parametrize("address", ADDRESSES)
def test_whoever_is_not_logged_in_is_led_to_the_login(client: Client, address: str) -> None:
    answer = client.get(address)
    assert answer.status_code == 302
    assert answer["Location"] == f"{reverse('login')}?next={address}"


def test_the_way_to_what_is_for_operators_and_auditors_shows_to_them_alone(
    ann: Client, operator: Client
) -> None:
    for address in ("/cluster/what-if/", "/cluster/reservations/"):
        assert address.encode() in operator.get("/").content
        assert address.encode() not in ann.get("/").content
    for address in ("/hosts/", "/cluster/scheduler/"):
        assert address.encode() in ann.get("/").content


@pytest.fixture
def reader(world: World, operator: Client) -> Client:
    """Return the browser of an operator who reads Chinese, among something of everything."""
    operator.post("/i18n/setlang/", {"language": "zh-hans"})
    host = world.host("h2")
    world.task(cards=4, task_flag="一", wanted_class="elastic", pull_up=True)
    world.task(cards=2, task_flag="二", time_limit_s=7200)
    passes.run()
    world.task(cards=16, task_flag="三", reason_code="quota")
    host_moves.act(host, "cordon", actor_id=world.operator().pk, reason="风扇太响")
    Reservation.objects.create(business=world.business(), gpu_type=world.gpu_type(), cards=99)
    return operator


KEYS = (
    "placement",
    "priority",
    "fifo",
    "reserve",
    "skip",
    "strict",
    "KILL",
)  # of the policy, and their values
OURS = ("root", "spread", "high", "elastic", "ms", "worker")


@pytest.mark.parametrize(
    "address",
    ["/hosts/", "/hosts/?q=none", "/cluster/scheduler/", "/cluster/what-if/", "/cluster/what-if/new/"],
)
def test_a_page_says_no_word_of_english(address: str, reader: Client) -> None:
    assert english(reader.get(address), *OURS, *KEYS) == []


def test_the_calendar_says_no_word_of_english_but_names_of_zones(reader: Client) -> None:
    assert english(reader.get("/cluster/reservations/"), *OURS, *available_timezones()) == []


@pytest.mark.parametrize("verb", ["", "cordon/", "drain/", "remove/", "uncordon/"])
def test_a_host_says_no_word_of_english(verb: str, world: World, reader: Client) -> None:
    for host in (world.host("h1"), world.host("h2")):
        assert english(reader.get(f"/hosts/{host.pk}/{verb}"), *OURS, "Xid", "agent") == []


@pytest.mark.parametrize("state", WhatIf.State.values)
def test_a_question_in_any_state_says_no_word_of_english(state: str, world: World, reader: Client) -> None:
    gpu_type, region = world.gpu_type().pk, world.region().pk
    change = Change(
        quotas=(QuotaChange(business=world.business().pk, gpu_type=gpu_type, region=region, cards=4),),
        policy={"placement": "spread", "slice_s": 60.0},
        added=(NewHosts(region=region, gpu_type=gpu_type, hosts=2, cards=8),),
        hosts=(HostChange(host=world.host("h1").pk, verb="cordon"),),
    )
    question = answered(world, change) if state == "done" else what_ifs.ask(world.operator(), 7, change)
    WhatIf.objects.filter(pk=question.pk).update(state=state, fault="failed" if state == "failed" else "")
    address = f"/cluster/what-if/{question.pk}/"
    assert english(reader.get(address), *OURS) == []
    assert english(reader.post(f"{address}apply/", {"reason": ""}), *OURS) == []
