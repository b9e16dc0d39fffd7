"""What a task needs of its host, from the document to the spec."""

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from pytest_django import Settings

from cluster import registries, vault
from cluster.models import Host, Instance
from jobs import config, services
from jobs.engine import passes
from jobs.models import Task
from tests.world import World

pytestmark = pytest.mark.django_db
IMAGE = "registry.example.com/team/torch:2.6"


@pytest.fixture
def ann(world: World) -> User:
    world.host("h1")
    world.host("h2")
    world.business("ads", P40=16)
    return world.user("ann", "ads")


def doc(**changes: Any) -> dict[str, Any]:
    return {
        "business_flag": "ads",
        "GPUName": "P40",
        "host_gpu_num": 2,
        "start_cmd": "./start.sh",
        "image_full_name": IMAGE,
        **changes,
    }


def offer(name: str, *kinds: str) -> None:
    Host.objects.filter(name=name).update(offers=sorted(kinds))


def faults(ann: User, document: dict[str, Any]) -> dict[str, str]:
    with pytest.raises(config.Invalid) as refused:
        config.read(document, user=ann)
    return {fault.field: fault.message for fault in refused.value.faults}


def test_a_task_with_an_image_is_refused_where_no_host_runs_containers(ann: User) -> None:
    assert faults(ann, doc()) == {"image_full_name": "No host with 2 cards (P40) can run containers."}


def test_a_task_without_one_is_refused_where_hosts_run_only_containers(ann: User) -> None:
    Host.objects.update(offers=["container"])
    found = faults(ann, doc(image_full_name=""))
    assert found == {"image_full_name": "No host with 2 cards (P40) can run a task that names no image."}


def test_a_gang_is_refused_where_too_few_hosts_run_containers(ann: User) -> None:
    offer("h1", "container", "process")
    found = faults(ann, doc(host_num=2))
    assert found["image_full_name"] == (
        "Asks 2 hosts with 2 cards (P40) each; only 1 such hosts can run containers."
    )


@pytest.mark.parametrize("image", ["UPPER/case", "a b", "x:", "https://registry/x", "a//b", "a@sha256:12"])
def test_what_is_no_name_of_an_image_is_refused(ann: User, image: str) -> None:
    Host.objects.update(offers=["container"])
    assert "image_full_name" in faults(ann, doc(image_full_name=image))


@pytest.mark.parametrize(
    "image", ["busybox", "a/b:1", "localhost:5000/x", "r.example.com/a__b/c-d:V1.0", f"x@sha256:{'a' * 64}"]
)
def test_names_of_images_are_taken(ann: User, image: str) -> None:
    Host.objects.update(offers=["container"])
    assert config.read(doc(image_full_name=image), user=ann).needs == "container"


def test_it_starts_only_where_containers_run_with_the_installations_limits(
    ann: User, settings: Settings
) -> None:
    settings.CONTAINER = {**settings.CONTAINER, "memory_mib_per_card": 1000, "cpus_per_card": 4}
    offer("h2", "container")
    task = services.submit(ann, doc())
    passes.run()
    instance = Instance.objects.get()
    assert (Task.objects.get().needs, instance.host.name) == ("container", "h2")
    box = instance.spec["container"]
    assert (box["image"], box["memory_mib"], box["cpus"], box["network"]) == (IMAGE, 2000, 8, "host")
    assert "registry" not in box
    assert task.config["image_full_name"] == IMAGE


def test_a_task_without_an_image_has_no_container(ann: User) -> None:
    services.submit(ann, doc(image_full_name=""))
    passes.run()
    assert Instance.objects.get().spec["container"] is None


def test_plain_processes_get_the_limits_that_containers_have(ann: User, settings: Settings) -> None:
    per_card = {"memory_mib_per_card": 1000, "cpus_per_card": 4}
    settings.CONTAINER = {**settings.CONTAINER, **per_card, "pids": 99}
    Host.objects.update(offers=["container", "process"])
    limits = {"memory_mib": 2000, "cpus": 8, "pids": 99}
    for image in ("", IMAGE):
        services.submit(ann, doc(image_full_name=image))
    passes.run()
    plain, boxed = Instance.objects.order_by("gang")
    assert (plain.spec["container"], plain.spec["limits"]) == (None, limits)
    assert {name: boxed.spec["container"][name] for name in limits} == limits


def test_it_waits_with_the_reason_when_no_host_runs_containers_any_more(ann: User) -> None:
    offer("h2", "container")
    task = services.submit(ann, doc())
    offer("h2", "process")
    passes.run()
    task.refresh_from_db()
    assert (task.state, task.reason_code, task.reason_args["hosts"]) == ("queued", "no_container", 0)


@pytest.mark.parametrize("image", ["", IMAGE])
def test_a_task_waits_and_is_not_refused_while_hosts_can_run_nothing_at_all(ann: User, image: str) -> None:
    Host.objects.update(offers=[])  # as they say while the storage is away
    task = services.submit(ann, doc(image_full_name=image))
    passes.run()
    task.refresh_from_db()
    assert (task.state, Instance.objects.count()) == ("queued", 0)
    Host.objects.update(offers=["container", "process"])
    passes.run()
    assert Instance.objects.count() == 1


def test_operators_may_choose_an_image_for_those_that_name_none(ann: User, settings: Settings) -> None:
    settings.DEFAULT_IMAGE = "taiji/base:1"
    Host.objects.update(offers=["container"])
    read = config.read(doc(image_full_name=""), user=ann)
    assert (read.needs, read.document["image_full_name"]) == ("container", "taiji/base:1")
    assert config.read(doc(), user=ann).document["image_full_name"] == IMAGE


def auth_file(folder: Path, **passwords: str) -> str:
    """Write the file in which Docker keeps passwords; a name's `_` stands for `.`."""
    auths = {
        name.replace("_", "."): {"auth": base64.b64encode(f"ops:{password}".encode()).decode()}
        for name, password in passwords.items()
    }
    (folder / "auth.json").write_text(json.dumps({"auths": auths}))
    return str(folder / "auth.json")


def test_the_registrys_password_goes_sealed_to_the_host_and_nowhere_else(
    ann: User, settings: Settings, tmp_path: Path
) -> None:
    settings.REGISTRY_AUTH = auth_file(tmp_path, registry_example_com="pull-s3cr3t", other_com="not-this")
    Host.objects.update(offers=["container"])
    services.submit(ann, doc())
    passes.run()
    instance = Instance.objects.get()
    sealed = vault.unseal(instance.secrets)
    assert sealed == {"container.registry.username": "ops", "container.registry.password": "pull-s3cr3t"}
    assert "pull-s3cr3t" not in json.dumps([instance.spec, Task.objects.get().config])
    assert "pull-s3cr3t" not in instance.secrets


@pytest.mark.parametrize(
    ("image", "registry"),
    [
        ("busybox", "docker.io"),
        ("team/x:1", "docker.io"),
        ("localhost/x", "localhost"),
        ("r.example.com/x", "r.example.com"),
        ("h:5000/x", "h:5000"),
    ],
)
def test_the_registry_is_read_from_the_name(image: str, registry: str) -> None:
    assert registries.registry_of(image) == registry


def test_a_file_of_passwords_that_cannot_be_read_is_said_and_stops_nothing(
    settings: Settings, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    settings.REGISTRY_AUTH = str(tmp_path / "absent")
    assert registries.credentials(IMAGE) == {}
    (tmp_path / "absent").write_text('{"auths": {"registry.example.com": {"auth": "s3cr3t-not-base64"}')
    assert registries.credentials(IMAGE) == {}
    assert caplog.text.count("cannot be read") == 2
    assert "s3cr3t" not in caplog.text
