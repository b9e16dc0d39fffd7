"""What would become of a document: where it starts, whom it evicts, why it waits or never starts, what else would."""

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.utils import timezone

from jobs import config
from jobs.engine import ask, passes
from jobs.engine.verdict import Alternative, Share, Verdict
from jobs.models import Attempt, Policy, Task
from tests.world import World

pytestmark = pytest.mark.django_db


def document(**fields: Any) -> dict[str, Any]:
    values: dict[str, Any] = {
        "business_flag": "ads", "start_cmd": "true", "GPUName": "P40", "host_num": 1, "host_gpu_num": 1,
        "is_elasticity": False, **fields,
    }  # fmt: skip
    return {name: value for name, value in values.items() if value is not None}


@pytest.fixture
def ann(world: World) -> User:
    """Return a member of ads, which has a quota of 12 P40 and 8 M40 on three hosts of two regions."""
    world.business("ads", P40=12, M40=8)
    world.business("nlp", P40=0)
    world.host("h1")
    world.host("h2", region="GZ")
    world.host("h3", gpu_type="M40", region="GZ")
    return world.user("ann", "ads")


def running(world: World, hours: float, **fields: Any) -> Task:
    """Let an elastic task of nlp run for so long."""
    task = world.task("nlp", "ben", wanted_class="elastic", **fields)
    passes.run()
    world.host_says(task, "running")
    passes.run()
    since = timezone.now() - timedelta(hours=hours)
    Attempt.objects.filter(task=task).update(created_at=since)
    return task


def others(verdict: Verdict) -> dict[str, Alternative]:
    return {alternative.kind: alternative for alternative in verdict.alternatives}


def test_where_it_starts_is_said(ann: User) -> None:
    verdict = ask.preview(ann, document(host_gpu_num=4, region="GZ"), alternatives=True)
    assert verdict.verdict == "starts"
    assert verdict.where
    assert (verdict.where.gpu_type, verdict.where.region, verdict.where.task_class) == ("P40", "GZ", "high")
    assert verdict.where.hosts == (Share(host="h2", cards=4),)
    assert not verdict.alternatives


def test_a_gang_over_two_regions_names_both(ann: User) -> None:
    verdict = ask.preview(ann, document(host_num=2, host_gpu_num=6))
    assert verdict.where
    assert verdict.where.region == "GZ, SZ"
    assert {share.host for share in verdict.where.hosts} == {"h1", "h2"}


def test_an_auto_task_says_as_what_it_starts(ann: User, world: World) -> None:
    world.business("ads", P40=0)
    verdict = ask.preview(ann, document(is_elasticity="auto"))
    assert verdict.where
    assert verdict.where.task_class == "elastic"


@pytest.mark.parametrize(("checkpoint_s", "lost"), [(None, 2 * 8.0), (3600, 0.0), (2700, 0.5 * 8), (0, 0.0)])
def test_a_victim_says_what_it_loses_and_whether_it_comes_back(
    ann: User, world: World, checkpoint_s: int | None, lost: float
) -> None:
    where = world.region("GZ")
    task = running(world, 2, cards=8, pull_up=True, checkpoint_interval_s=checkpoint_s, region=where)
    verdict = ask.preview(ann, document(host_gpu_num=8, region="GZ"))
    (victim,) = verdict.evicts
    assert verdict.verdict == "starts_after_evicting"
    assert (victim.task, victim.business, victim.cards, victim.rule) == (task.pk, "nlp", 8, "victim")
    assert victim.comes_back
    assert verdict.lost_card_hours == pytest.approx(lost, abs=0.05)


def test_whose_the_victims_are_only_those_know_who_may_see_them(ann: User, world: World) -> None:
    for _ in range(2):
        running(world, 2, cards=8)
    assert ask.preview(ann, document(host_gpu_num=8)).evicts[0].user is None
    assert ask.preview(world.operator(), document(host_gpu_num=8)).evicts[0].user == "ben"


def test_a_task_that_waits_says_why_with_numbers_what_to_do_and_its_place(ann: User, world: World) -> None:
    for _ in range(3):
        world.task("ads", cards=6)
    passes.run()
    verdict = ask.preview(ann, document(host_gpu_num=6))
    assert (verdict.verdict, verdict.position, verdict.of) == ("queues", 2, 2)
    assert verdict.reason
    assert verdict.reason.code == "quota"
    assert (verdict.reason.args["used"], verdict.reason.args["limit"]) == (12, 12)
    assert "elastic" in verdict.reason.advice
    assert verdict.estimate_basis


def test_a_task_on_a_gate_stands_in_no_line(ann: User) -> None:
    later = (timezone.now() + timedelta(hours=1)).isoformat(timespec="seconds")
    verdict = ask.preview(ann, document(not_before=later))
    assert (verdict.verdict, verdict.position, verdict.of) == ("queues", None, None)
    assert verdict.reason
    assert verdict.reason.code == "not_before"


def test_what_can_never_start_names_the_fields_to_change(ann: User) -> None:
    verdict = ask.preview(ann, document(host_num=2, host_gpu_num=9))
    assert verdict.verdict == "never"
    assert {fault.field for fault in verdict.faults} == {"host_gpu_num"}
    assert verdict.reason


def test_other_faults_are_said_together_with_what_could_never_be(ann: User) -> None:
    with pytest.raises(config.Invalid) as caught:
        ask.preview(ann, document(host_gpu_num=9, keep_alive=1))
    assert {fault.code for fault in caught.value.faults} >= {"impossible"}
    assert len(caught.value.faults) > 1


def test_what_would_start_instead_is_found_by_trying(ann: User, world: World) -> None:
    Policy.objects.update_or_create(pk=1, defaults={"values": {"min_run_s": 0}})
    world.task("ads", cards=8)
    passes.run()
    verdict = ask.preview(ann, document(host_gpu_num=8), alternatives=True)
    assert verdict.verdict == "queues"
    found = others(verdict)
    assert found["class"].change == {"is_elasticity": True}
    assert found["gpu_type"].change == {"GPUName": "M40"}
    assert found["gpu_type"].where.hosts == (Share(host="h3", cards=8),)
    assert found["fewer_cards"].change == {"host_gpu_num": 4}
    for alternative in verdict.alternatives:
        changed = document(host_gpu_num=8) | dict(alternative.change)
        assert ask.preview(ann, changed).verdict == alternative.verdict == "starts"


def test_fewer_hosts_and_another_region_are_tried_as_well(ann: User, world: World) -> None:
    world.business("ads", P40=64)
    world.host("h4")
    world.host("h5")
    asked = document(host_num=3, host_gpu_num=8, region="GZ")
    found = others(ask.preview(ann, asked, alternatives=True))
    assert found["region"].change == {"region": "SZ"}
    assert found["fewer_hosts"].change == {"host_num": 1}


def test_one_that_evicts_is_offered_only_what_evicts_nobody(ann: User, world: World) -> None:
    for _ in range(2):
        running(world, 2, cards=8)
    verdict = ask.preview(ann, document(host_gpu_num=8), alternatives=True)
    assert verdict.verdict == "starts_after_evicting"
    assert others(verdict).keys() == {"gpu_type"}
    assert all(alternative.victims == 0 for alternative in verdict.alternatives)


def test_what_never_starts_is_offered_what_would(ann: User) -> None:
    verdict = ask.preview(ann, document(host_gpu_num=9), alternatives=True)
    assert verdict.verdict == "never"
    assert others(verdict)["fewer_cards"].change == {"host_gpu_num": 8}


def test_a_high_task_larger_than_its_quota_is_offered_what_the_quota_allows(ann: User, world: World) -> None:
    world.business("ads", P40=12)
    world.host("h4")
    world.host("h5")
    verdict = ask.preview(ann, document(host_num=2, host_gpu_num=8), alternatives=True)
    assert (verdict.verdict, verdict.reason and verdict.reason.code) == ("never", "over_quota")
    found = others(verdict)
    assert found["class"].change == {"is_elasticity": True}
    assert found["fewer_hosts"].change == {"host_num": 1}
    assert found["fewer_cards"].change == {"host_gpu_num": 6}


def test_alternatives_are_bounded(ann: User, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(6):
        world.host(f"x{number}", gpu_type=f"T{number}")
    verdict = ask.preview(ann, document(host_gpu_num=8, host_num=9, is_elasticity=True), alternatives=True)
    assert 0 < len(verdict.alternatives) <= 4
    monkeypatch.setattr("jobs.engine.alternatives.TRY_S", -1.0)
    asked = document(host_gpu_num=8, host_num=8, is_elasticity=True)
    assert not ask.preview(ann, asked, alternatives=True).alternatives


def test_an_alternative_that_the_document_could_not_become_is_not_offered(
    ann: User, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.task("ads", cards=8)
    passes.run()
    read = config.read

    def no_elastic(given: Any, **rest: Any) -> Any:
        if given["is_elasticity"] is True:
            raise config.Invalid([config.Fault("is_elasticity", "value", "not here")])
        return read(given, **rest)

    monkeypatch.setattr(config, "read", no_elastic)
    verdict = ask.preview(ann, document(host_gpu_num=8), alternatives=True)
    assert "class" not in others(verdict)
    assert "gpu_type" in others(verdict)


def test_a_stored_sentence_of_another_version_shows_its_code(db: None) -> None:
    assert ask.sentence("no_such", {}) == {"code": "no_such", "message": "no_such"}
    assert ask.said("quota", {}).message == "quota"
