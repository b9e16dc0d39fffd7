"""What would have been over the API: asked by names, followed, called off, and made as on the page."""

import json
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from cluster.models import Host
from jobs.api import what_if_shapes
from jobs.engine import what_ifs
from jobs.models import Policy
from jobs.simulation.what_if import Change, HostChange, NewHosts, from_json
from jobs.what_ifs import WhatIf
from quotas.audit import AuditEntry
from quotas.models import Quota
from tests.api.conftest import Caller, errors
from tests.portal.test_what_if import answered, asked, change
from tests.world import World

QUOTA = {"business": "ads", "gpu_type": "P40", "cards": 24}
MORE = {"region": "SZ", "gpu_type": "P40", "hosts": 2, "cards": 8}


@pytest.fixture
def root(ann: Caller, world: World) -> Caller:
    """Return an operator, in a world with ann of ads."""
    return Caller(world.operator())


def valid(answer: Any, shape: Any = what_if_shapes.ANSWERED) -> Any:
    """Return what was answered, which is as the description says."""
    found = answer.json()
    Draft202012Validator(json.loads(json.dumps(shape))).validate(found)
    return found


def deeds() -> list[str]:
    return list(AuditEntry.objects.filter(deed__startswith="whatif").values_list("deed", flat=True))


def test_what_is_asked_by_names_is_kept_and_shown_so_that_it_may_be_asked_again(
    root: Caller, world: World
) -> None:
    Policy.objects.create(pk=1, values={"slice_s": 60})
    wanted = {
        "quotas": [QUOTA],
        "policy": {"placement": "spread", "aging_s": 600, "slice_s": None, "min_run_s": 600},
        "added": [MORE],
        "cordon": ["h1"],
        "remove": [" h2 "],
    }
    answer = root.post("what-ifs/", wanted | {"days": 3})
    assert answer.status_code == 201
    made, kept = valid(answer), from_json(WhatIf.objects.get().change)
    assert (made["state"], made["days"], made["user"], made["result"]) == ("waiting", 3, "root", None)
    assert kept.quotas == change(world).quotas
    assert kept.policy == {"placement": "spread", "aging_s": 600.0, "slice_s": None}, (
        "what is so is no change"
    )
    assert kept.added == (NewHosts(region=world.region().pk, gpu_type=world.gpu_type().pk, hosts=2, cards=8),)
    assert kept.hosts == (
        HostChange(host=world.host("h1").pk, verb="cordon"),
        HostChange(host=world.host("h2").pk, verb="remove"),
    )
    assert {"what": "quota of ads · P40", "then": "16", "new": "24"} in made["steps"]
    assert root.post("what-ifs/", made["change"]).json()["change"] == made["change"]
    assert deeds() == ["whatif.asked"] * 2


def test_a_key_asks_once(root: Caller) -> None:
    for _time in range(2):
        assert root.post("what-ifs/", {"quotas": [QUOTA]}, Idempotency_Key="k").status_code == 201
    assert WhatIf.objects.count() == 1


@pytest.mark.parametrize(
    ("body", "refused"),
    [
        ({}, {"": "required"}),
        ([], {"": "type"}),
        ({"quotas": [QUOTA], "days": 31}, {"days": "range"}),
        ({"quotas": [QUOTA], "colour": "red"}, {"colour": "unknown"}),
        ({"quotas": [QUOTA | {"cards": -1}]}, {"quotas.0.cards": "range"}),
        (
            {"quotas": [QUOTA, {"business": "ads"}]},
            {"quotas.1.gpu_type": "required", "quotas.1.cards": "required"},
        ),
        ({"quotas": [QUOTA | {"business": "nobody"}]}, {"quotas.0.business": "unknown"}),
        ({"quotas": [QUOTA | {"region": "Mars"}]}, {"quotas.0.region": "unknown"}),
        ({"quotas": [QUOTA, QUOTA]}, {"quotas.1.business": "conflict"}),
        ({"quotas": "all"}, {"quotas": "type"}),
        ({"added": [MORE | {"hosts": 0}]}, {"added.0.hosts": "range"}),
        ({"added": [{"hosts": 1, "cards": 1, "gpu_type": "P40"}]}, {"added.0.region": "required"}),
        ({"added": [MORE] * 3}, {"added": "length"}),
        ({"cordon": ["nobody"]}, {"cordon": "value"}),
        ({"cordon": ["h1"], "remove": ["h1"]}, {"remove": "conflict"}),
        ({"cordon": "h1"}, {"cordon": "type"}),
        ({"policy": []}, {"policy": "type"}),
        ({"policy": {"placment": "spread"}}, {"policy.placment": "unknown"}),
        ({"policy": {"placement": "heap"}}, {"policy.placement": "choice"}),
        ({"policy": {"slice_s": 0}}, {"policy.slice_s": "range"}),
        ({"policy": {"slice_s": "60"}}, {"policy.slice_s": "type"}),
        ({"policy": {"slice_s": True}}, {"policy.slice_s": "type"}),
        ({"policy": {"aging_s": 10**400}}, {"policy.aging_s": "range"}),
        ({"policy": {"lost_after_s": 1}}, {"policy.lost_after_s": "range"}),
        ({"policy": {"quarantine_after": 1.5}}, {"policy.quarantine_after": "type"}),
        ({"policy": {"min_run_s": None, "placement": "best_fit"}}, {"": "required"}),
    ],
)
def test_what_is_wrong_is_named_and_nothing_is_asked(
    body: object, refused: dict[str, str], root: Caller
) -> None:
    answer = root.post("what-ifs/", body)
    assert (answer.status_code, errors(answer)) == (400, refused)
    assert not WhatIf.objects.exists()


def test_a_host_that_takes_no_tasks_already_is_not_tried_so(root: Caller) -> None:
    Host.objects.filter(name="h1").update(state="cordoned")
    assert errors(root.post("what-ifs/", {"cordon": ["h1"]})) == {"cordon": "value"}
    assert root.post("what-ifs/", {"remove": ["h1"]}).status_code == 201


def test_one_that_is_replayed_says_how_far_it_is_and_is_called_off_once(root: Caller, world: World) -> None:
    pk = asked(world).pk
    WhatIf.objects.filter(pk=pk).update(state="running", done=40)
    assert valid(root.get(f"what-ifs/{pk}/"))["done"] == 40
    assert valid(root.post(f"what-ifs/{pk}/call-off/"))["state"] == "canceled"
    again = root.post(f"what-ifs/{pk}/call-off/")
    assert (again.status_code, errors(again)) == (409, {"": "already_over"})
    assert deeds() == ["whatif.called_off", "whatif.asked"]


def test_one_with_nothing_to_replay_says_why_it_has_no_answer(root: Caller) -> None:
    pk = root.post("what-ifs/", {"quotas": [QUOTA]}).json()["id"]
    what_ifs.run_next()
    found = valid(root.get(f"what-ifs/{pk}/"))
    assert (found["state"], found["fault"]["code"]) == ("failed", "no_work")
    assert "Ask for more days" in found["fault"]["message"]


def test_an_answer_has_the_figures_before_and_after(root: Caller, world: World) -> None:
    result = valid(root.get(f"what-ifs/{answered(world).pk}/"))["result"]
    assert (result["since"], result["tasks"], result["never_ran"]) == ("1970-01-01T00:00:00Z", 4, 2)
    for side in ("before", "after"):
        assert result[side]["summary"]["p95_wait_s"] == 2 * 3600 + 51 * 60
        assert [row["class"] for row in result[side]["rows"]] == ["high"]
        assert len(result[side]["course"]["high"]) == 120


def test_the_list_goes_on_behind_the_last_shown_and_holds_no_results(root: Caller, world: World) -> None:
    first, second = answered(world), asked(world)
    page = valid(root.get("what-ifs/?limit=1"), what_if_shapes.WHAT_IFS)
    rest = valid(root.get(page["next"].partition("/api/v1/")[2]), what_if_shapes.WHAT_IFS)
    assert [row["id"] for row in (*page["results"], *rest["results"])] == [second.pk, first.pk]
    assert errors(root.get("what-ifs/?state=done")) == {"state": "unknown"}


def test_a_change_is_made_once_with_a_reason(root: Caller, world: World) -> None:
    path = f"what-ifs/{answered(world).pk}/apply/"
    for body in ({}, {"reason": " "}, {"reason": "a\nb"}, {"reason": "x" * 256}, {"reason": 1}, {"why": "x"}):
        assert root.post(path, body).status_code == 400
    assert Quota.objects.get(business=world.business()).cards == 16
    made = valid(root.post(path, {"reason": "the big run"}))
    assert (made["applied_by"], made["applied_why"]) == ("root", "the big run")
    assert Quota.objects.get(business=world.business()).cards == 24
    again = root.post(path, {"reason": "the big run"})
    assert (again.status_code, errors(again)) == (409, {"": "wrong_state"})
    assert deeds().count("whatif.applied") == 1


def test_a_change_that_was_not_tried_to_the_end_is_not_made(root: Caller, world: World) -> None:
    refused = root.post(f"what-ifs/{asked(world).pk}/apply/", {"reason": "now"})
    assert (refused.status_code, errors(refused)) == (409, {"": "wrong_state"})
    assert Quota.objects.get(business=world.business()).cards == 16


def test_a_change_is_refused_with_what_is_not_so_any_more(root: Caller, world: World) -> None:
    pk = answered(world).pk
    Quota.objects.filter(business=world.business()).update(cards=20)
    refused = root.post(f"what-ifs/{pk}/apply/", {"reason": "the big run"})
    assert (refused.status_code, errors(refused)) == (409, {"": "changed"})
    assert "quota of ads · P40: was 16, is 20 now." in refused.json()["errors"][0]["message"]
    assert Quota.objects.get(business=world.business()).cards == 20
    assert WhatIf.objects.get(pk=pk).applied_at is None
    assert "whatif.applied" not in deeds()


def test_a_host_that_is_gone_meanwhile_keeps_all_of_it_from_being_made(root: Caller, world: World) -> None:
    row = HostChange(host=world.host("h1").pk, verb="cordon")
    pk = answered(world, Change(quotas=change(world).quotas, hosts=(row,))).pk
    Host.objects.filter(name="h1").update(state="removed")
    assert errors(root.post(f"what-ifs/{pk}/apply/", {"reason": "now"})) == {"": "changed"}
    assert Quota.objects.get(business=world.business()).cards == 16


def test_hosts_that_would_be_bought_are_only_tried(root: Caller, world: World) -> None:
    row = NewHosts(region=world.region().pk, gpu_type=world.gpu_type().pk, hosts=2, cards=8)
    pk = answered(world, Change(added=(row,))).pk
    refused = root.post(f"what-ifs/{pk}/apply/", {"reason": "now"})
    assert (refused.status_code, errors(refused)) == (409, {"": "wrong_state"})
    assert "only be tried" in refused.json()["errors"][0]["message"]


def test_an_auditor_looks_and_neither_asks_nor_changes_and_for_others_there_is_none_of_it(
    ann: Caller, world: World
) -> None:
    pk, eve = answered(world).pk, Caller(world.auditor())
    for somebody, looks, does in ((eve, 200, 403), (ann, 404, 404)):
        assert somebody.get("what-ifs/").status_code == looks
        assert somebody.get(f"what-ifs/{pk}/").status_code == looks
        assert somebody.post("what-ifs/", {"quotas": [QUOTA]}).status_code == does
        assert somebody.post(f"what-ifs/{pk}/call-off/").status_code == does
        assert somebody.post(f"what-ifs/{pk}/apply/", {"reason": "x"}).status_code == does
