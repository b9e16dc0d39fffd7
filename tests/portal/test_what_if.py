"""The pages of what would have been: who may ask, what the form refuses, what an answer shows, making the change."""

from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from cluster.models import Host
from jobs.engine import what_ifs
from jobs.models import Policy
from jobs.portal.what_if import PAGE
from jobs.simulation.what_if import Change, HostChange, NewHosts, QuotaChange, compare, from_json
from jobs.what_ifs import WhatIf
from quotas.models import Quota
from tests.portal.conftest import Login
from tests.scheduling.test_what_if import setup
from tests.world import World

LIST = "/cluster/what-if/"
NEW = "/cluster/what-if/new/"


def change(world: World, cards: int = 24) -> Change:
    row = QuotaChange(business=world.business().pk, gpu_type=world.gpu_type().pk, region=None, cards=cards)
    return Change(quotas=(row,))


def asked(world: World, wanted: Change | None = None) -> WhatIf:
    return what_ifs.ask(world.operator(), 7, wanted or change(world))


def answered(world: World, wanted: Change | None = None) -> WhatIf:
    question = asked(world, wanted)
    about = {"since": 0, "tasks": 4, "still_running": 1, "never_ran": 2}
    result = {**compare(setup(), setup()), **about}
    WhatIf.objects.filter(pk=question.pk).update(state="done", done=100, result=result)
    question.refresh_from_db()
    return question


def form(world: World, **fields: Any) -> dict[str, Any]:
    """Return a form as the page sends it: one quota, and what `fields` say."""
    return {
        "days": 3,
        "quota_0_business": world.business().pk,
        "quota_0_gpu_type": world.gpu_type().pk,
        "quota_0_cards": 24,
        **fields,
    }


def faults(client: Client, given: dict[str, Any]) -> dict[str, list[str]]:
    answer = client.post(NEW, given)
    assert answer.status_code == 422
    assert not WhatIf.objects.exists()
    return {name: list(said) for name, said in answer.context["form"].errors.items()}


def test_members_and_leads_see_none_of_it(world: World, ann: Client, login: Login) -> None:
    question = asked(world)
    lead = login(world.user("led", "ads", role="lead"))
    for somebody in (ann, lead):
        for address in (LIST, NEW, f"{LIST}{question.pk}/"):
            assert somebody.get(address).status_code == 404
        for verb in ("call-off", "apply"):
            assert somebody.post(f"{LIST}{question.pk}/{verb}/", {"reason": "x"}).status_code == 404
    assert b"what-if" not in ann.get("/").content


def test_an_auditor_looks_and_neither_asks_nor_changes(world: World, ann: Client, login: Login) -> None:
    question = answered(world)
    auditor = login(world.auditor())
    page = auditor.get(f"{LIST}{question.pk}/")
    assert page.status_code == 200
    assert b'id="apply"' not in page.content
    assert auditor.get(LIST).status_code == 200
    assert b"/new/" not in auditor.get(LIST).content.split(b'class="page-body"')[1]
    assert auditor.get(NEW).status_code == 403
    for verb in ("call-off", "apply"):
        assert auditor.post(f"{LIST}{question.pk}/{verb}/", {"reason": "x"}).status_code == 403


def test_what_is_asked_is_what_was_typed(world: World, operator: Client) -> None:
    Policy.objects.create(pk=1, values={"slice_s": 60})
    host, other = world.host("h2"), world.host("h3")
    fields = {
        "policy_placement": "spread",
        "policy_aging_s": "600",
        "added_1_region": world.region().pk,
        "added_1_gpu_type": world.gpu_type().pk,
        "added_1_hosts": 2,
        "added_1_cards": 8,
        "cordon": f"{host.name}，",
        "remove": f" {other.name} ",
    }
    answer = operator.post(NEW, form(world, **fields))
    question = WhatIf.objects.get()
    assert answer["Location"] == f"{LIST}{question.pk}/"
    kept = from_json(question.change)
    assert (question.days, question.user) == (3, world.operator())
    assert kept.quotas == change(world).quotas
    assert kept.policy == {"placement": "spread", "aging_s": 600.0, "slice_s": None}
    assert kept.added == (NewHosts(region=world.region().pk, gpu_type=world.gpu_type().pk, hosts=2, cards=8),)
    assert set(kept.hosts) == {
        HostChange(host=host.pk, verb="cordon"), HostChange(host=other.pk, verb="remove")
    }  # fmt: skip
    key = f"{world.business().pk}/{world.gpu_type().pk}/"
    assert question.base["quotas"] == {key: 16}
    assert question.base["policy"] == {"aging_s": None, "placement": None, "slice_s": 60}


@pytest.mark.parametrize(
    ("fields", "name", "said"),
    [
        ({"quota_0_cards": ""}, "quota_0_cards", "or empty the whole line"),
        ({"quota_0_cards": "-1"}, "quota_0_cards", "greater than or equal to 0"),
        ({"quota_0_cards": "many"}, "quota_0_cards", "whole number"),
        ({"days": "0"}, "days", "greater than or equal to 1"),
        ({"days": "365"}, "days", "less than or equal to 30"),
        ({"policy_slice_s": "0"}, "policy_slice_s", "more than 0"),
        ({"policy_lost_after_s": "1"}, "policy_lost_after_s", "greater than or equal"),
        ({"cordon": "nobody, nowhere"}, "cordon", "There are no hosts nobody, nowhere."),
        ({"cordon": "h1", "remove": "h1"}, "remove", "named in both"),
        ({"added_0_hosts": "2"}, "added_0_region", "or empty the whole line"),
    ],
)
def test_a_fault_names_its_field_and_nothing_is_asked(
    fields: dict[str, str], name: str, said: str, world: World, operator: Client
) -> None:
    assert said in " ".join(faults(operator, form(world, **fields))[name])


def test_a_quota_stands_in_one_line(world: World, operator: Client) -> None:
    again = {
        "quota_1_business": world.business().pk,
        "quota_1_gpu_type": world.gpu_type().pk,
        "quota_1_cards": 4,
    }
    assert "quota_1_business" in faults(operator, form(world, **again))


def test_a_host_that_takes_no_tasks_already_is_not_tried_so(world: World, operator: Client) -> None:
    world.host("h9")
    Host.objects.filter(name="h9").update(state="cordoned")
    assert "h9 is cordoned already." in faults(operator, form(world, cordon="h9"))["cordon"]
    assert operator.post(f"{LIST}new/", form(world, remove="h9")).status_code == 302


def test_a_question_that_changes_nothing_is_refused(world: World, operator: Client) -> None:
    assert "__all__" in faults(operator, {"days": 7})
    Policy.objects.create(pk=1, values={"slice_s": 60})
    assert "__all__" in faults(operator, {"days": 7, "policy_slice_s": "60"})


def test_the_form_takes_few_queries_whatever_there_is(world: World, operator: Client) -> None:
    def queries() -> int:
        with CaptureQueriesContext(connection) as seen:
            operator.get(NEW)
        return len(seen)

    few = queries()
    for number in range(10):
        world.business(f"b{number}", **{f"T{number}": 4})
        world.region(f"R{number}")
    assert queries() == few


def test_a_question_that_is_open_shows_how_far_it_is_and_is_called_off(
    world: World, operator: Client
) -> None:
    question = asked(world)
    WhatIf.objects.filter(pk=question.pk).update(state="running", done=40)
    page = operator.get(f"{LIST}{question.pk}/").content.decode()
    assert 'value="40"' in page
    assert 'hx-trigger="every 2s"' in page
    operator.post(f"{LIST}{question.pk}/call-off/")
    question.refresh_from_db()
    assert question.state == "canceled"
    fragment = operator.get(f"{LIST}{question.pk}/", headers={"HX-Request": "true"}).content.decode()
    assert "was called off" in fragment
    assert "every 2s" not in fragment
    assert "<html" not in fragment


def test_an_answer_shows_waits_evictions_lost_work_and_use_before_and_after(
    world: World, operator: Client
) -> None:
    page = operator.get(f"{LIST}{answered(world).pk}/")
    whole = {str(pair.label): (pair.before, pair.after) for pair in page.context["whole"]}
    assert whole["95 % wait no longer than"] == ("2:51:00", "2:51:00")
    assert whole["card-hours in use"] == ("32.0", "32.0")
    assert whole["cards in use"] == ("100.0%", "100.0%")
    group = page.context["groups"][0]
    assert (group.business, str(group.task_class), group.tasks) == ("A", "high", 4)
    assert {pair.before_bar for pair in group.pairs} == {0, 100}
    assert len(page.context["courses"][0].cards.rows) == 120


def test_the_list_says_what_each_one_changes_and_goes_on_behind_the_last_shown(
    world: World, operator: Client
) -> None:
    for _ in range(PAGE + 1):
        asked(world)
    first = operator.get(LIST)
    step = first.context["rows"][0]["steps"][0]
    assert (step.what, step.then, step.new) == ("quota of ads · P40", "16", "24")
    second = operator.get(LIST, {"below": first.context["below"]})
    assert len(second.context["rows"]) == 1


def test_a_change_is_made_with_a_reason(world: World, operator: Client) -> None:
    question = answered(world)
    refused = operator.post(f"{LIST}{question.pk}/apply/", {"reason": " "})
    assert refused.status_code == 409
    assert "Say why" in refused.content.decode()
    assert Quota.objects.get(business=world.business()).cards == 16
    operator.post(f"{LIST}{question.pk}/apply/", {"reason": "the big run"})
    assert Quota.objects.get(business=world.business()).cards == 24
    page = operator.get(f"{LIST}{question.pk}/").content.decode()
    assert "by root: the big run" in page
    assert 'id="apply"' not in page


def test_a_change_is_refused_with_what_is_not_so_any_more(world: World, operator: Client) -> None:
    question = answered(world)
    Quota.objects.filter(business=world.business()).update(cards=20)
    refused = operator.post(f"{LIST}{question.pk}/apply/", {"reason": "the big run"})
    assert refused.status_code == 409
    assert "quota of ads · P40: was 16, is 20 now." in refused.content.decode()
    assert Quota.objects.get(business=world.business()).cards == 20


def test_a_change_for_a_business_that_went_is_refused_and_says_so(world: World, operator: Client) -> None:
    gone = world.business("gone")
    row = QuotaChange(business=gone.pk, gpu_type=world.gpu_type().pk, region=None, cards=8)
    question = answered(world, Change(quotas=(row,)))
    gone.delete()
    refused = operator.post(
        f"{LIST}{question.pk}/apply/", {"reason": "more work"}, headers={"accept-language": "zh-hans"}
    )
    assert refused.status_code == 409
    assert "业务、卡型或地域已不存在" in refused.content.decode()


def test_hosts_that_would_be_bought_can_only_be_tried(world: World, operator: Client) -> None:
    more = NewHosts(region=world.region().pk, gpu_type=world.gpu_type().pk, hosts=2, cards=8)
    alone = answered(world, Change(added=(more,)))
    assert b'id="apply"' not in operator.get(f"{LIST}{alone.pk}/").content
    mixed = answered(world, Change(added=(more,), policy={"placement": "spread"}))
    assert b"All but the hosts that would be bought" in operator.get(f"{LIST}{mixed.pk}/").content
