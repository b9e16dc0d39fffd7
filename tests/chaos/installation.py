"""A whole installation in a folder of its own: database, the product's group, a second worker and beat, hosts."""

import os
import shutil
from contextlib import suppress
from pathlib import Path

import redis

from cluster.agent import processes
from launch import group, postgres, programs
from tests.agent.conftest import end_instance
from tests.chaos.clock import Clock, build
from tests.chaos.deeds import AGENTS
from tests.chaos.programs import Database, Program
from tests.chaos.proxy import Lines
from tests.system.product import Product

CARDS = {"agent-0": "P40:4", "agent-1": "P40:4", "agent-2": "P40:4", "agent-3": "M40:4"}
GROUP = ("web", "worker", "beat", "valkey")  # of the product's own launcher, which starts them again


def host_of(target: str) -> str:
    """Return the name of the host whose agent this is."""
    return target.replace("agent-", "h")


class Installation:
    """Everything that runs, by the names that deeds call it by."""

    def __init__(self, folder: Path, cluster: postgres.Cluster) -> None:
        """Lay it out below `folder`; nothing is started."""
        self.data = folder / "data"
        self.product = Product(
            self.data,
            DATABASE_URL=cluster.url,
            TAIJI_AGENT_ENGINE="none",
            TAIJI_LOG_LEVEL="INFO",
        )
        self.database = Database(cluster)
        library = build(folder)
        self.clocks = {name: Clock(library, folder / f"{name}.clock") for name in CARDS}
        self.own: dict[str, Program] = {}  # second worker and beat, agents
        self.lines: Lines | None = None

    def start(self) -> None:
        """Start all of it; raises Refusal, or AssertionError with what the launcher said."""
        self.database.start()
        self.product.up("--empty")
        self.lines = Lines(list(CARDS), self.product.port)
        self._lay_out_seconds()
        for name in CARDS:
            self._lay_out_agent(name)
        for program in self.own.values():
            program.start()

    def _lay_out_seconds(self) -> None:
        """Have a worker and a beat more: two passes at once, and every period twice, must do no harm."""
        places = self.product.places
        there = programs.all_of(places, [])
        env = {**group.environment(places), **self.product.env, **there["worker"].env}
        first = str(places.run / "beat")
        again = [word.replace(first, str(places.run / "second-beat")) for word in there["beat"].argv]
        for name, argv in (("second-worker", there["worker"].argv), ("second-beat", again)):
            self.own[name] = Program(name, argv, env, places.logs / f"{name}.log")

    def _lay_out_agent(self, name: str) -> None:
        assert self.lines is not None
        place, places = list(CARDS).index(name), self.product.places
        described = programs.Agent(name=host_of(name), simulate=CARDS[name])
        argv = programs.all_of(places, [described])[f"agent-{host_of(name)}"].argv
        line = f"http://127.0.0.1:{self.lines.by_name[name].port}"
        argv = [*argv, "--url", line, "--address", f"127.0.0.{11 + place}", "--engine", "none"]
        env = {key: value for key, value in self.product.env.items() if key not in programs.PLATFORM_ONLY}
        self.own[name] = Program(name, argv, env | self.clocks[name].env, places.logs / f"{name}.log")

    def have_cards(self, name: str, fewer: int) -> None:
        """Let the host of this agent have so many cards fewer from the agent's next start on."""
        argv = self.own[name].argv
        kind, _, number = CARDS[name].partition(":")
        argv[argv.index("--simulate") + 1] = f"{kind}:{int(number) - fewer}"

    def pids(self, target: str, pick: int) -> list[int]:
        """Return the processes that a deed is about; none where it does not run just now."""
        if target == "postgres":
            return self.database.pids
        if target == "backend":
            return _picked(self.database.pids[1:], pick)
        if target in self.own:
            return self.own[target].pids
        if target in {"keeper", "command"}:
            return self._of_instance(target, pick)
        found = self.product.pid(target)
        return [found] if found else []

    def _of_instance(self, target: str, pick: int) -> list[int]:
        """Return a keeper, or the process that one of them started."""
        table = processes.table()
        keepers = sorted(pid for pid in table if self._is_keeper(pid))
        if target == "keeper":
            return _picked(keepers, pick)
        return _picked(sorted(pid for pid, one in table.items() if one.parent in keepers), pick)

    def _is_keeper(self, pid: int) -> bool:
        try:
            line = Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:
            return False
        return os.fsencode(self.data / "agents") in line and b"cluster.agent.keeper" in line

    def kill(self, target: str, pick: int, away_s: float) -> bool:
        """KILL what runs under that name; return whether there was something."""
        pids = self.pids(target, pick)
        if target == "postgres":
            self.database.kill(away_s)
        elif target in self.own:
            self.own[target].kill(away_s)
        else:
            for pid in pids:
                with suppress(ProcessLookupError):
                    os.kill(pid, 9)
        return bool(pids)

    def flush(self) -> None:
        """Have Valkey forget everything; raises redis.RedisError where it is away."""
        path = self.product.places.run / "valkey.sock"
        with redis.Redis(unix_socket_path=str(path), socket_timeout=2) as client:
            client.flushall()

    def tend(self) -> list[str]:
        """Start again what ended; return the names of those that were found to have ended by themselves."""
        self.database.tend()
        return [name for name, program in self.own.items() if program.tend()]

    def end(self) -> None:
        """End everything, whatever state it is in, and all that tasks left running."""
        for program in self.own.values():
            program.end()
        self.product.script("down")
        for folder in (self.data / "agents").glob("*/instances/*"):
            end_instance(folder)
        self.database.end()
        if self.lines is not None:
            self.lines.close()

    def save_logs(self, to: Path) -> None:
        """Copy what the programs wrote, for who looks into a violation."""
        shutil.copytree(self.product.places.logs, to, dirs_exist_ok=True)
        for path in (self.data / "agents").glob("*/instances/*/keeper.log"):
            shutil.copy(path, to / f"keeper-{path.parent.name}.log")


def _picked(found: list[int], pick: int) -> list[int]:
    return [found[pick % len(found)]] if found else []


assert len(CARDS) == AGENTS
