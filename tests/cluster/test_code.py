"""The door for packed code: handed out to hosts that need it, streamed, and to nobody else."""

import hashlib
import io
import os
from pathlib import Path
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from pytest_django import Settings

from cluster import bundles
from cluster.models import Host, Instance
from tests.agent.packing import code
from tests.cluster.test_lane import open_call
from tests.cluster.words import Agent, launch, row
from tests.world import World

ARCHIVE = code(start_sh="echo hello")
DIGEST = hashlib.sha256(ARCHIVE).hexdigest()


@pytest.fixture
def agent(world: World) -> Agent:
    """Return the agent of a host with one card."""
    return Agent(world.host("h1", 1))


def keep(archive: bytes) -> None:
    digest = hashlib.sha256(archive).hexdigest()
    with bundles.received(digest, io.BytesIO(archive).read, len(archive)) as came:
        came.keep()


def get(agent: Agent | None, digest: str) -> tuple[int, bytes, list[bytes]]:
    """Ask for packed code; return the status, the declared length, and the parts."""

    async def story() -> tuple[int, bytes, list[bytes]]:
        opened = open_call(agent, "GET", f"/api/agent/code/{digest}/", b"")
        start = await opened.receive_output(5)
        parts = []
        while True:
            message = await opened.receive_output(5)
            parts.append(message["body"])
            if not message.get("more_body"):
                break
        await opened.wait(60)
        headers: dict[bytes, bytes] = dict(start["headers"])
        assert len(headers) == len(start["headers"])  # none is said twice
        return start["status"], headers[b"content-length"], parts

    return async_to_sync(story)()


def wants(host: Host, digest: str = DIGEST, **spec: Any) -> Instance:
    """Let an instance of the host need the code."""
    return row(
        launch(host, gang=host.pk, spec={"env": {}, "code": {"kind": "upload", "digest": digest}, **spec})
    )


@pytest.mark.django_db(transaction=True)
def test_a_host_gets_the_code_that_an_instance_of_it_needs_piece_by_piece(
    agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep(ARCHIVE)
    wants(agent.host)
    monkeypatch.setattr(bundles, "CHUNK", 50)
    status, length, parts = get(agent, DIGEST)
    assert (status, b"".join(parts), int(length)) == (200, ARCHIVE, len(ARCHIVE))
    assert max(map(len, parts)) == 50


@pytest.mark.django_db(transaction=True)
def test_code_that_no_live_instance_of_the_host_needs_is_not_handed_out(agent: Agent, world: World) -> None:
    keep(ARCHIVE)
    assert get(agent, DIGEST)[0] == 404
    wants(world.host("h2", 1))
    assert get(agent, DIGEST)[0] == 404  # another host's
    gone = wants(agent.host)
    Instance.objects.filter(pk=gone.pk).update(phase="gone")
    assert get(agent, DIGEST)[0] == 404
    assert get(None, DIGEST)[0] == 401
    assert get(agent, "..%2f..%2fsecrets.json")[0] == 404


@pytest.mark.django_db(transaction=True)
def test_an_instance_that_is_to_end_still_gets_its_code_so_that_its_end_is_no_fault_of_the_code(
    agent: Agent,
) -> None:
    keep(ARCHIVE)
    Instance.objects.filter(pk=wants(agent.host).pk).update(wanted=False)
    assert get(agent, DIGEST)[0] == 200


@pytest.mark.django_db(transaction=True)
def test_code_that_was_removed_is_told_to_be_gone(agent: Agent) -> None:
    wants(agent.host)
    status, _, parts = get(agent, DIGEST)
    assert (status, b"upload it again" in b"".join(parts)) == (404, True)


def test_drafts_are_never_taken_for_code_and_a_failed_one_leaves_nothing(settings: Settings) -> None:
    with (
        pytest.raises(bundles.WrongDigest),
        bundles.received("0" * 64, io.BytesIO(ARCHIVE).read, 10**6),
    ):
        pytest.fail("it was taken")
    with (
        pytest.raises(bundles.TooLarge),
        bundles.received(DIGEST, io.BytesIO(ARCHIVE).read, len(ARCHIVE) - 1),
    ):
        pytest.fail("it was taken")
    with bundles.received(DIGEST, io.BytesIO(ARCHIVE).read, len(ARCHIVE)):
        pass  # nobody says that it is to be kept
    assert not list(settings.CODE_DIR.rglob("*.*"))
    with pytest.raises(ValueError, match="no digest"):
        bundles.path_of("../x")


def test_a_draft_that_was_just_finished_ends_no_collection(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep(ARCHIVE)
    old = bundles.path_of(DIGEST)
    os.utime(old, (1, 1))
    monkeypatch.setattr(Path, "rglob", lambda folder, pattern: [folder / "finished.new", old])
    assert bundles.remove_others([], before=2) == 1
    assert not old.exists()
