"""The config document against the database: whose business, which cards, how much quota."""

import re
from datetime import UTC, datetime
from typing import Any

import pytest
from cryptography.fernet import Fernet
from django.contrib.auth.models import User
from pytest_django import DjangoAssertNumQueries, Settings

from cluster import fresh, vault
from cluster.models import Card, Host
from jobs import config
from jobs.models import Priority, Task
from quotas import access
from quotas.models import Quota
from tests.world import World


@pytest.fixture
def ann(world: World) -> User:
    """Return a member of the business ads, which has quota for 16 P40 on two hosts, and 4 M40 on one."""
    world.host("h1", 8, "P40")
    world.host("h2", 8, "P40")
    world.host("h3", 4, "M40", region="SH")
    world.business("ads", P40=16, M40=2)
    return world.user("ann", "ads")


def doc(**fields: Any) -> dict[str, Any]:
    """Return a document that lacks nothing."""
    return {"business_flag": "ads", "start_cmd": "true", **fields}


def faults(user: User, written: object, origin: Task | None = None) -> dict[str, str]:
    """Return message by field of everything that is wrong."""
    with pytest.raises(config.Invalid) as caught:
        config.read(written, user=user, origin=origin)
    return {fault.field: fault.message for fault in caught.value.faults}


def test_a_short_document_gets_every_default(ann: User) -> None:
    read = config.read(doc(), user=ann)
    assert (read.business.flag, read.user, read.wanted_class) == ("ads", ann, "high")
    assert (read.host_num, read.host_gpu_num, read.priority) == (1, 1, Priority.MEDIUM)
    assert [gpu_type.name for gpu_type in read.gpu_types] == ["P40", "M40"]
    assert (read.pull_up, read.keep_alive, read.retry_limit) == (False, False, 0)
    assert read.document["exec_start_in_all_mpi_pods"] is False
    assert (read.region, read.time_limit_s, read.checkpoint_interval_s, read.not_before) == (
        None,
        None,
        None,
        None,
    )


def test_tasks_without_a_name_are_called_by_business_and_time_and_told_apart(ann: User) -> None:
    named = [config.read(doc(), user=ann).task_flag for _ in range(20)]
    assert all(re.fullmatch(r"ads-20\d{6}-\d{6}-\d{6}", name) for name in named)
    assert len(set(named)) == 20


def test_a_full_document_is_taken_in_every_field(ann: User) -> None:
    read = config.read(
        doc(
            host_num=2,
            host_gpu_num=8,
            GPUName="p40",
            is_elasticity=True,
            task_flag="训练",
            exit_cmd="save",
            exec_start_in_all_mpi_pods=True,
            enable_evicted_pulled_up=True,
            keep_alive=True,
            priority="high",
            time_limit="2h",
            not_before="2030-01-01T00:00:00Z",
            retry_limit=3,
            checkpoint_interval="10m",
            env={"A": "1", "B": {"value": "hush", "secret": True}},
            region="sz",
            tags=["a"],
        ),
        user=ann,
    )
    assert (read.wanted_class, read.host_num, read.host_gpu_num, read.task_flag) == ("elastic", 2, 8, "训练")
    assert (read.pull_up, read.keep_alive, read.retry_limit) == (True, True, 3)
    assert (read.time_limit_s, read.checkpoint_interval_s) == (7200, 600)
    assert read.not_before == datetime(2030, 1, 1, tzinfo=UTC)
    assert read.document["env"] == {"A": "1", "B": {"secret": True}}
    assert read.secrets == {"env.B": "hush"}
    assert read.region
    assert (read.region.name, read.priority) == ("SZ", Priority.HIGH)
    said = {
        name: read.document[name] for name in ("GPUName", "tags", "exit_cmd", "exec_start_in_all_mpi_pods")
    }
    assert said == {"GPUName": "P40", "tags": ["a"], "exit_cmd": "save", "exec_start_in_all_mpi_pods": True}


def test_a_normal_form_reads_as_itself(ann: User) -> None:
    once = config.read(
        doc(GPUName="m40，P40", time_limit="1h", not_before="2030-01-01T08:00+08:00"), user=ann
    )
    again = config.read(once.document, user=ann)
    assert once.document == again.document


def test_faults_of_form_and_of_the_world_come_together(ann: User) -> None:
    found = faults(
        ann, {"business_flag": "search", "GPUName": "P40,H100", "region": "BJ", "keep_alive": "yes"}
    )
    assert set(found) == {"business_flag", "GPUName", "region", "keep_alive", "start_cmd"}
    assert "H100" in found["GPUName"]
    assert "M40, P40" in found["GPUName"]
    assert "SH, SZ" in found["region"]


def test_a_business_of_others_and_one_that_is_not_there_look_alike(world: World, ann: User) -> None:
    world.business("search")
    assert faults(ann, doc(business_flag="search")) == faults(ann, doc(business_flag="nowhere"))
    assert "ads" in faults(ann, doc(business_flag="search"))["business_flag"]


def test_an_operator_submits_for_any_business(world: World, ann: User) -> None:
    assert config.read(doc(), user=world.operator()).business.flag == "ads"


def test_earlier_names_of_a_type_still_mean_it(world: World, ann: User) -> None:
    p40 = world.gpu_type("P40")
    p40.name, p40.aliases = "P40-24G", ["P40"]
    p40.save()
    assert config.read(doc(GPUName="p40"), user=ann).document["GPUName"] == "P40-24G"


def test_a_business_without_default_types_must_name_one(world: World, ann: User) -> None:
    world.user("ann", "bare")
    found = faults(ann, doc(business_flag="bare"))
    assert list(found) == ["GPUName"]
    assert "M40, P40" in found["GPUName"]


@pytest.mark.parametrize(
    ("asked", "field", "named"),
    [
        ({"host_gpu_num": 9}, "host_gpu_num", "8 P40"),
        ({"host_num": 3, "host_gpu_num": 8, "GPUName": "P40"}, "host_num", "has 2 such hosts"),
        ({"host_gpu_num": 8, "GPUName": "M40"}, "host_gpu_num", "4 M40"),
        ({"GPUName": "P40", "region": "SH"}, "GPUName", "No host with P40"),
    ],
)
def test_a_size_that_no_hosts_could_ever_hold_is_refused(
    ann: User, asked: dict[str, Any], field: str, named: str
) -> None:
    found = faults(ann, doc(is_elasticity=True, **asked))
    assert list(found) == [field]
    assert named in found[field]


def test_one_type_that_could_hold_it_is_enough(ann: User) -> None:
    assert config.read(doc(is_elasticity=True, host_gpu_num=8, GPUName="M40,P40"), user=ann)


def test_removed_hosts_and_missing_cards_hold_nothing_but_cordoned_hosts_will_again(ann: User) -> None:
    two = doc(is_elasticity=True, host_num=2, host_gpu_num=8, GPUName="P40")
    Host.objects.filter(name="h1").update(state=Host.State.CORDONED)
    Card.objects.filter(host__name="h2", index=0).update(state=Card.State.BROKEN)
    assert config.read(two, user=ann)
    Card.objects.filter(host__name="h2", index=0).update(state=Card.State.MISSING)
    fresh.forget_all()  # hosts are taken for what they were a moment ago
    assert list(faults(ann, two)) == ["host_num"]
    Card.objects.update(state=Card.State.OK)
    Host.objects.filter(name="h1").update(state=Host.State.REMOVED)
    fresh.forget_all()
    assert list(faults(ann, two)) == ["host_num"]


def test_hosts_that_came_just_now_are_seen_before_anything_is_refused(world: World, ann: User) -> None:
    three = doc(is_elasticity=True, host_num=3, host_gpu_num=8, GPUName="P40")
    assert list(faults(ann, three)) == ["host_num"]
    world.host("h9", 8, "P40")
    assert config.read(three, user=ann)


def test_a_high_task_over_the_whole_quota_is_refused(ann: User) -> None:
    Quota.objects.filter(gpu_type__name="P40").update(cards=8)
    sixteen = {"host_num": 2, "host_gpu_num": 8, "GPUName": "P40"}
    found = faults(ann, doc(**sixteen))
    assert "16 cards" in found["host_gpu_num"]
    assert "8 P40" in found["host_gpu_num"]
    assert config.read(doc(**sixteen, is_elasticity=True), user=ann)
    assert config.read(doc(**sixteen, is_elasticity="auto"), user=ann)


def test_quota_of_one_type_does_not_help_where_only_another_fits(ann: User) -> None:
    Quota.objects.filter(gpu_type__name="P40").update(cards=2)
    Quota.objects.filter(gpu_type__name="M40").update(cards=100)
    assert list(faults(ann, doc(host_gpu_num=8, GPUName="M40,P40"))) == ["host_gpu_num"]


def test_a_type_without_a_quota_row_allows_no_high_task(world: World, ann: User) -> None:
    world.host("h4", 8, "V100")
    assert "0 V100" in faults(ann, doc(GPUName="V100"))["host_gpu_num"]


def test_a_regions_quota_caps_within_the_whole(world: World, ann: User) -> None:
    p40 = world.gpu_type("P40")
    Quota.objects.create(business=world.business("ads"), gpu_type=p40, region=world.region("SZ"), cards=4)
    assert config.read(doc(host_gpu_num=8, GPUName="P40"), user=ann)
    assert "4 P40" in faults(ann, doc(host_gpu_num=8, GPUName="P40", region="SZ"))["host_gpu_num"]


def _task(user: User, world: World, **secrets: str) -> Task:
    return Task.objects.create(
        business=world.business("ads"),
        user=user,
        task_flag="old",
        config={},
        secrets=vault.seal(secrets),
        wanted_class="high",
        host_num=1,
        host_gpu_num=1,
        gpu_types=[],
    )


def test_a_clone_keeps_its_owners_secrets_unseen(world: World, ann: User) -> None:
    origin = _task(ann, world, **{"env.KEY": "hush"})
    read = config.read(doc(env={"KEY": {"secret": True}}), user=ann, origin=origin)
    assert read.secrets == {"env.KEY": "hush"}
    assert "hush" not in repr(read.document)


def test_a_clone_whose_secrets_cannot_be_read_any_more_asks_for_them(
    world: World, ann: User, settings: Settings
) -> None:
    origin = _task(ann, world, **{"env.KEY": "hush"})
    settings.VAULT_KEYS = [Fernet.generate_key().decode()]
    document = doc(env={"KEY": {"secret": True}})
    with pytest.raises(config.Invalid) as refusal:
        config.read(document, user=ann, origin=origin)
    assert [fault.field for fault in refusal.value.faults] == ["env.KEY"]


def test_nobody_else_gets_the_secrets_of_a_task_by_cloning_it(world: World, ann: User) -> None:
    origin = _task(ann, world, **{"env.KEY": "hush"})
    for other in (world.user("bob", "ads"), world.operator()):
        assert list(faults(other, doc(env={"KEY": {"secret": True}}), origin)) == ["env.KEY"]


def test_a_secret_named_without_a_value_needs_an_origin_that_has_it(world: World, ann: User) -> None:
    assert list(faults(ann, doc(env={"KEY": {"secret": True}}))) == ["env.KEY"]
    assert list(faults(ann, doc(env={"KEY": {"secret": True}}), _task(ann, world))) == ["env.KEY"]


def test_a_kept_secret_may_not_be_shown_by_the_command_either(world: World, ann: User) -> None:
    origin = _task(ann, world, **{"env.KEY": "hush-hush"})
    written = doc(start_cmd="login hush-hush", env={"KEY": {"secret": True}})
    assert list(faults(ann, written, origin)) == ["start_cmd"]


def test_reading_costs_the_same_few_queries_however_large_the_cluster(
    world: World, ann: User, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    for number in range(5):
        world.host(f"more{number}", 8, "P40")
    assert not access.is_operator(ann)  # read once of each user
    with django_assert_num_queries(4):
        config.read(doc(GPUName="M40,P40"), user=ann)
    with django_assert_num_queries(4):  # the hosts are those of a moment ago
        config.read(doc(region="SZ"), user=ann)
