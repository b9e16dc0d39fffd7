"""Secrets: what is typed once is shown nowhere, and is encrypted with the newest key."""

import json
import logging
from typing import Any

import pytest
from cryptography.fernet import Fernet
from django.core.management import CommandError, call_command
from django.db import connection
from django.test import Client

from cluster import vault
from cluster.models import Host
from jobs import config, rotation, services
from jobs.models import Task
from quotas.audit import AuditEntry
from quotas.models import ApiToken
from tests.access.people import House, routes
from tests.world import World

ENV, CEPH, GIT, TOKEN = (
    "env-s3cr3t!-7f31",
    "AQDcephS3cr3tNotShownAnywhere0123456789A==",
    "git-s3cr3t!-44ac",
    "token-s3cr3t!-d1e5-long-enough",
)
VALUES = (ENV, CEPH, GIT, TOKEN)


def document(**more: object) -> dict[str, Any]:
    return {
        "business_flag": "ads",
        "start_cmd": "echo $AWS_SECRET",
        "env": {"AWS_SECRET": {"value": ENV, "secret": True}},
        "dataset_params": {
            "dataset_source": "outer_ceph",
            "dataset_name": "d",
            "ceph_info": [
                {"addr": "10.0.0.1:6789", "name": "ann", "secret": CEPH, "src_path": "/a", "dst_path": "/b"}
            ],
        },
        "model_params": {
            "model_source": "git",
            "model_name": "m",
            "path_info": {"group": "g", "project": "p", "private_token": GIT, "branch": "main"},
        },
        **more,
    }


@pytest.fixture
def house(world: World, settings: Any) -> House:
    settings.GIT_PREFIXES = ["https://git.example.com/"]
    house = House(world)
    Host.objects.update(offers=["process", "ceph", "process_ceph"])
    return house


def submit(body: dict[str, Any]) -> Any:
    return Client().post(
        "/api/v1/tasks/", json.dumps({**body, "Token": TOKEN}), content_type="application/json"
    )


def tables() -> str:
    """Return all that the database holds, column by column, as it lies there."""
    with connection.cursor() as cursor:
        found = []
        for table in connection.introspection.table_names(cursor):
            cursor.execute(f'SELECT * FROM "{table}"')
            found += [str(row) for row in cursor.fetchall()]
    return "\n".join(found)


def test_a_secret_shows_nowhere_once_it_was_sent(
    house: House, world: World, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    owner = world.user("owner")
    ApiToken.objects.issue(owner, "ci", TOKEN)
    answer = submit(document())
    assert answer.status_code == 201, answer.content.decode()
    copy = services.submit(
        owner, Task.objects.get(pk=answer.json()["id"]).config, origin=Task.objects.latest("pk")
    )
    assert vault.unseal(copy.secrets)["env.AWS_SECRET"] == ENV  # a copy keeps them unseen
    shown = [answer.content.decode(), tables(), caplog.text]
    for pk in (answer.json()["id"], copy.pk):
        house.numbers["tasks"] = pk
        for role in ("owner", "member", "operator"):
            for route in [*routes()]:
                if not route.startswith(("api/agent/", "admin/")) or route.startswith("admin/jobs/task/"):
                    found = house.answer(role, "get", house.path(route))
                    body = found.content if not found.streaming else b""
                    shown.append(body.decode(errors="replace"))
            shown.append(house.clients[role].get(f"/tasks/new/?origin={pk}").content.decode())
            shown.append(house.clients[role].get(f"/admin/jobs/task/{pk}/change/").content.decode())
    assert any("AWS_SECRET" in text for text in shown[3:]), "no page with the task was looked at"
    assert [value for value in VALUES for text in shown if value in text] == []


@pytest.mark.parametrize("value", VALUES)
def test_a_secret_in_the_command_is_refused_and_not_said_again(
    value: str, house: House, world: World, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    ApiToken.objects.issue(world.user("owner"), "ci", TOKEN)
    answer = submit(document(start_cmd=f"login --key {value}"))
    assert answer.status_code == 400
    assert "start_cmd" in [error["field"] for error in answer.json()["errors"]]
    assert value not in answer.content.decode() + tables() + caplog.text


def test_a_colleague_copies_no_secrets_of_others(house: House, world: World) -> None:
    task = services.submit(world.user("owner"), document())
    with pytest.raises(config.Invalid) as refused:
        services.submit(world.user("member"), task.config, origin=task)
    assert {fault.field for fault in refused.value.faults} >= {"env.AWS_SECRET"}


def test_secrets_are_encrypted_with_the_newest_key_and_the_old_one_can_go(
    house: House, world: World, settings: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    old, new = settings.VAULT_KEYS[0], Fernet.generate_key().decode()
    tasks = [services.submit(world.user("owner"), document()) for _ in range(5)]
    settings.VAULT_KEYS = [new, old]
    with pytest.raises(CommandError, match="Keep the older keys"):
        call_command("rotate_secrets", "--check")
    call_command("rotate_secrets", "--batch", "2")
    settings.VAULT_KEYS = [new]
    for task in tasks:
        task.refresh_from_db()
        assert vault.unseal(task.secrets)["env.AWS_SECRET"] == ENV
    call_command("rotate_secrets", "--check")
    assert "0 to encrypt anew" in capsys.readouterr().out
    assert AuditEntry.objects.filter(deed="secrets.rotated").count() == 1


def test_a_rotation_that_is_repeated_writes_nothing(house: House, world: World, settings: Any) -> None:
    task = services.submit(world.user("owner"), document())
    settings.VAULT_KEYS = [Fernet.generate_key().decode(), *settings.VAULT_KEYS]
    first = rotation.rotate()
    assert (first.renewed > 0, first.newest) == (True, 0)
    task.refresh_from_db()
    again = rotation.rotate()
    assert (again.renewed, again.newest) == (0, first.renewed)
    assert Task.objects.get(pk=task.pk).secrets == task.secrets


def test_what_no_key_reads_stays_as_it_is_and_is_told(house: House, world: World, settings: Any) -> None:
    task = services.submit(world.user("owner"), document())
    settings.VAULT_KEYS = [Fernet.generate_key().decode()]
    with pytest.raises(CommandError, match="cannot be read with any key"):
        call_command("rotate_secrets")
    assert Task.objects.get(pk=task.pk).secrets == task.secrets


def test_a_secret_that_changed_meanwhile_is_not_undone(house: House, world: World, settings: Any) -> None:
    task = services.submit(world.user("owner"), document())
    settings.VAULT_KEYS = [Fernet.generate_key().decode(), *settings.VAULT_KEYS]
    batch = next(rotation._batches(Task, 10))
    changed = vault.seal({"env.AWS_SECRET": "another"})
    Task.objects.filter(pk=task.pk).update(secrets=changed)
    rotation._renew(Task, batch, rotation.Count(), write=True)
    assert Task.objects.get(pk=task.pk).secrets == changed
