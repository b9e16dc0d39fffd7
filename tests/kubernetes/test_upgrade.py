"""An upgrade under load: controllers are exchanged while tasks start, run, are evicted and end, and none is lost."""

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import pytest
from django.conf import settings
from django.db import connection
from django.db.migrations.recorder import MigrationRecorder

from cluster.models import Card
from jobs.engine import passes
from jobs.models import Task
from tests.kubernetes.conftest import MARK, Kube, node
from tests.kubernetes.mpi_operator import Operator
from tests.kubernetes.standin import kubeconfig
from tests.kubernetes.test_platform import pods
from tests.patience import WITHIN_S
from tests.world import World

pytestmark = pytest.mark.django_db(transaction=True)  # processes of their own see what is written
ROOT = Path(__file__).resolve().parents[2]
# Says once that it was started, as which instance; ends when it is told to, or may.
RUN = (
    "echo $TAIJI_INSTANCE_ID >>$TAIJI_STORAGE/starts; trap 'exit 9' TERM; "
    "until [ -e $TAIJI_STORAGE/end-{name} ]; do sleep 0.1; done"
)


def environment(folder: Path) -> dict[str, str]:
    """Return the settings of a process of the platform that has the test's database, keys and folders."""
    name = str(connection.settings_dict["NAME"])
    given = {name: value for name, value in os.environ.items() if not name.startswith("TAIJI_")}
    given |= {
        "TAIJI_DATA": str(folder),
        "TAIJI_SECRET_KEY": settings.SECRET_KEY,
        "TAIJI_VAULT_KEYS": ",".join(settings.VAULT_KEYS),
        "TAIJI_JOIN_TOKEN": settings.JOIN_TOKEN,
        "REDIS_URL": settings.REDIS_URL,
    }
    if connection.vendor == "postgresql":
        given["DATABASE_URL"] = urlunsplit(urlsplit(os.environ["DATABASE_URL"])._replace(path=f"/{name}"))
    elif not (file := folder / "taiji.sqlite3").exists():
        file.symlink_to(name)
    return given


class Controller:
    """A `manage.py kubernetes` of its own."""

    def __init__(self, kube: Kube, folder: Path, number: int) -> None:
        config = folder / "kubeconfig"
        config.write_text(kubeconfig(kube.server.url))
        self.alive = folder / f"alive-{number}"
        options = {
            "--region": kube.options.region,
            "--namespace": kube.namespace,
            "--storage-claim": kube.options.storage_claim,
            "--storage-path": kube.options.storage_path,
            "--default-image": kube.options.default_image,
            "--node-selector": MARK,
            "--kubeconfig": str(config),
            "--alive-file": str(self.alive),
        }
        given = [part for option in options.items() for part in option]
        with (folder / f"controller-{number}.log").open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "manage.py", "kubernetes", *given],
                cwd=ROOT,
                env=environment(folder),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    def rounds_since(self, at: float) -> bool:
        return self.alive.exists() and self.alive.stat().st_mtime > at


class Installation:
    """A cluster with the MPI operator, passes, and controllers of which one after the other acts."""

    def __init__(self, kube: Kube, folder: Path) -> None:
        self.kube, self.folder = kube, folder
        self.operator = Operator(kube.calls)
        self.made: list[Controller] = []

    def start(self) -> Controller:
        """Start a controller, and wait until it makes rounds: whether it acts is for the Lease to say."""
        one = Controller(self.kube, self.folder, len(self.made))
        self.made.append(one)
        self.until(one.alive.exists)
        return one

    def until(self, met: Callable[[], object]) -> None:
        deadline = time.monotonic() + WITHIN_S
        while not met():
            assert time.monotonic() < deadline, f"{self.kube.describe()}\n{self.said()}"
            self.operator.tick()
            passes.run()
            time.sleep(0.05)

    def said(self) -> str:
        """Return the last words of all controllers."""
        return "\n".join(file.read_text()[-20_000:] for file in sorted(self.folder.glob("controller-*.log")))

    def state(self, task: Task, state: str) -> None:
        def met() -> bool:
            task.refresh_from_db()
            return str(task.state) == state

        self.until(met)

    def holder(self) -> str:
        folder = f"/apis/coordination.k8s.io/v1/namespaces/{self.kube.namespace}/leases"
        (lease,) = self.kube.calls.list(folder)[0]
        return str(lease["spec"]["holderIdentity"])

    def hand_over(self, number: int, method: str, path: str, *, once_done: bool = False) -> None:
        """Start the next controller beside the one that acts, and end that by a signal in the middle of such a call."""
        old, holder = self.made[-1], self.holder()
        self.start()
        assert (self.holder(), old.process.poll()) == (holder, None)  # it waits
        self._told = self.kube.server.meanwhile(
            lambda: end(old.process, number), method, path, once_done=once_done
        )

    def handed_over(self) -> None:
        """See that the next one took over from the one that was told to end."""
        old, holder = self.made[-2], self.holder()
        self.until(self._told.done)
        self._told.result()
        self.until(lambda: old.process.poll() is not None)
        if old.process.returncode == -signal.SIGKILL:  # nobody gave it back: as if its time had passed
            self._lapse()
        else:
            assert old.process.returncode == 0, self.said()
        self.until(lambda: self.holder() not in {"", holder})

    def _lapse(self) -> None:
        folder = f"/apis/coordination.k8s.io/v1/namespaces/{self.kube.namespace}/leases"
        (lease,) = self.kube.calls.list(folder)[0]
        body = {"spec": {"leaseDurationSeconds": 1}}
        self.kube.calls.patch(f"{folder}/{lease['metadata']['name']}", body)

    def close(self) -> None:
        for one in self.made:
            one.process.kill()
            one.process.wait()


def end(process: "subprocess.Popen[bytes]", number: int) -> None:
    process.send_signal(number)
    if number == signal.SIGKILL:
        process.wait()


@pytest.fixture
def installation(world: World, kube: Kube, tmp_path: Path) -> Iterator[Installation]:
    """Return a cluster of three nodes with a controller."""
    world.business("ads", P40=24)
    for number in range(3):
        kube.add(node(f"gpu-{number}"))
    found = Installation(kube, tmp_path)
    try:
        found.start()
        found.until(lambda: Card.objects.filter(state="ok").count() == 24)
        yield found
    finally:
        found.close()


def submit(world: World, name: str, *, hosts: int = 1, **more: Any) -> Task:
    return world.task(hosts=hosts, config={"start_cmd": RUN.format(name=name)}, task_flag=name, **more)


def may_end(kube: Kube, *tasks: Task) -> None:
    for task in tasks:
        (kube.storage / f"business-{task.business_id}" / f"end-{task.task_flag}").touch()


def test_controllers_are_exchanged_in_the_midst_of_everything_and_no_task_is_lost_or_doubled(
    world: World, kube: Kube, installation: Installation
) -> None:
    stays = submit(world, "stays", hosts=2, cards=2)
    installation.state(stays, "running")
    # While one starts: the old one is told to end, and does what it is at.
    installation.hand_over(signal.SIGTERM, "POST", "/pods$")
    starts = submit(world, "starts", cards=2)
    installation.handed_over()
    installation.state(starts, "running")
    # While one was started and nobody heard so: the old one is killed.
    installation.hand_over(signal.SIGKILL, "POST", "/pods$", once_done=True)
    elastic = submit(world, "elastic", cards=8, wanted_class="elastic", pull_up=True, user="bob")
    installation.handed_over()
    installation.state(elastic, "running")
    # While one is evicted.
    installation.hand_over(signal.SIGTERM, "DELETE", "/pods/")
    high = submit(world, "high", cards=8)
    installation.handed_over()
    installation.state(high, "running")
    installation.state(elastic, "queued")
    # While one ends: what it ended with is known, and its pod is let go, by two.
    installation.hand_over(signal.SIGKILL, "PATCH", "/pods/[^/]+$")
    may_end(kube, high)
    installation.handed_over()
    installation.state(high, "succeeded")
    installation.state(elastic, "running")
    every = [stays, starts, elastic]
    may_end(kube, *every)
    for task in every:
        installation.state(task, "succeeded")
    installation.until(lambda: not kube.pods() and not kube.fleet.running)
    assert kube.leased() == 0
    outcomes = {
        task.task_flag: list(task.attempts.order_by("number").values_list("outcome", flat=True))
        for task in [*every, high]
    }
    assert outcomes == {
        "stays": ["succeeded"],
        "starts": ["succeeded"],
        "elastic": ["evicted", "succeeded"],
        "high": ["succeeded"],
    }
    begun = (kube.storage / f"business-{high.business_id}" / "starts").read_text().split()
    assert len(begun) == len(set(begun)) == 5
    made = Counter(
        thing["metadata"]["name"]
        for _, kind, thing, _ in kube.server.store.history["pods"]
        if kind == "ADDED"
    )
    assert set(made.values()) == {1}


def test_what_runs_is_not_touched_while_the_database_is_already_that_of_the_next_version(
    world: World, kube: Kube, installation: Installation
) -> None:
    """As between the migrations and the new controller: the old one asks for what is not there any more."""
    stays = submit(world, "stays", cards=2)
    installation.state(stays, "running")
    [old] = installation.made
    table, execute = "cluster_instance", connection.cursor().execute
    execute(f'ALTER TABLE {table} RENAME COLUMN "commit" TO commit_of_the_next')
    try:
        for _ in range(3):
            at, deadline = time.time(), time.monotonic() + WITHIN_S
            while not old.rounds_since(at) and time.monotonic() < deadline:
                time.sleep(0.05)
        assert "the database does not answer: the round is made again" in installation.said()
        assert old.process.poll() is None
    finally:
        execute(f'ALTER TABLE {table} RENAME COLUMN commit_of_the_next TO "commit"')
    installation.hand_over(signal.SIGTERM, "PUT", "/leases/")
    installation.handed_over()
    may_end(kube, stays)
    installation.state(stays, "succeeded")
    assert stays.attempts.count() == 1


def test_new_ones_wait_until_the_migrations_are_done(db: None, tmp_path: Path) -> None:
    waiting = [
        pods()[name]["initContainers"][0]["args"]
        for name in ("taiji-web", "taiji-worker", "taiji-controller")
    ]
    [[*command, script]] = {tuple(each) for each in waiting}
    environ = environment(tmp_path)
    environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{environ['PATH']}"
    done = MigrationRecorder(connection).migration_qs.filter(app="jobs").order_by("-id")
    last = done.values("app", "name", "applied")[0]
    done.filter(name=last["name"]).delete()
    waits = subprocess.Popen([*command, script.replace("sleep 3", "sleep 0.1")], cwd=ROOT, env=environ)
    try:
        with pytest.raises(subprocess.TimeoutExpired):
            waits.wait(6)
        done.create(**last)
        assert waits.wait(WITHIN_S) == 0
    finally:
        done.get_or_create(**last)
        waits.kill()
