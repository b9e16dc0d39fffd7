"""Known code and data go when an operator says so, unless a task that may be run or copied needs them."""

import hashlib
import os
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db.models import QuerySet
from django.utils import timezone
from pytest_django import Settings

from cluster import bundles
from cluster.models import Host
from jobs import old_sources, services, uploads
from jobs.config import Invalid
from jobs.materials import Code, Dataset, Upload
from jobs.models import Task, Template
from jobs.states import State
from tests.agent.packing import code
from tests.engine.test_sources import CEPH, GIT
from tests.world import World

pytestmark = pytest.mark.django_db


@pytest.fixture
def ann(world: World, settings: Settings) -> User:
    settings.GIT_PREFIXES = ["https://git.example.com/"]
    world.business("ads", P40=16)
    world.host("h1", 8)
    Host.objects.update(offers=["process", "ceph", "process_ceph"])
    return world.user("ann", "ads")


def long_ago(settings: Settings) -> datetime:
    return timezone.now() - timedelta(days=settings.UPLOAD_KEEP_DAYS, hours=1)


def submit(user: User, project: str, **fields: Any) -> Task:
    place = {"path_info": {**GIT["path_info"], "project": project}}
    return services.submit(user, {"business_flag": "ads", "model_params": place, **fields})


def end(task: Task, at: datetime) -> None:
    Task.objects.filter(pk=task.pk).update(state=State.FAILED, ended_at=at)


def remove(rows: QuerySet[Any]) -> tuple[int, int]:
    return old_sources.remove(rows, timezone.now(), by=World().operator())


def names() -> set[str]:
    found = Code.objects.values_list("params__url", flat=True)
    return {str(url).rpartition("/")[2].removesuffix(".git") for url in found}


def test_only_what_no_live_or_recent_task_needs_goes(ann: User, settings: Settings) -> None:
    tasks = {name: submit(ann, name) for name in ("waits", "held", "runs", "recent", "old")}
    Task.objects.filter(pk=tasks["held"].pk).update(state=State.HELD)
    Task.objects.filter(pk=tasks["runs"].pk).update(state=State.RUNNING)
    end(tasks["recent"], timezone.now() - timedelta(days=1))
    end(tasks["old"], long_ago(settings))
    assert remove(Code.objects.all()) == (1, 4)
    assert names() == {"waits", "held", "runs", "recent"}
    tasks["old"].refresh_from_db()
    assert tasks["old"].code is None
    assert remove(Code.objects.all()) == (0, 4)


def test_code_of_an_old_task_and_a_waiting_one_stays_for_both(ann: User, settings: Settings) -> None:
    old, new = submit(ann, "same"), submit(ann, "same")
    assert old.code == new.code
    end(old, long_ago(settings))
    assert remove(Code.objects.all()) == (0, 1)
    old.refresh_from_db()
    assert old.code == new.code


def test_a_copy_of_an_old_task_brings_its_code_and_data_again_with_their_secrets(
    ann: User, settings: Settings
) -> None:
    old = submit(ann, "resnet", dataset_params=CEPH)
    end(old, long_ago(settings))
    sealed = (Code.objects.get().secrets, Dataset.objects.get().fingerprint)
    assert (remove(Code.objects.all()), remove(Dataset.objects.all())) == ((1, 0), (1, 0))
    copy = services.retry(old, ann)
    assert copy.code is not None
    assert copy.code.params["url"].endswith("/resnet.git")
    assert sealed[0]
    assert copy.code.secrets
    assert Dataset.objects.get().fingerprint == sealed[1]


def test_what_a_template_names_by_its_number_stays(ann: User, settings: Settings) -> None:
    old = submit(ann, "resnet", dataset_params=CEPH)
    end(old, long_ago(settings))
    Template.objects.create(name="a", config={"model_id": str(old.code_id), "dataset_id": old.dataset_id})
    assert (remove(Code.objects.all()), remove(Dataset.objects.all())) == ((0, 1), (0, 1))


def test_a_copy_that_names_by_number_what_is_gone_is_told_so(ann: User, settings: Settings) -> None:
    first = submit(ann, "resnet")
    second = services.submit(ann, {"business_flag": "ads", "model_id": first.code_id})
    for task in (first, second):
        end(task, long_ago(settings))
    assert remove(Code.objects.all()) == (1, 0)
    with pytest.raises(Invalid, match="model_id: The business knows nothing of this number"):
        services.retry(second, ann)


def test_a_task_that_names_it_in_the_same_instant_keeps_it(
    ann: User, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = submit(ann, "resnet")
    end(old, long_ago(settings))
    real = old_sources._needed

    def needed(*arguments: Any) -> set[int]:
        found = real(*arguments)
        services.submit(ann, {"business_flag": "ads", "model_id": old.code_id})
        return found

    monkeypatch.setattr(old_sources, "_needed", needed)
    assert remove(Code.objects.all()) == (0, 1)
    assert set(Task.objects.values_list("code", flat=True)) == {old.code_id}


def upload(user: User, word: str) -> Task:
    """Upload code and submit a task that runs it."""
    archive = code(start_sh=f"echo {word}")
    parts = [archive, b""]
    digest = hashlib.sha256(archive).hexdigest()
    business = World().business("ads")
    uploads.receive(business, user, digest, lambda _most: parts.pop(0))
    return services.submit(user, {"business_flag": "ads", "upload": f"sha256:{digest}"})


def test_the_bytes_of_uploaded_code_go_with_it_where_nobody_needs_them(ann: User, settings: Settings) -> None:
    tasks = {word: upload(ann, word) for word in ("old", "live", "template")}
    digests = {word: str(task.code and task.code.params["digest"]) for word, task in tasks.items()}
    for word in ("old", "template"):
        end(tasks[word], long_ago(settings))
    Template.objects.create(name="a", config={"upload": f"sha256:{digests['template']}"})
    Upload.objects.update(used_at=long_ago(settings))
    for path in Path(settings.CODE_DIR).rglob("*.gz"):
        os.utime(path, (1, 1))
    assert remove(Code.objects.all()) == (2, 1)  # a template names the upload, not the number
    there = {word: bundles.path_of(digest).exists() for word, digest in digests.items()}
    assert there == {"old": False, "live": True, "template": True}
    assert services.submit(ann, {"business_flag": "ads", "upload": f"sha256:{digests['template']}"}).code
