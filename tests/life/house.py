"""The platform as it is, in this process, and agents on hosts of their own: real HTTP, processes and rows."""

import os
import pwd
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from django.conf import settings
from django.db import connection

from cluster import logs, threads
from cluster.models import Host, Instance
from jobs import services
from jobs.engine import passes
from jobs.models import Attempt, Policy, Task
from tests.agent.conftest import ROOT, end_instance
from tests.agent.engines import IMAGE, Service
from tests.patience import WITHIN_S
from tests.world import World

PERIOD_S = 0.05  # between two passes
THREADS = 4


class House:
    """A web server, a loop of passes, and a storage that all hosts share."""

    def __init__(self, folder: Path, workers: int = THREADS) -> None:
        """Open the doors, behind which so many work at once; there are no hosts yet."""
        self.folder = folder
        self._workers = workers
        self.planning = threading.Lock()  # while a test holds it, the scheduler is away
        self.storage = folder / "storage"
        self.storage.mkdir()
        self.join = folder / "join"
        self.join.write_text(settings.JOIN_TOKEN)
        self.world = World()
        self.hosts: list[RealHost] = []
        self.engine = self.image = ""  # of containers; blank: tasks are plain processes
        # Only here: it looks for the folder of static files, which is a test's own.
        from jobs.api import lane
        from taiji_site.asgi import application

        self._ended = threading.Event()
        self._listening = socket.create_server(("127.0.0.1", 0))
        config = uvicorn.Config(application, log_level="warning", lifespan="off")
        self._server = uvicorn.Server(config)
        threads.pool = ThreadPoolExecutor(workers)
        # Whose connections are given back.
        self._pools = pytest.MonkeyPatch()
        self._pools.setattr(lane, "_pool", threads.pool)
        self._pools.setattr(threads, "_pages", threads.pool, raising=False)
        self._threads = [
            threading.Thread(target=self._server.run, kwargs={"sockets": [self._listening]}),
            threading.Thread(target=self._pass_after_pass),
        ]
        for thread in self._threads:
            thread.start()

    @property
    def url(self) -> str:
        """Where the platform is."""
        return f"http://127.0.0.1:{self._listening.getsockname()[1]}"

    def close(self) -> None:
        """End everything that was started, and give back the connections to the database."""
        for host in self.hosts:
            host.clear()
        self._ended.set()
        self._server.should_exit = True
        for thread in self._threads:
            thread.join(WITHIN_S)
        pool, threads.pool = threads.pool, None
        self._pools.undo()
        assert pool is not None
        together = threading.Barrier(self._workers)

        def close(_: int) -> None:
            together.wait(WITHIN_S)  # so that each thread closes its own
            connection.close()

        list(pool.map(close, range(self._workers)))
        pool.shutdown()

    @property
    def plans(self) -> bool:
        """Say whether passes are still made: none of them failed."""
        return self._threads[1].is_alive()

    def _pass_after_pass(self) -> None:
        while not self._ended.wait(PERIOD_S):
            with self.planning:
                passes.run(wait_s=0)
        connection.close()

    def host(
        self, name: str, cards: int = 2, *, env: dict[str, str] | None = None, **more: str
    ) -> "RealHost":
        """Start an agent with so many simulated P40 and further options; wait until the platform knows them.

        A blank option is left out: `simulate=""` has it ask NVML.
        """
        options = {"name": name, "region": "SZ", "simulate": f"P40:{cards}", "engine": self.engine} | more
        host = RealHost(
            self, name, {f"--{option.replace('_', '-')}": value for option, value in options.items() if value}
        )
        host.env = env or {}
        self.hosts.append(host)
        host.start()
        self.until(lambda: host.row and host.row.cards.count() == cards)
        return host

    def broken_storage(self) -> str:
        """Return a storage that a host takes for good, and in which the folder of ads cannot be made."""
        folder = self.folder / "broken"
        folder.mkdir()
        (folder / f"business-{self.world.business('ads', P40=16).pk}").touch()
        return str(folder)

    def contain(self, podman: Service) -> None:
        """Run the tasks that come from now on in containers of this Podman, on the hosts that come."""
        self.engine, self.image = podman.choice, IMAGE

    def policy(self, **values: float) -> None:
        """Follow this policy from the next pass on."""
        Policy.objects.update_or_create(pk=1, defaults={"values": values})

    def submit(self, command: str, **more: Any) -> Task:
        """Submit a task of ann for the business ads, which has quota for 16 P40."""
        self.world.business("ads", P40=16)
        document = {"business_flag": "ads", "GPUName": "P40", "start_cmd": command, **more}
        if self.image:
            document.setdefault("image_full_name", self.image)
        return services.submit(self.world.user("ann", "ads"), document)

    def until(self, met: Callable[[], Any], within_s: float = WITHIN_S) -> Any:
        """Return what `met` returns once that is true; fail after `within_s`."""
        deadline = time.monotonic() + within_s
        while not (found := met()):
            assert time.monotonic() < deadline, f"not within {within_s} s\n{self.said()}"
            time.sleep(0.02)
        return found

    def reach(self, task: Task, *states: str, within_s: float = WITHIN_S) -> Task:
        """Wait until the task is in one of these states."""

        def there() -> bool:
            task.refresh_from_db()
            return task.state in states

        try:
            self.until(there, within_s)
        except AssertionError as error:
            raise AssertionError(f"task {task.pk} is {task.state}, not {states}: {error}") from None
        return task

    def said(self) -> str:
        """Return what the agents said, and what is known of all instances."""
        rows = Instance.objects.values(
            "gang", "rank", "phase", "exit_code", "exit_signal", "detail", "wanted"
        )
        return "\n".join([*(host.words.read_text() for host in self.hosts), *map(str, rows)])

    def attempt(self, task: Task, number: int = 0) -> Attempt:
        """Return one attempt of the task, by default the last."""
        found = task.attempts.order_by("number")
        return found.get(number=number) if number else found.reverse()[0]

    def member(self, task: Task, rank: int = 0, number: int = 0) -> Instance:
        """Return one member of an attempt."""
        return Instance.objects.get(gang=self.attempt(task, number).pk, rank=rank)

    def log(self, task: Task, rank: int = 0, number: int = 0) -> str:
        """Return what a member printed so far."""
        if not task.attempts.exists():
            return ""
        data, _end = logs.read(self.member(task, rank, number).pk, 0, 2**20)
        return data.decode(errors="replace")

    def printed(self, task: Task, text: str, rank: int = 0, number: int = 0) -> str:
        """Return the log of a member once `text` is in it."""
        found: str = self.until(lambda: (log := self.log(task, rank, number)) and text in log and log)
        return found


class RealHost:
    """One host: its folder, and the agent on it."""

    def __init__(self, house: House, name: str, options: dict[str, str]) -> None:
        """Lay out the host; its agent is not started."""
        self.name = name
        self.state = house.folder / name
        self.words = house.folder / f"{name}.txt"
        self.words.touch()
        given = {
            "--url": house.url,
            "--state": str(self.state),
            "--storage": str(house.storage),
            "--join-token-file": str(house.join),
            "--task-user": pwd.getpwuid(os.getuid()).pw_name,
        }
        self.program = ["-m", "cluster.agent"]
        self._options = [part for option in (given | options).items() for part in option]
        self.env: dict[str, str] = {}  # besides the test's own
        self.agent: subprocess.Popen[bytes] | None = None

    @property
    def row(self) -> Host | None:
        """Return what the platform knows of it."""
        return Host.objects.filter(name=self.name).first()

    def start(self, *more: str) -> None:
        """Start its agent."""
        with self.words.open("ab") as words:
            env = {**os.environ, "LANG": "C", **self.env}
            command = [sys.executable, *self.program, "run", *self._options, *more]
            self.agent = subprocess.Popen(command, cwd=ROOT, stderr=words, env=env)

    def end(self, number: int = signal.SIGTERM) -> int:
        """End its agent by a signal, and what runs runs on; return the exit code."""
        assert self.agent is not None
        self.agent.send_signal(number)
        return self.agent.wait(WITHIN_S)

    def pause(self) -> None:
        """Stop its agent where it stands: it hears and says nothing."""
        assert self.agent is not None
        self.agent.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        """Let its agent go on."""
        assert self.agent is not None
        self.agent.send_signal(signal.SIGCONT)

    def folder(self, instance: Instance) -> Path:
        """Return the folder of an instance on it."""
        return self.state / "instances" / str(instance.pk)

    def clear(self) -> None:
        """End all that was started here."""
        if self.agent is not None and self.agent.poll() is None:
            self.agent.kill()
            self.agent.wait()
        for folder in (self.state / "instances").glob("*"):
            end_instance(folder)
