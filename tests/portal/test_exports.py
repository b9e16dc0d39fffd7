"""The document as JSON, curl and Python: it runs as it stands, and gives no secret away."""

import json
import os
import subprocess
import sys
from typing import Any

import pytest
from pytest_django.live_server_helper import LiveServer

from jobs.models import Task
from jobs.portal.exports import exports
from jobs.portal.masks import masked, restored
from quotas.models import ApiToken
from tests.world import World

SECRETS = {
    "Token": "s3cr3t-token",
    "env": {"KEY": {"value": "s3cr3t-env", "secret": True}, "secret": "plain", "A": "1"},
    "model_params": {"path_info": {"group": "g", "project": "p", "private_token": "s3cr3t-git"}},
    "dataset_params": {
        "ceph_info": [{"addr": "a:1", "secret": "s3cr3t-ceph"}, {"addr": "b:1", "secret": ""}]
    },
}


def test_no_secret_stands_in_any_of_the_texts() -> None:
    found = exports({"business_flag": "ads", **SECRETS}, "http://x/", "http://x/api/v1/tasks/")
    assert "s3cr3t" not in found.json + found.taiji + found.curl + found.python
    assert found.hidden
    assert '"secret": "plain"' in found.json  # a variable of that name is none
    for text in (found.curl, found.python):
        assert "TAIJI_TOKEN" in text


def test_a_document_without_secrets_says_nothing_of_them() -> None:
    assert not exports({"business_flag": "ads"}, "http://x/", "http://x/api/v1/tasks/").hidden


def test_marks_are_put_back_to_the_secrets_that_they_stand_for() -> None:
    document = {name: value for name, value in SECRETS.items() if name != "Token"}
    assert restored(masked(document), document) == document


def test_a_mark_of_a_secret_that_is_not_there_stays_a_mark() -> None:
    assert restored({"env": {"KEY": {"secret": True}}}, {"env": {}}) == {"env": {"KEY": {"secret": True}}}


ODD = {
    "business_flag": "ads",
    "GPUName": "P40",
    "start_cmd": "echo 'it''s' \"$HOME\" `date` \\\n\tCONFIG\n中文 {not_a_field}",
    "env": {"A": "$(id)", "LONG": "x" * 200},
    "tags": ["a b", "100%"],
    "keep_alive": True,
}


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("kind", ["taiji", "curl", "python"])
def test_a_text_run_as_it_stands_makes_the_task(kind: str, live_server: LiveServer, world: World) -> None:
    world.business("ads", P40=8)
    world.host("h1")
    token = ApiToken.objects.issue(world.user("ann", "ads"), "test")
    text: Any = getattr(exports(ODD, f"{live_server.url}/", f"{live_server.url}/api/v1/tasks/"), kind)
    taiji = f'taiji() {{ {sys.executable} -m jobs.client.command "$@"; }}\n'
    command = [sys.executable, "-c", text] if kind == "python" else ["bash", "-c", taiji + text]
    done = subprocess.run(
        command,
        env={**os.environ, "TAIJI_TOKEN": token},
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
    )
    task = Task.objects.get()
    assert done.returncode == 0, done.stderr
    assert f"/tasks/{task.pk}/" in done.stdout
    assert {name: task.config[name] for name in ODD} == ODD


def test_the_json_is_what_the_api_takes() -> None:
    assert json.loads(exports(ODD, "http://x/", "http://x/api/v1/tasks/").json) == ODD
