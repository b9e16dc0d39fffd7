"""The process of a cluster: `manage.py kubernetes`, its options, and its rounds."""

import os
import re
import signal
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import OperationalError, ProgrammingError

from cluster.kubernetes import loop as loops
from cluster.kubernetes.loop import Loop
from cluster.management.commands import kubernetes
from tests.kubernetes.server import Server
from tests.kubernetes.standin import kubeconfig
from tests.patience import WITHIN_S

WHAT = ["--region", "SZ", "--storage-claim", "storage"]


class Rounds:
    """A controller that only counts."""

    def __init__(self) -> None:
        """Be well."""
        self.wake = threading.Event()
        self.rounds = 0
        self.faults: list[Exception] = []
        self.stopped = False
        self.well = True

    def start(self) -> None:
        """Begin."""

    def stop(self) -> None:
        """End."""
        self.stopped = True

    def hosts(self) -> frozenset[int]:
        """Speak for none."""
        return frozenset()

    def trouble(self) -> str:
        """Return what is wrong."""
        return "" if self.well else "The API server does not answer."

    def round(self) -> bool:
        """Count."""
        self.rounds += 1
        if self.faults:
            raise self.faults.pop()
        return self.well


def running(loop: Loop) -> threading.Thread:
    """Run it in a thread."""
    thread = threading.Thread(target=loop.run)
    thread.start()
    return thread


def until(met: Any) -> None:
    """Wait until `met` is true."""
    deadline = time.monotonic() + WITHIN_S
    while not met():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_round_follows_news_at_once_and_its_end_ends_it_all(tmp_path: Path) -> None:
    rounds = Rounds()
    loop = Loop(rounds, tmp_path / "alive")  # type: ignore[arg-type]  # it has all that is used
    thread = running(loop)
    until(lambda: rounds.rounds == 1)
    for number in range(2, 5):
        rounds.wake.set()
        until(lambda number=number: rounds.rounds >= number)
    assert (tmp_path / "alive").exists()
    loop.end()
    thread.join(60)
    assert rounds.stopped


@pytest.mark.django_db
def test_a_round_that_breaks_off_is_made_again_and_shows_in_the_log_and_to_a_probe(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(loops, "ROUND_EVERY_S", 0.01)
    rounds, alive = Rounds(), tmp_path / "alive"
    rounds.faults = [OperationalError("away"), ProgrammingError("no such column"), KeyError("Worker")]
    loop = Loop(rounds, alive)  # type: ignore[arg-type]  # it has all that is used
    loop._round()
    assert not alive.exists()
    assert "A round broke off, and is made again: KeyError('Worker')" in caplog.messages
    for _ in range(2):
        loop._round()
        assert "the database does not answer: the round is made again" in caplog.messages
        caplog.clear()
        alive.unlink()
    loop._round()
    assert alive.exists()


@pytest.mark.django_db  # a round looks after this thread's connection, which an earlier test may have left open
def test_trouble_is_told_once_and_again_when_it_is_over(caplog: pytest.LogCaptureFixture) -> None:
    rounds = Rounds()
    rounds.well = False
    loop = Loop(rounds)  # type: ignore[arg-type]  # it has all that is used
    with caplog.at_level("INFO", "cluster.kubernetes.loop"):
        for _ in range(3):
            loop._round()
        rounds.well = True
        for _ in range(3):
            loop._round()
    assert [record.message for record in caplog.records] == [
        "The API server does not answer.",
        "All is well: the cluster is heard.",
    ]


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--gpu-type", "nonsense"], "LABEL=TYPE is needed"),
        (["--tools-image", "x"], "go together"),
        (["--region", ""], "--region '': the name of a region is needed"),
        (["--region", "x" * 65], "1 to 64 printable characters"),
        (["--region", "b\u200bj"], "1 to 64 printable characters"),
        (["--namespace", "Tasks"], "--namespace 'Tasks': a namespace is needed"),
        (["--namespace", "a.b"], "a namespace is needed"),
        (["--storage-claim", ""], "--storage-claim '': the name of an object is needed"),
        (["--storage-claim", "a_b"], "the name of an object is needed"),
        (["--priority-class", "high-"], "--priority-class 'high-': the name of an object"),
        (["--service-account", "Ann"], "--service-account 'Ann': the name of an object"),
        (["--runtime-class", "a b"], "--runtime-class 'a b': the name of an object"),
        (["--pull-secret", "good", "--pull-secret", ""], "--pull-secret '': the name of an object"),
        (["--storage-path", "storage"], "--storage-path 'storage': a path from the root"),
        (["--ssh-folder", "~/.ssh"], "--ssh-folder '~/.ssh': a path from the root"),
        (["--default-image", "a b"], "--default-image 'a b': the name of an image"),
        (["--platform-url", "taiji", "--tools-image", "x"], "--platform-url 'taiji': an address is needed"),
        (["--toleration", "a=b"], "--toleration 'a=b': the key of a taint"),
        (["--user", "root"], "--user 'root': UID or UID:GID is needed"),
        (["--unschedulable-s", "0"], "--unschedulable-s 0.0: seconds are needed"),
        (["--unschedulable-s", "nan"], "--unschedulable-s nan: seconds are needed"),
    ],
)
def test_options_that_make_no_sense_are_refused_with_the_way_out(
    more: list[str], said: str, tmp_path: Path
) -> None:
    config = tmp_path / "config"
    config.write_text(kubeconfig("http://127.0.0.1:1"))
    with pytest.raises(CommandError, match=said):
        call_command("kubernetes", *WHAT, *more, "--kubeconfig", str(config))


@pytest.mark.parametrize(
    ("file", "why"),
    [
        (None, "No configuration found"),
        (b"", "is empty"),
        (b"- a", "list indices"),
        (b"a: [b", "while parsing"),
        (b"\xff\x00", "can't decode"),
        (kubeconfig("http://a").replace("current-context: x", "current-context: y").encode(), "with name y"),
        (kubeconfig("").encode(), "names no server"),
    ],
    ids=["none", "empty", "a list", "no YAML", "no text", "no such context", "no server"],
)
def test_a_cluster_that_is_not_configured_is_told(tmp_path: Path, file: bytes | None, why: str) -> None:
    config = tmp_path / "config"
    if file is not None:
        config.write_bytes(file)
    said = f"No cluster is configured: --kubeconfig {re.escape(str(config))} cannot be used: .*{why}"
    with pytest.raises(CommandError, match=said):
        call_command("kubernetes", *WHAT, "--kubeconfig", str(config))


def test_a_client_that_is_not_installed_is_told_with_how_to_install_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(kubernetes, "find_spec", lambda _name: None)
    with pytest.raises(CommandError, match=r"pip install -r requirements-kubernetes\.txt"):
        call_command("kubernetes", *WHAT)


def test_the_command_speaks_for_a_cluster_until_it_is_told_to_end(
    transactional_db: None, tmp_path: Path
) -> None:
    from cluster.models import Host
    from tests.kubernetes.conftest import node

    server = Server()
    config, alive = tmp_path / "config", tmp_path / "alive"
    config.write_text(kubeconfig(server.url))
    server.store.create("nodes", "", node("gpu-1", 4))

    def end_once_seen() -> None:
        deadline = time.monotonic() + WITHIN_S
        while not alive.exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        time.sleep(1.5)
        os.kill(os.getpid(), signal.SIGTERM)

    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    threading.Thread(target=end_once_seen, daemon=True).start()
    try:
        call_command("kubernetes", *WHAT, "--kubeconfig", str(config), "--alive-file", str(alive))
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        server.close()
    assert list(Host.objects.values_list("node", "region__name")) == [("gpu-1", "SZ")]
    assert not server.store.objects["leases"].popitem()[1]["spec"]["holderIdentity"]  # given back
