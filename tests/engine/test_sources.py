"""Code and data of a task from its document to what hosts are told, and back: the commit that ran."""

import json
import uuid
from typing import Any

import pytest
from cryptography.fernet import Fernet
from django.contrib.auth.models import User
from django.core import serializers
from django.db import connection
from django.utils import timezone
from pytest_django import Settings

from cluster.models import GpuType, Host, Instance
from jobs import services
from jobs.config import Invalid
from jobs.engine import passes, source_specs
from jobs.materials import Code, Dataset
from jobs.models import Attempt, Task
from tests.cluster import words
from tests.cluster.words import Agent
from tests.world import World

pytestmark = pytest.mark.django_db
TOKEN, KEY = "glpat-S3cr3tOfAnn", "AQBhS3cr3tOfCeph=="
COMMIT = "c0ffee" + "0" * 34
GIT = {"path_info": {"group": "vision/core", "project": "resnet", "private_token": TOKEN}}
CEPH = {"ceph_info": [{"addr": "10.0.0.1:6789", "name": "ann", "secret": KEY, "src_path": "/team"}]}


@pytest.fixture
def ann(world: World, settings: Settings) -> User:
    settings.GIT_PREFIXES = ["https://git.example.com/", "https://other.example.com/git/"]
    world.business("ads", P40=16)
    for name in ("h1", "h2"):
        world.host(name, 8)
    Host.objects.update(offers=["process", "ceph", "process_ceph"])
    return world.user("ann", "ads")


def submit(user: User, **fields: Any) -> Task:
    return services.submit(user, {"business_flag": "ads", **fields})


def faults(user: User, **fields: Any) -> dict[str, str]:
    with pytest.raises(Invalid) as caught:
        submit(user, **fields)
    return {fault.field: fault.code for fault in caught.value.faults}


def members(task: Task) -> list[Instance]:
    attempt = task.attempts.latest("number")
    return list(Instance.objects.filter(gang=attempt.pk).order_by("rank"))


def told(instance: Instance, **report: Any) -> dict[str, Any]:
    """Return what the host of an instance is told to run, in answer to a report of an agent that just started."""
    found: dict[str, Any] = answer(instance, **report)["instances"][0]["spec"]
    return found


def answer(instance: Instance, **report: Any) -> dict[str, Any]:
    host = Host.objects.get(pk=instance.host_id)
    return Agent(host).sync(boot=str(uuid.uuid4()), offers=host.offers, **report)


def test_git_code_is_told_to_the_host_with_its_token_until_it_runs(ann: User, settings: Settings) -> None:
    task = submit(ann, model_params=GIT, start_cmd="")
    passes.run()
    [member] = members(task)
    url = "https://git.example.com/vision/core/resnet.git"
    most = {"files": settings.CODE_FILES, "bytes": settings.CODE_UNPACKED_MIB * 2**20}
    assert member.spec["code"] == {"kind": "git", "url": url, "branch": "", "commit": "", **most}
    assert (member.spec["command"], member.spec["prepare_s"]) == ("", 840)
    assert told(member)["code"] == {**member.spec["code"], "token": TOKEN}
    running = told(member, instances=[words.instance(member.pk, "running", commit=COMMIT)])
    assert "token" not in running["code"]
    member.refresh_from_db()
    assert member.commit == COMMIT


def test_ceph_is_told_to_the_host_with_its_secrets_in_their_places(ann: User) -> None:
    more = {**CEPH["ceph_info"][0], "secret": "AAAA", "src_path": "/b", "dst_path": "/data/b"}
    task = submit(ann, dataset_params={"ceph_info": [*CEPH["ceph_info"], more]}, start_cmd="true")
    passes.run()
    found = told(members(task)[0])["data"]
    first = {
        "kind": "ceph",
        "addr": "10.0.0.1:6789",
        "name": "ann",
        "src": "/team",
        "dst": "/team",
        "secret": KEY,
    }
    assert found == [first, {**first, "src": "/b", "dst": "/data/b", "secret": "AAAA"}]


def test_no_secret_of_a_source_lies_readable_in_the_database(ann: User) -> None:
    submit(ann, model_params=GIT, dataset_params=CEPH)
    passes.run()
    rows = [*Task.objects.all(), *Instance.objects.all(), *Code.objects.all(), *Dataset.objects.all()]
    dump = serializers.serialize("json", rows)
    assert "vision/core" in dump
    assert TOKEN not in dump
    assert KEY not in dump
    tables = connection.introspection.table_names()
    with connection.cursor() as cursor:
        for table in tables:
            cursor.execute(f'SELECT * FROM "{table}"')
            text = repr(cursor.fetchall())
            assert TOKEN not in text, table
            assert KEY not in text, table


def test_the_commit_that_ran_runs_again_after_an_eviction(ann: User, world: World) -> None:
    task = submit(
        ann, model_params={"path_info": {**GIT["path_info"], "branch": "main"}}, enable_evicted_pulled_up=True,
        is_elasticity=True,
    )  # fmt: skip
    passes.run()
    [member] = members(task)
    told(member, instances=[words.instance(member.pk, "starting", commit=COMMIT)])
    Host.objects.filter(pk=member.host_id).update(state="draining")
    world.host_says(task, "running")
    passes.run()
    passes.run()
    world.host_says(task, "gone", exit_code=None, exit_signal=15, ended_by_itself=False)
    passes.run()
    Task.objects.filter(pk=task.pk).update(ready_at=timezone.now())
    passes.run()
    assert task.attempts.count() == 2
    assert members(task)[0].spec["code"] == {**member.spec["code"], "commit": COMMIT}
    assert members(task)[0].spec["code"]["branch"] == "main"


def attempt_of(task: Task, number: int, *commits: str) -> None:
    """Make an ended attempt whose members reported these commits, in the order of rank."""
    gpu_type, now = GpuType.objects.get(name="P40"), timezone.now()
    values = {"task_class": "elastic", "gpu_type": gpu_type, "cards": 1, "outcome": "evicted"}
    made = Attempt.objects.create(task=task, number=number, created_at=now, ended_at=now, **values)
    host = Host.objects.get(name="h1")
    for rank, commit in enumerate(commits):
        ended = {"phase": "gone", "wanted": False, "commit": commit}
        Instance.objects.create(host=host, gang=made.pk, rank=rank, label="x", spec={}, **ended)


@pytest.mark.parametrize(
    ("ran", "stands"),
    [
        ([[COMMIT]], COMMIT),
        ([[COMMIT], ["d" * 40]], COMMIT),
        ([[""], ["d" * 40], [COMMIT]], "d" * 40),  # the first never came so far
        ([[COMMIT, "e" * 40]], COMMIT),
        ([["", "e" * 40], [COMMIT, ""]], "e" * 40),
        ([[""]], "c0ffee"),
        ([], "c0ffee"),
    ],
)
def test_what_ran_first_stands_whatever_later_attempts_ran(
    ann: User, ran: list[list[str]], stands: str
) -> None:
    place = {"path_info": {**GIT["path_info"], "commit_id": "c0ffee"}}
    task, other = submit(ann, model_params=place), submit(ann, model_params=GIT)
    attempt_of(other, 1, "f" * 40)  # of another task, so nothing to this one
    for number, commits in enumerate(ran, 1):
        attempt_of(task, number, *commits)
    found = source_specs.load({task.pk: task.config, other.pk: other.config})
    code, others = found[task.pk].code, found[other.pk].code
    assert code is not None
    assert others is not None
    assert (code["commit"], others["commit"]) == (stands, "f" * 40)


def test_a_copy_of_a_task_chooses_anew(ann: User) -> None:
    task = submit(ann, model_params=GIT)
    attempt_of(task, 1, COMMIT)
    copy = services.submit(ann, task.config, origin=task)
    code = source_specs.load({copy.pk: copy.config})[copy.pk].code
    assert code is not None
    assert code["commit"] == ""


def test_a_gang_runs_the_commit_that_its_first_member_chose(ann: User) -> None:
    task = submit(ann, model_params=GIT, host_num=2, host_gpu_num=8)
    passes.run()
    first, second = members(task)
    assert "follow" not in first.spec["code"]
    assert second.spec["code"]["follow"] is True
    before = answer(second)
    assert before["instances"][0]["spec"]["code"]["commit"] == ""
    told(first, instances=[words.instance(first.pk, "starting", commit=COMMIT)])
    after = answer(second, instances=[words.instance(second.pk, "starting")])
    assert after["version"] != before["version"]
    assert after["instances"][0]["spec"]["code"]["commit"] == COMMIT
    # It stays the same while it runs: that it runs is no news to its host.
    running = answer(second, instances=[words.instance(second.pk, "running", commit=COMMIT)])
    assert running["instances"][0]["spec"]["code"]["commit"] == COMMIT


def test_hosts_that_operators_do_not_allow_are_refused_with_those_that_they_do(
    ann: User, settings: Settings
) -> None:
    field = "model_params.path_info.host"
    for host in (
        "evil.example.com",
        "git.example.com.evil.com",
        "git.example.com@evil.com",
        "https://git.example",
    ):
        place = {"path_info": {**GIT["path_info"], "host": host}}
        assert faults(ann, model_params=place) == {field: "host"}
    for host in ("other.example.com", "https://other.example.com/git/", "OTHER.example.com/git"):
        task = submit(ann, model_params={"path_info": {**GIT["path_info"], "host": host}})
        assert task.code is not None
        assert task.code.params["url"] == "https://other.example.com/git/vision/core/resnet.git"
    known = Code.objects.first()
    assert known is not None
    settings.GIT_PREFIXES = []
    assert faults(ann, model_params=GIT) == {field: "host"}
    assert faults(ann, model_id=known.pk) == {"model_id": "host"}


@pytest.mark.parametrize("number", ["0", 0, "000", "999999"])
def test_a_number_that_nothing_has_is_refused(ann: User, number: object) -> None:
    assert faults(ann, model_id=number, dataset_id=number) == {"model_id": "unknown", "dataset_id": "unknown"}


@pytest.mark.parametrize(
    ("place", "field"),
    [
        ({"group": "../../x"}, "group"),
        ({"group": "a b"}, "group"),
        ({"group": "-a"}, "group"),
        ({"group": "a?x=1#"}, "group"),
        ({"project": "a/b"}, "project"),
        ({"project": ""}, "project"),
        ({"branch": "--upload-pack=x"}, "branch"),
        ({"branch": "a..b"}, "branch"),
        ({"branch": "a b"}, "branch"),
        ({"branch": "refs/*"}, "branch"),
        ({"commit_id": "--all"}, "commit_id"),
        ({"commit_id": "abc"}, "commit_id"),
        ({"commit_id": "xyz12345"}, "commit_id"),
    ],
)
def test_what_git_could_take_for_something_else_is_refused(
    ann: User, place: dict[str, str], field: str
) -> None:
    found = faults(ann, model_params={"path_info": {**GIT["path_info"], **place}})
    assert list(found) == [f"model_params.path_info.{field}"]


@pytest.mark.parametrize(
    ("mount", "field"),
    [
        ({"addr": "-o,x"}, "addr"),
        ({"addr": "a b"}, "addr"),
        ({"name": "a,secret=x"}, "name"),
        ({"secret": "a\nb"}, "secret"),
        ({"secret": ""}, "secret"),
        ({"src_path": "team"}, "src_path"),
        ({"src_path": "/a/../b"}, "src_path"),
        ({"dst_path": "/etc/ssl"}, "dst_path"),
        ({"dst_path": "/"}, "dst_path"),
        ({"dst_path": "/tmp"}, "dst_path"),
        ({"src_path": "/usr/x"}, "dst_path"),
    ],
)
def test_what_a_mount_could_misuse_is_refused(ann: User, mount: dict[str, str], field: str) -> None:
    found = faults(ann, start_cmd="true", dataset_params={"ceph_info": [{**CEPH["ceph_info"][0], **mount}]})
    assert list(found) == [f"dataset_params.ceph_info.0.{field}"]


def test_mounts_that_hide_each_other_are_refused(ann: User) -> None:
    first = CEPH["ceph_info"][0]
    for place in ("/team", "/team/below"):
        found = faults(
            ann, start_cmd="true", dataset_params={"ceph_info": [first, {**first, "dst_path": place}]}
        )
        assert found == {"dataset_params.ceph_info.1.dst_path": "place"}


def test_the_same_source_is_known_once_and_another_token_is_another_one(ann: User) -> None:
    first, second = (submit(ann, model_params=GIT, dataset_params=CEPH) for _ in range(2))
    other = submit(ann, model_params={"path_info": {**GIT["path_info"], "private_token": "other-token"}})
    assert (first.code, first.dataset) == (second.code, second.dataset)
    assert other.code != first.code
    known = submit(
        ann, model_id=first.code_id, dataset_id=str(first.dataset_id), model_params={"ignored": "!"}
    )
    assert (known.code, known.dataset) == (first.code, first.dataset)
    assert "model_params" not in known.config


def test_a_copy_keeps_the_secrets_of_its_own_owner_s_task_only(ann: User, world: World) -> None:
    task = submit(ann, model_params=GIT, dataset_params=CEPH)
    assert TOKEN not in json.dumps(task.config)
    copy = services.submit(ann, task.config, origin=task)
    assert copy.code == task.code
    with pytest.raises(Invalid) as caught:
        services.submit(world.user("bob", "ads"), task.config, origin=task)
    assert {fault.field for fault in caught.value.faults} == {
        "model_params.path_info.private_token",
        "dataset_params.ceph_info.0.secret",
    }


def test_a_source_whose_secrets_are_lost_is_told_instead_of_run(ann: User, settings: Settings) -> None:
    task = submit(ann, model_params=GIT, start_cmd="python train.py")
    settings.VAULT_KEYS = [Fernet.generate_key().decode()]
    passes.run()
    [member] = members(task)
    assert "cannot be read" in member.spec["command"]
    assert "code" not in member.spec
