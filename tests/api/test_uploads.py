"""Code over the API: sent once, by members, whole or not at all; kept while somebody needs it."""

import hashlib
import os
import tarfile
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from django.utils import timezone
from pytest_django import Settings
from pytest_django.live_server_helper import LiveServer

from cluster import bundles, logs
from cluster.models import Host
from jobs import uploads
from jobs.client.pack import pack
from jobs.client.uploads import NotTaken, client, send, upload
from jobs.materials import Code, Upload
from jobs.models import Task
from jobs.states import State
from tests.agent.packing import code, member, packed
from tests.api.conftest import Caller, doc, errors
from tests.world import World

ARCHIVE = code(start_sh="#!/bin/sh\necho hello")


def name_of(archive: bytes) -> str:
    return f"sha256:{hashlib.sha256(archive).hexdigest()}"


def put(caller: Caller, archive: bytes = ARCHIVE, business: str = "ads", name: str = "") -> Any:
    return caller.client.put(
        f"/api/v1/uploads/{name or name_of(archive)}/?business={business}",
        archive,
        content_type="application/gzip",
        headers={"Authorization": f"Token {caller.token}"},
    )


def head(caller: Caller, archive: bytes = ARCHIVE, business: str = "ads") -> int:
    path = f"/api/v1/uploads/{name_of(archive)}/?business={business}"
    return int(caller.client.head(path, headers={"Authorization": f"Token {caller.token}"}).status_code)


def test_code_that_was_sent_is_there_and_is_not_taken_twice(ann: Caller) -> None:
    assert head(ann) == 404
    answer = put(ann)
    assert (answer.status_code, answer.json()) == (201, {"upload": name_of(ARCHIVE), "size": len(ARCHIVE)})
    assert head(ann) == 200
    assert put(ann).status_code == 200
    assert bundles.path_of(Upload.objects.get().digest).read_bytes() == ARCHIVE


def test_another_business_neither_sees_it_nor_may_send_for_this_one(ann: Caller, outsider: Caller) -> None:
    put(ann)
    for business in ("ads", "nothing", ""):
        answer = put(outsider, business=business)
        assert (answer.status_code, list(errors(answer))) == (400, ["business"])
    assert head(outsider, business="search") == 404
    fault = outsider.post("tasks/", doc(business_flag="search", upload=name_of(ARCHIVE), GPUName="P40"))
    assert errors(fault)["upload"] == "unknown"
    assert put(outsider, business="search").status_code == 201  # it proved that it has it
    assert len(list(Path(bundles.path_of("0" * 64).parents[1]).rglob("*.tar.gz"))) == 1


def test_without_a_token_nothing_is_taken(ann: Caller) -> None:
    path = f"/api/v1/uploads/{name_of(ARCHIVE)}/?business=ads"
    assert ann.client.put(path, ARCHIVE, content_type="application/gzip").status_code == 401


@pytest.mark.parametrize(
    ("archive", "name", "fault"),
    [
        (ARCHIVE, name_of(b"other"), {"digest": "digest"}),
        (ARCHIVE, "sha256:..%2f..%2fsecrets.json", {"digest": "format"}),
        (ARCHIVE, "sha256:" + "A" * 64, {"digest": "format"}),
        (b"#!/bin/sh", "", {"": "unsafe"}),
        (packed(member("../out")), "", {"": "unsafe"}),
        (packed(member("a", tarfile.SYMTYPE, linkname="/etc")), "", {"": "unsafe"}),
    ],
    ids=["other digest", "path", "capitals", "no archive", "path inside", "link out"],
)
def test_what_is_not_safe_code_is_refused_and_nothing_is_kept(
    ann: Caller, archive: bytes, name: str, fault: dict[str, str], settings: Settings
) -> None:
    answer = put(ann, archive, name=name)
    if answer.status_code != 404:  # a slash leads to no address at all
        assert (answer.status_code, errors(answer)) == (400, fault)
    assert not Upload.objects.exists()
    assert not [path for path in Path(settings.CODE_DIR).rglob("*") if path.is_file() and path.name != "lock"]


def test_one_that_is_too_large_or_unpacks_to_too_much_is_refused(ann: Caller, settings: Settings) -> None:
    settings.CODE_UNPACKED_MIB = 1
    assert errors(put(ann, packed((member("zeros"), b"\0" * (2**20 + 1))))) == {"": "unsafe"}
    settings.UPLOAD_MIB = 0
    answer = put(ann)
    assert (answer.status_code, errors(answer)) == (413, {"": "too_large"})


def test_a_business_has_so_much_and_no_more(ann: Caller, settings: Settings) -> None:
    put(ann)
    settings.UPLOADS_MIB = 0
    answer = put(ann, code(a="another"))
    assert (answer.status_code, errors(answer)) == (413, {"": "uploads_full"})


def test_the_last_of_a_disk_is_left_to_the_database(ann: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "SPARED", 2**62)
    answer = put(ann)
    assert (answer.status_code, errors(answer)) == (507, {"": "disk_full"})
    assert Upload.objects.count() == 0


def test_a_full_disk_answers_507_and_keeps_nothing(ann: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    answer = put(ann)
    assert (answer.status_code, errors(answer)) == (507, {"": "disk_full"})
    assert head(ann) == 404


def test_a_path_on_the_user_s_machine_is_refused_with_the_way_out(ann: Caller) -> None:
    answer = ann.post("tasks/", doc(model_local_file_path="/home/ann/code"))
    assert errors(answer) == {"model_local_file_path": "not_uploaded"}
    assert "taiji submit" in answer.json()["errors"][0]["message"]


def test_a_task_names_its_upload_and_needs_no_command(ann: Caller) -> None:
    put(ann)
    body = {"business_flag": "ads", "model_local_file_path": "/home/ann/resnet/", "upload": name_of(ARCHIVE)}
    made = ann.post("tasks/", body)
    assert made.status_code == 201
    shown = ann.get(f"tasks/{made.json()['id']}/").json()
    assert shown["config"]["upload"] == name_of(ARCHIVE)
    [known] = ann.get("models/").json()["results"]
    assert (known["name"], known["kind"], str(known["id"])) == ("resnet", "upload", shown["model_id"])
    again = ann.post(
        "tasks/", {"business_flag": "ads", "model_id": known["id"], "model_local_file_path": "/x"}
    )
    assert again.status_code == 201
    assert set(Task.objects.values_list("code", flat=True)) == {known["id"]}


def test_what_the_business_does_not_know_is_refused(ann: Caller, outsider: Caller) -> None:
    Host.objects.update(offers=["process", "process_ceph"])
    put(outsider, business="search")
    outsider.post(
        "tasks/", doc(business_flag="search", GPUName="P40", is_elasticity=True, upload=name_of(ARCHIVE))
    )
    other = Code.objects.get().pk
    for given in (other, str(other), 999):
        assert errors(ann.post("tasks/", doc(model_id=given, dataset_id=given))) == {
            "model_id": "unknown",
            "dataset_id": "unknown",
        }
    assert ann.get("models/").json()["results"] == []


def test_code_that_nobody_needs_any_more_is_removed_in_time(
    ann: Caller, world: World, settings: Settings
) -> None:
    archives = {name: code(a=name) for name in ("live", "recent", "old", "unused", "fresh")}
    for archive in archives.values():
        put(ann, archive)
    now = timezone.now()
    long_ago = now - timedelta(days=settings.UPLOAD_KEEP_DAYS + 1)
    for name, ended in (("live", None), ("recent", now), ("old", long_ago)):
        task = ann.post("tasks/", doc(upload=name_of(archives[name]))).json()["id"]
        if ended:
            Task.objects.filter(pk=task).update(state=State.SUCCEEDED, ended_at=ended)
    fresh = Upload.objects.get(digest=name_of(archives["fresh"]).removeprefix("sha256:"))
    Upload.objects.exclude(pk=fresh.pk).update(used_at=long_ago)
    draft = Path(settings.CODE_DIR) / "left.new"
    draft.write_text("x")
    for path in Path(settings.CODE_DIR).rglob("*.*"):
        _age(path, long_ago.timestamp())
    assert uploads.collect(now) == 2
    assert {name for name, archive in archives.items() if head(ann, archive) == 200} == {
        "live",
        "recent",
        "fresh",
    }
    assert len(list(Path(settings.CODE_DIR).rglob("*.*"))) == 3
    old = Code.objects.get(params__digest=name_of(archives["old"]).removeprefix("sha256:"))
    assert errors(ann.post("tasks/", doc(model_id=old.pk))) == {"model_id": "unknown"}


def _age(path: Path, at: float) -> None:
    os.utime(path, (at, at))


# The client, against the real views


@pytest.fixture
def calls(ann: Caller, live_server: LiveServer) -> Iterator[Any]:
    """Return a client of the real server, and what it called."""
    with client(live_server.url, ann.token) as made:
        seen: list[str] = []
        made.event_hooks = {"request": [lambda request: seen.append(request.method)]}
        yield SimpleNamespace(client=made, seen=seen)


@pytest.mark.django_db(transaction=True)
def test_the_client_sends_a_folder_once(ann: Caller, calls: Any, tmp_path: Path) -> None:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "start.sh").write_text("#!/bin/sh\necho hello")
    first, second = (upload(calls.client, "ads", folder) for _ in range(2))
    assert first == second
    assert calls.seen == ["HEAD", "PUT", "HEAD"]
    assert ann.post("tasks/", {"business_flag": "ads", "upload": first}).status_code == 201


@pytest.mark.django_db(transaction=True)
def test_the_client_says_why_an_upload_was_not_taken(calls: Any, tmp_path: Path, settings: Settings) -> None:
    settings.UPLOADS_MIB = 0
    (tmp_path / "project").mkdir()
    made = pack(tmp_path / "project", tmp_path)
    with pytest.raises(NotTaken, match="which is the most"):
        send(calls.client, "ads", made)
    with pytest.raises(NotTaken, match="a business of yours"):
        send(calls.client, "search", made)


def test_the_client_comes_again_where_too_much_is_uploaded_at_once(tmp_path: Path) -> None:
    (tmp_path / "project").mkdir()
    made = pack(tmp_path / "project", tmp_path)
    puts: list[bytes] = []

    def answer(request: httpx.Request) -> httpx.Response:
        if request.method == "HEAD":
            return httpx.Response(404)
        puts.append(request.read())
        return httpx.Response(429, headers={"Retry-After": "0"}) if len(puts) < 3 else httpx.Response(201)

    with httpx.Client(transport=httpx.MockTransport(answer), base_url="http://platform/") as calls:
        assert send(calls, "ads", made)
    assert puts == [made.file.read_bytes()] * 3
