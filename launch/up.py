"""Start the product: install, make secrets and folders, migrate, start the group, wait until it answers."""

import argparse
import contextlib
import errno
import os
import signal
import socket
import subprocess
from pathlib import Path
from types import FrameType

from launch import answer, down, group, install, keys, places, programs, world
from launch.places import ROOT, Places
from launch.words import Progress, Refusal


def main(arguments: list[str]) -> int:
    """Run `script/up`."""
    parser = argparse.ArgumentParser(prog="script/up", description="Start the product on this machine.")
    parser.add_argument("--detach", action="store_true", help="return when the product and its agents answer")
    parser.add_argument(
        "--empty", action="store_true", help="at the first start, make nothing but the operator"
    )
    options = parser.parse_args(arguments)

    say, here = Progress(), places.read()
    places.prepare(here)
    lock = group.take(here)
    _check_port(here)
    install.ensure(say)
    agents = _prepare(say, here, empty=options.empty)
    say("Starting the processes")
    group.write(here, programs.all_of(here, agents))
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupt)
    supervisor = group.start(here, lock, tied=not options.detach)
    os.close(lock)  # the supervisor has it now
    try:
        answer.wait(here, supervisor, [agent.name for agent in agents], say)
        _welcome(here, say, detached=options.detach)
        return 0 if options.detach else _stay(supervisor)
    except (Refusal, KeyboardInterrupt) as broken_off:
        group.stop(here)
        if isinstance(broken_off, KeyboardInterrupt):
            with contextlib.suppress(OSError):  # the terminal is gone
                print(f"\n{down.STOPPED}", flush=True)
        raise


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _check_port(here: Places) -> None:
    family = socket.AF_INET6 if ":" in here.bind else socket.AF_INET
    try:
        with socket.socket(family) as trial:
            trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            trial.bind((here.bind, here.port))
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise Refusal(
                f"Port {here.port} is in use by another program: end that, or choose another with TAIJI_PORT."
            ) from error
        raise Refusal(
            f"This machine cannot listen on {here.bind} port {here.port} ({error.strerror}): "
            "set TAIJI_BIND and TAIJI_PORT."
        ) from error


def _prepare(say: Progress, here: Places, *, empty: bool) -> list[programs.Agent]:
    """Make secrets, database, operator, world and static files; return the agents of this machine."""
    made = keys.ensure(here.data)
    token = os.environ.get("TAIJI_JOIN_TOKEN", "").strip() or made["join_token"]
    keys.write_private(here.data / "join-token", token + "\n")
    plan = world.read(here, empty=empty)
    say("Preparing the database and the pages")
    _manage(here, "prepare", *(["--world", *plan.cards] if plan.cards else []))
    world.write(here, plan)
    return plan.agents


def _manage(here: Places, *arguments: str) -> None:
    command = [str(here.python), str(ROOT / "manage.py"), *arguments]
    env = group.environment(here)
    done = subprocess.run(
        command, cwd=ROOT, env=env, capture_output=True, text=True, errors="replace", umask=0o077
    )
    if done.returncode != 0:
        words = "\n".join(f"    {line}" for line in (done.stderr + done.stdout).strip().splitlines()[-20:])
        raise Refusal(f"The preparation failed; its last words:\n{words}")


def _welcome(here: Places, say: Progress, *, detached: bool) -> None:
    password = here.data / "admin-password"
    say(f"Taiji is ready: {here.url}")
    if fresh := _first_password(password):
        print(f"  Log in as admin with the password {fresh} (shown this once, kept in {password})")
    elif password.exists():
        print(f"  Log in as admin; the first password lies in {password}")
    print(f"  API token: {here.data / 'admin-token'}")
    print(f"  Logs: {here.logs}")
    print("  Stop with script/down" if detached else "  Stop with Ctrl-C or script/down", flush=True)


def _first_password(path: Path) -> str:
    """Return the operator's password where no start has shown it yet, and note that one has."""
    shown = path.with_name(".admin-password-shown")
    if shown.exists() or not path.exists():
        return ""
    shown.touch(mode=0o600)
    return path.read_text().strip()


def _stay(supervisor: "subprocess.Popen[bytes]") -> int:
    """Stay until the supervisor ends (script/down ended it) or the person at the terminal does."""
    return 0 if supervisor.wait() == 0 else 1
