"""Code in pods: uploaded or from git, brought by the agent's own preparation in a container before the task's."""

import asyncio
import threading
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone
from pytest_django import Settings

from cluster import bundles
from cluster.models import Card, Instance
from jobs import services
from jobs.materials import Upload
from jobs.models import Task
from tests.agent import packing
from tests.agent.git_host import GitHost
from tests.kubernetes.conftest import Kube, node
from tests.kubernetes.floor import Floor
from tests.world import World


class Door:
    """The platform's door for code, over HTTP; what is asked of it is answered by the test's thread."""

    def __init__(self) -> None:
        """Listen on a free port."""
        door = self
        self.asked: list[tuple[str, str]] = []  # address and authorization
        self.answers: dict[str, tuple[int, bytes]] = {}
        self.news = threading.Condition()

        class Calls(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                with door.news:
                    door.asked.append((self.path, self.headers["Authorization"]))
                    door.news.wait_for(lambda: self.path in door.answers, 20)
                status, body = door.answers[self.path]
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_args: object) -> None:
                return

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Calls)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"

    def serve(self) -> None:
        """Let the platform itself answer what was asked."""
        for path, authorization in list(self.asked):
            if path not in self.answers:
                response = Client().get(path, headers={"authorization": authorization})
                body = asyncio.run(whole(response)) if response.streaming else response.content
                with self.news:
                    self.answers[path] = (response.status_code, body)
                    self.news.notify_all()


async def whole(response: Any) -> bytes:
    """Return what an answer streams."""
    return b"".join([part async for part in response])


@pytest.fixture
def door() -> Iterator[Door]:
    door = Door()
    yield door
    door.server.shutdown()
    door.server.server_close()


@pytest.fixture
def coded(world: World, kube: Kube, door: Door, settings: Settings) -> Kube:
    """Return a cluster with two nodes whose pods may bring code."""
    settings.GIT_PREFIXES = ["http://127.0.0.1"]
    world.business("ads", P40=16)
    kube.options = replace(kube.options, tools_image="tools:1", platform_url=door.url)
    for name in ("gpu-1", "gpu-2"):
        kube.add(node(name))
    kube.control()
    kube.until(lambda: Card.objects.filter(state="ok").count() == 16)
    return kube


def uploaded(world: World, **files: str) -> str:
    """Keep packed code that ann uploaded, and return its name."""
    archive = packing.code(**files)
    digest = packing.digest(archive)
    path = bundles.path_of(digest)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(archive)
    who = {"business": world.business("ads"), "user": world.user("ann", "ads")}
    Upload.objects.create(**who, digest=digest, size=len(archive), used_at=timezone.now())
    return f"sha256:{digest}"


def submit(world: World, **fields: Any) -> Task:
    """Submit a task of ann's."""
    return services.submit(world.user("ann", "ads"), {"business_flag": "ads", "GPUName": "P40", **fields})


def finish(kube: Kube, door: Door, task: Task, state: str) -> None:
    """Run until the task is in `state`, with the platform answering for code."""

    def met() -> bool:
        door.serve()
        task.refresh_from_db()
        return task.state == state

    kube.until(met, 40)


def test_uploaded_code_runs_by_its_own_start_program(world: World, coded: Kube, door: Door) -> None:
    task = submit(
        world, upload=uploaded(world, start_sh="#!/bin/sh\necho started by itself in $(basename $PWD)\n")
    )
    finish(coded, door, task, "succeeded")
    coded.settle()
    log = coded.log(task)
    assert log.endswith(b"started by itself in work\n")
    assert b"[taiji] unpacking the code\n" in log
    coded.until(lambda: not coded.things("secrets"))  # the token went with its pod


def test_the_code_is_handed_out_to_its_own_pod_alone(world: World, coded: Kube, door: Door) -> None:
    task = submit(world, upload=uploaded(world, start_sh="#!/bin/sh\necho hello"), start_cmd="cat start.sh")
    coded.until(lambda: door.asked)
    path, authorization = door.asked[0]
    for wrong in ("Bearer pod.nonsense", f"{authorization}x", ""):
        assert Client().get(path, headers={"authorization": wrong}).status_code in {401, 404}
    other = path.replace(path.split("/")[-2], "0" * 64)
    assert Client().get(other, headers={"authorization": authorization}).status_code == 404
    finish(coded, door, task, "succeeded")
    assert b"echo hello" in coded.log(task)
    assert Client().get(path, headers={"authorization": authorization}).status_code == 404  # it is over


def test_code_that_is_not_there_any_more_fails_with_the_platforms_words(
    world: World, coded: Kube, door: Door
) -> None:
    name = uploaded(world, start_sh="#!/bin/sh\n")
    task = submit(world, upload=name)
    bundles.path_of(name.removeprefix("sha256:")).unlink()
    finish(coded, door, task, "failed")
    attempt = task.attempts.get()
    assert attempt.outcome_code == "code_failed"
    assert "The platform has this code no more: upload it again." in attempt.outcome_args["detail"]
    coded.settle()
    assert coded.leased() == 0


@pytest.fixture
def git_host(tmp_path: Path, settings: Settings) -> Iterator[GitHost]:
    host = GitHost(tmp_path / "git")
    host.folder.mkdir()
    settings.GIT_PREFIXES = [f"{host.url}/"]
    yield host
    host.close()


def test_a_gang_runs_the_commit_that_its_first_member_found(
    world: World, coded: Kube, door: Door, git_host: GitHost
) -> None:
    project = git_host.project("vision/resnet", token="glpat-1")
    first = project.commit(start_sh="#!/bin/sh\necho first")
    place = {"group": "vision", "project": "resnet", "private_token": "glpat-1"}
    task = submit(
        world, model_params={"path_info": place}, host_num=2, host_gpu_num=8, exec_start_in_all_mpi_pods=True
    )
    coded.until(lambda: Instance.objects.filter(rank=0).exclude(commit="").exists())
    second = project.commit(start_sh="#!/bin/sh\necho second")
    finish(coded, door, task, "succeeded")
    assert set(Instance.objects.values_list("commit", flat=True)) == {first}
    assert second != first
    coded.settle()
    assert all(coded.log(task, rank).endswith(b"first\n") for rank in (0, 1))


def test_a_gang_whose_first_member_alone_runs_the_command_has_its_code_on_every_host(
    world: World, coded: Kube, door: Door, git_host: GitHost
) -> None:
    coded.controllers.pop().stop()
    floor = Floor(coded)
    project = git_host.project("vision/resnet", token="glpat-1")
    first = project.commit(start_sh="#!/bin/sh\necho first")
    place = {"group": "vision", "project": "resnet", "private_token": "glpat-1"}
    see = "cat start.sh >>$TAIJI_TASK_DIR/seen-$RANK"
    asked = {"model_params": {"path_info": place}, "host_num": 2, "host_gpu_num": 8}
    task = submit(world, **asked, exit_cmd=see, start_cmd="./start.sh; sleep 60")
    coded.until(lambda: Instance.objects.filter(rank=0).exclude(commit="").exists())
    project.commit(start_sh="#!/bin/sh\necho second")
    finish(coded, door, task, "running")
    coded.until(lambda: coded.log(task).endswith(b"first\n"))
    assert set(Instance.objects.values_list("commit", flat=True)) == {first}
    assert "glpat-1" not in str(floor.jobs()) + str(floor.pods())
    services.stop(task, world.user("ann"))
    finish(coded, door, task, "stopped")
    floor.settle()
    seen = [(floor.folder(task) / f"task-{task.pk}" / f"seen-{rank}").read_text() for rank in (0, 1)]
    assert seen == ["#!/bin/sh\necho first"] * 2


def test_uploaded_code_comes_to_every_member_of_an_mpijob(world: World, coded: Kube, door: Door) -> None:
    coded.controllers.pop().stop()
    floor = Floor(coded)
    name = uploaded(world, start_sh="#!/bin/sh\necho started by itself\n")
    task = submit(world, upload=name, host_num=2, host_gpu_num=8)
    finish(coded, door, task, "succeeded")
    floor.settle()
    assert floor.kube.log(task).endswith(b"started by itself\n")
    assert floor.kube.log(task, 1).endswith(b"[taiji] unpacking the code\n")


def test_a_branch_that_is_not_there_is_told_as_by_any_host(
    world: World, coded: Kube, door: Door, git_host: GitHost
) -> None:
    git_host.project("vision/resnet").commit(start_sh="#!/bin/sh\n")
    place = {"group": "vision", "project": "resnet", "branch": "x"}
    task = submit(world, model_params={"path_info": place})
    finish(coded, door, task, "failed")
    assert task.attempts.get().outcome_args["detail"].startswith("There is no branch 'x' at ")
