"""Private ceph of tasks on a cluster: volumes of ceph-csi where its driver is, else refused with the reason."""

import json
import uuid
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from django.core.management.base import CommandError

from cluster.kubernetes import ceph, mount_troubles, troubles
from cluster.management.commands import kubernetes
from cluster.models import Card, Instance
from jobs import services
from jobs.models import Task
from jobs.values import Invalid
from tests.kubernetes import schemas, test_pods
from tests.kubernetes.conftest import Kube, named, node
from tests.kubernetes.floor import Floor
from tests.kubernetes.test_deploy import given, used
from tests.kubernetes.test_platform import FOLDER as MANIFESTS
from tests.world import World

JSON = dict[str, Any]
MONITORS, KEY = "10.0.0.1:6789,10.0.0.2:6789", "c2VjcmV0LWtleQ=="


class Ceph:
    """A cluster with the driver, which reaches a ceph with a folder of Ann's."""

    def __init__(self, world: World, kube: Kube, folder: Path, *, driver: bool = True) -> None:
        self.world, self.kube, self.seen = world, kube, folder / "seen"
        (folder / "ceph" / "team").mkdir(parents=True)
        (folder / "ceph" / "team" / "data.txt").write_text("forty two\n")
        kube.fleet.ceph.clusters[MONITORS] = folder / "ceph"
        kube.fleet.ceph.users["ann"] = KEY
        kube.options = replace(kube.options, ceph=True)
        if driver:
            self.install()

    def install(self) -> None:
        """Install the driver."""
        self.kube.calls.create(ceph.DRIVERS, {**named("CSIDriver", ceph.DRIVER), "spec": {}})

    def begin(self, hosts: int = 1) -> None:
        for number in range(hosts):
            self.kube.add(node(f"gpu-{number + 1}"))
        self.kube.control()
        self.kube.until(lambda: Card.objects.count() == 8 * hosts)

    def submit(self, hosts: int = 1, **more: Any) -> Task:
        """Have a task that prints what lies in the folder."""
        mount = {
            "addr": MONITORS,
            "name": "ann",
            "secret": KEY,
            "src_path": "/team",
            "dst_path": str(self.seen),
        }
        document = {
            "business_flag": "ads",
            "GPUName": "P40",
            "host_num": hosts,
            "host_gpu_num": 8,
            "start_cmd": f"cat {self.seen}/data.txt; env",
            "exec_start_in_all_mpi_pods": True,
            "dataset_params": {"dataset_source": "outer_ceph", "ceph_info": [mount | more]},
        }
        return services.submit(self.world.user("ann", "ads"), document)

    def left(self) -> list[str]:
        """Return the volumes and claims that are there for tasks."""
        volumes = self.kube.calls.list("/api/v1/persistentvolumes", labelSelector="taiji.io/region")[0]
        things = [*volumes, *self.kube.things("persistentvolumeclaims"), *self.kube.things("secrets")]
        return [thing["metadata"]["name"] for thing in things]

    def sweep(self) -> None:
        """Have all go that is left over."""
        for controller in self.kube.controllers:
            controller._swept_at = -1e9
        self.kube.until(lambda: not self.left())


@pytest.fixture
def store(world: World, kube: Kube, tmp_path: Path) -> Ceph:
    world.business("ads", P40=32)
    return Ceph(world, kube, tmp_path)


def test_a_task_sees_its_folder_and_nothing_of_the_secret_and_leaves_nothing(store: Ceph, kube: Kube) -> None:
    store.begin()
    task = store.submit()
    kube.state(task, "succeeded")
    printed = kube.log(task).decode()
    assert printed.startswith("forty two\n")
    assert KEY not in printed
    kube.settle()
    every = [json.dumps(sent) for kind, sent in kube.server.store.created if kind != "secrets"]
    assert not [text for text in every if KEY in text]
    store.sweep()


@pytest.mark.parametrize("all_run", [True, False])
def test_the_members_of_a_gang_share_what_is_made_for_their_attempt(
    store: Ceph, kube: Kube, all_run: bool
) -> None:
    floor = Floor(kube)
    task = store.submit(hosts=2)
    if not all_run:
        Task.objects.filter(pk=task.pk).update(config={**task.config, "exec_start_in_all_mpi_pods": False})
    kube.until(lambda: task.attempts.count() == 1)
    kube.until(lambda: len(store.left()) >= 3)
    kube.state(task, "succeeded", 40)
    assert kube.log(task, 0).startswith(b"forty two\n")
    assert kube.log(task, 1).startswith(b"forty two\n") is all_run
    volumes = [sent for kind, sent in kube.server.store.created if kind == "persistentvolumes"]
    assert len([sent for sent in volumes if "csi" in sent["spec"]]) == (
        2 if all_run else 1
    )  # asked for twice, made once
    floor.settle()
    store.sweep()


@pytest.mark.parametrize("what", ["/persistentvolumes", "/persistentvolumeclaims", "/secrets", "/pods"])
def test_a_start_that_breaks_off_anywhere_is_done_once(store: Ceph, kube: Kube, what: str) -> None:
    store.begin()
    kube.server.fail(-1, method="POST", path=what)
    kube.server.fail(500, method="POST", path=what)
    task = store.submit()
    kube.state(task, "succeeded", 40)
    assert task.attempts.count() == 1
    kube.settle()
    store.sweep()


def test_without_the_driver_it_is_refused_with_the_reason_and_where_that_goes_it_waits(
    world: World, kube: Kube, tmp_path: Path
) -> None:
    world.business("ads", P40=32)
    store = Ceph(world, kube, tmp_path, driver=False)
    store.begin()
    with pytest.raises(Invalid, match=r"No host with 8 cards .P40. can mount private ceph"):
        store.submit()
    store.install()
    kube.until(lambda: "process_ceph" in Card.objects.select_related("host").first().host.offers)  # type: ignore[union-attr]  # there is one
    task = store.submit()
    services.hold(task, task.user)
    kube.calls.delete(f"{ceph.DRIVERS}/{ceph.DRIVER}")
    kube.until(lambda: "process_ceph" not in Card.objects.select_related("host").first().host.offers)  # type: ignore[union-attr]  # as before
    services.release(task, task.user)

    def why() -> str:
        task.refresh_from_db()
        return task.reason_code

    kube.until(lambda: why() == "no_ceph")


def test_a_place_that_is_the_platforms_own_is_refused_in_words(store: Ceph, kube: Kube) -> None:
    store.begin()
    task = store.submit(dst_path=str(kube.storage))
    kube.state(task, "failed")
    assert f"cannot be mounted at {kube.storage}: " in str(task.attempts.get().outcome_args)
    assert store.left() == []


def test_the_controller_has_the_rights_for_it_that_it_uses(store: Ceph, kube: Kube) -> None:
    store.begin()
    kube.server.fail(-1, method="POST", path="/persistentvolumes")
    kube.server.fail(-1, method="POST", path="/persistentvolumeclaims")
    kube.controllers[0]._mounts._ask(uuid.UUID(int=1), {"metadata": {"uid": "u"}})
    kube.state(store.submit(), "succeeded", 40)
    kube.settle()
    claim = ceph.objects(test_pods.spec(data=[FOLDER]), 9, {}, kube.options)
    for folder, body in list(claim)[1:]:
        kube.calls.create(folder, body)  # as a start leaves it that broke off
    store.sweep()
    things = list(yaml.safe_load_all((MANIFESTS / "ceph" / "rights.yaml").read_text()))
    ours = {
        (thing["metadata"].get("namespace", ""), group, resource, verb)
        for thing in things
        if "rules" in thing
        for rule in thing["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
    assert set(used(kube.server.by_controller, kube.namespace)) - given() == ours


FOLDER: JSON = {"kind": "ceph", "addr": MONITORS, "name": "ann", "src": "/team", "dst": "/data/mine"}


def made(**options: Any) -> list[JSON]:
    """Return what is made for an attempt with one folder."""
    known = replace(test_pods.OPTIONS, **options)
    return [body for _, body in ceph.objects(test_pods.spec(data=[FOLDER]), 70, {"0": KEY}, known)]


def test_what_is_made_is_known_to_a_real_api_server_and_to_the_driver() -> None:
    secret, volume, claim = made()
    try:
        assert [schemas.faults(thing) for thing in (secret, volume, claim)] == [[], [], []]
        assert schemas.faults(test_pods.pod(data=[FOLDER])) == []
    except schemas.Absent as absent:
        pytest.skip(str(absent))
    assert secret["stringData"] == {"userID": "ann", "userKey": KEY}
    assert claim["spec"]["volumeName"] == volume["metadata"]["name"] == "tasks-70-ceph-0"
    assert volume["spec"]["claimRef"]["name"] == claim["metadata"]["name"] == secret["metadata"]["name"]
    by_monitors = {"monitors": MONITORS, "provisionVolume": "false", "rootPath": "/team"}
    assert volume["spec"]["csi"]["volumeAttributes"] == by_monitors
    # One that the driver's own configuration knows, by any of its monitors.
    _, volume, _ = made(ceph_clusters={"10.0.0.2:6789": "b9f-1/research"})
    known = {"clusterID": "b9f-1", "staticVolume": "true", "rootPath": "/team", "fsName": "research"}
    assert volume["spec"]["csi"]["volumeAttributes"] == known


@pytest.mark.parametrize("dst", ["/taiji", "/taiji/work", "/taiji/storage/business-3/x"])
def test_folders_of_the_platform_are_not_covered(dst: str) -> None:
    spec = test_pods.spec(data=[FOLDER | {"dst": dst}])
    assert "the platform's own" in ceph.clash(spec, "/taiji/storage/business-3")
    assert ceph.clash(test_pods.spec(data=[FOLDER]), "/taiji/storage/business-3") == ""


def test_the_names_of_clusters_are_read_from_the_command_line() -> None:
    read: Callable[..., Any] = lambda *pairs: kubernetes.read(  # noqa: E731  # one line
        vars(
            kubernetes.Command()
            .create_parser("manage.py", "kubernetes")
            .parse_args(["--region=bj", "--storage-claim=x", *(f"--ceph-cluster={pair}" for pair in pairs)])
        )
    )
    assert read("10.0.0.1:6789=a", "m:3300=b/fs").ceph_clusters == {"10.0.0.1:6789": "a", "m:3300": "b/fs"}
    for wrong in ("10.0.0.1=a", "10.0.0.1:6789", "10.0.0.1:6789=a/b/c"):
        with pytest.raises(CommandError, match="MONITOR=CLUSTER"):
            read(wrong)


def test_nothing_is_looked_up_for_tasks_without_it() -> None:
    assert list(ceph.objects(test_pods.spec(), 70, {}, test_pods.OPTIONS)) == []
    assert ceph.volumes(test_pods.spec(), 70) == ceph.places(test_pods.spec()) == []


@pytest.mark.parametrize(
    ("user", "monitors", "said", "cause"),
    [
        ("another", MONITORS, "Permission denied", "data"),
        (KEY, "10.9.9.9:6789", "no mds server is up", "data_away"),
    ],
)
def test_one_that_cannot_be_mounted_says_why_in_its_log_and_fails_by_that(
    store: Ceph, kube: Kube, monkeypatch: pytest.MonkeyPatch, user: str, monitors: str, said: str, cause: str
) -> None:
    for name in ("QUIET_S", "AGAIN_S"):
        monkeypatch.setattr(mount_troubles, name, 0.5)
    monkeypatch.setattr(troubles, "DATA_S", 2.0)
    store.begin()
    kube.fleet.ceph.users["ann"] = user
    task = store.submit(addr=monitors)
    kube.until(lambda: said.encode() in kube.log(task) if task.attempts.exists() else False)
    kube.state(task, "failed", 40)
    attempt = task.attempts.get()
    assert attempt.outcome_code == "data_failed"
    assert said in attempt.outcome_args["detail"]
    assert Instance.objects.get().cause == cause
    assert KEY not in str(attempt.outcome_args) + kube.log(task).decode()
    kube.settle()
    store.sweep()
