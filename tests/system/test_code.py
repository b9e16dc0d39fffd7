"""Code from a folder and from git, through the whole product: uploaded once, fetched once, run, and recorded."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from jobs.client.uploads import client, upload
from tests.agent.git_host import GitHost
from tests.system.product import Product, document
from tests.system.test_story import Story

pytestmark = pytest.mark.system
TOKEN = "glpat-S3cr3tOfAnn"


@pytest.fixture(scope="module")
def git_host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GitHost]:
    made = GitHost(tmp_path_factory.mktemp("repositories"))
    yield made
    made.close()


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory, migrated: Path, git_host: GitHost) -> Iterator[Story]:
    """Return a started product whose operator allows the git host."""
    product = Product(
        tmp_path_factory.mktemp("product") / "dä ta",
        like=migrated,
        TAIJI_GIT=git_host.url,
        TAIJI_SIMULATE="P40:4",
    )
    product.up()
    yield Story(product)
    product.clear_away()


def ended(story: Story, **fields: Any) -> dict[str, Any]:
    """Submit a document and return the task once it is over."""
    body = {name: value for name, value in document("").items() if name != "start_cmd"} | fields
    answer = story.api.post("tasks/", json=body)
    assert answer.status_code == 201, answer.text
    number = int(answer.json()["id"])
    story.wait(lambda: story.states(number)[0] in {"succeeded", "failed"}, 40)
    return story.task(number)


def test_a_folder_is_uploaded_once_fetched_once_and_runs(story: Story, tmp_path: Path) -> None:
    (tmp_path / "start.py").write_text("import lib; print(lib.WORDS, flush=True)")
    (tmp_path / "lib.py").write_text("WORDS = 'hello from the folder'")
    token = (story.product.data / "admin-token").read_text().strip()
    with client(story.product.places.url, token) as calls:
        first, second = (upload(calls, "ads", tmp_path) for _ in range(2))
    assert first == second
    for _ in range(2):
        task = ended(story, model_local_file_path=str(tmp_path), upload=first)
        assert task["state"] == "succeeded", story.log(task["id"])
        story.printed(task["id"], "hello from the folder")
    words = "".join(path.read_text() for path in story.product.places.logs.glob("agent*.log"))
    assert words.count("The code ") == 1
    assert len(list((story.product.data / "code").rglob("*.tar.gz"))) == 1


def test_git_code_runs_its_commit_is_shown_and_its_token_lies_nowhere(
    story: Story, git_host: GitHost
) -> None:
    project = git_host.project("vision/resnet", TOKEN)
    commit = project.commit(start_sh="#!/bin/sh\necho hello from git")
    place = {"group": "vision", "project": "resnet", "private_token": TOKEN}
    task = ended(story, model_params={"model_source": "git", "path_info": place})
    assert (task["state"], task["attempts"][0]["commit"]) == ("succeeded", commit)
    story.printed(task["id"], "hello from git")
    assert task["config"]["model_params"]["path_info"]["private_token"] == {"secret": True}
    again = ended(story, model_id=task["model_id"])
    assert again["attempts"][0]["commit"] == commit
    holding = [
        path
        for path in story.product.data.rglob("*")
        if path.is_file() and TOKEN.encode() in path.read_bytes()
    ]
    assert holding == []


def test_code_that_cannot_be_had_fails_the_task_with_the_reason(story: Story, git_host: GitHost) -> None:
    git_host.project("vision/private", TOKEN).commit(start_sh="echo")
    place = {"group": "vision", "project": "private", "private_token": "wrong-token"}
    task = ended(story, model_params={"model_source": "git", "path_info": place})
    [attempt] = task["attempts"]
    assert (task["state"], attempt["outcome"]) == ("failed", "failed")
    assert "refuses the token" in attempt["hosts"][0]["detail"]
