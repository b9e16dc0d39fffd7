"""What the command `taiji-agent` takes: on its line, else from the environment, else as this host joined."""

import argparse
import ipaddress
import json
import os
import re
import socket
import ssl
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from cluster.agent import VERSION, courier, engine, mps
from cluster.agent.logs import CAP

STATE = Path("/var/lib/taiji-agent")
FILE = "options.json"  # in the state folder: how this host joined
PREFIX = "TAIJI_AGENT_"
LEAST_CAP = 65536  # bytes of a log or of code that are worth keeping
# Those that are kept when a host joins, with what they are where nobody says.
KEPT: dict[str, Any] = {
    "url": None,
    "name": socket.gethostname(),
    "region": "default",
    "storage": None,
    "address": "",
    "ca": None,
    "engine": "auto",
    "processes": "yes",
    "task_user": None,
    "allow_http": "no",
    "mps": "",
    "devices": "",
}


def arguments() -> argparse.ArgumentParser:
    """Return what the command takes."""
    parser = argparse.ArgumentParser(
        prog="taiji-agent", description="Runs the tasks of a Taiji platform on this host."
    )
    parser.add_argument("--version", action="version", version=VERSION)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    _add_join(
        commands.add_parser(
            "join",
            help="register this host, and keep how; then start the service, or run it",
            description="Register this host with a platform, and keep how, so that `taiji-agent run` needs no more.",
        )
    )
    _add_run(
        commands.add_parser(
            "run",
            help="serve this host until told to end; register it before if need be",
            description="Serve this host until told to end. What runs outlives the agent and is found again.",
        )
    )
    return parser


def _add_join(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("url", type=_url, help="the platform, such as https://taiji.example.com")
    parser.add_argument(
        "--token",
        required=True,
        help="the platform's join token; - reads it from standard input, where nobody sees it in the process list",
    )
    _add_kept(parser)


def _add_run(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--url", type=_url, help="the platform (default: the one this host joined)")
    parser.add_argument(
        "--join-token-file", type=Path, metavar="FILE", help="the token to register with; not needed later"
    )
    _add_kept(parser)
    parser.add_argument(
        "--simulate",
        action="append",
        type=_group,
        default=[],
        metavar="TYPE:N",
        help="offer N simulated cards instead of those that NVML finds; may be given again for another type",
    )
    parser.add_argument(
        "--cards-every",
        type=_seconds,
        default=10.0,
        metavar="SECONDS",
        help="how often the cards are looked at (default: 10)",
    )
    parser.add_argument(
        "--log-cap",
        type=_bytes,
        default=CAP,
        metavar="BYTES",
        help="most that is kept of one log (default: %(default)s)",
    )
    parser.add_argument(
        "--code-cap",
        type=_bytes,
        default=courier.CAP,
        metavar="BYTES",
        help="about how much packed code is kept for the next task that runs it (default: %(default)s)",
    )


def _add_kept(parser: argparse.ArgumentParser) -> None:
    """Add what both commands take; nothing has a default here, so that it shows what was not given."""
    parser.add_argument(
        "--state",
        type=Path,
        metavar="DIR",
        help=f"folder of this agent alone, on a local disk (default: {STATE})",
    )
    parser.add_argument("--name", help=f"what this host is called (default: {KEPT['name']})")
    parser.add_argument(
        "--region", help=f"where it stands, used when it registers (default: {KEPT['region']})"
    )
    parser.add_argument("--storage", metavar="DIR", help="the platform's storage, the same on every host")
    parser.add_argument(
        "--address", help="how other hosts reach this one (default: the address facing the platform)"
    )
    parser.add_argument("--ca", metavar="FILE", help="certificates to trust instead of the system's")
    parser.add_argument(
        "--engine",
        type=_engine,
        metavar="ENGINE",
        help="what runs containers: auto, none, podman, docker (at their usual sockets), or KIND:SOCKET "
        "(default: auto)",
    )
    parser.add_argument(
        "--processes",
        choices=("yes", "no"),
        help="whether tasks that name no image run as plain processes of this host (default: yes)",
    )
    parser.add_argument(
        "--task-user",
        metavar="USER",
        help="who tasks run as: a name, UID or UID:GID; an agent that is root has to be told (root allows that)",
    )
    parser.add_argument(
        "--allow-http",
        action="store_const",
        const="yes",
        help="call a platform elsewhere without TLS: tokens and secrets cross the network in clear",
    )
    parser.add_argument(
        "--mps",
        metavar="TYPE:N,…",
        help="divide each card of a type into N shares by NVIDIA's MPS, whose daemon has to run; the shares of A10:4 "
        "are cards of the type A10/4",
    )
    parser.add_argument(
        "--devices",
        type=_devices,
        metavar="PATH,…",
        help="devices of this host, or folders of them, that every container gets besides its cards, such as "
        "/dev/infiniband",
    )


def complete(options: argparse.Namespace) -> argparse.Namespace:
    """Fill in what was not given; ends with a sentence where something is missing or wrong."""
    options.state = Path(options.state or os.environ.get(PREFIX + "STATE") or STATE)
    joined = _joined(options.state)
    for name, default in KEPT.items():
        if getattr(options, name) is None:
            setattr(options, name, os.environ.get(PREFIX + name.upper()) or joined.get(name) or default)
    for name in ("url", "storage"):
        if not getattr(options, name):
            raise SystemExit(_missing(name, options.command))
    _check(options)
    options.storage = Path(options.storage)
    if options.command == "join" and not options.storage.is_dir():
        raise SystemExit(f"There is no folder {options.storage}: mount the platform's storage there first.")
    return options


def _missing(name: str, command: str) -> str:
    """Say what to do about an option that nothing gave."""
    if command == "join":
        return f"Give --{name} DIR: where the platform's storage is mounted on this host."
    return f"Give --{name}, or join a platform first: taiji-agent join URL --token TOKEN --storage DIR"


def _check(options: argparse.Namespace) -> None:
    try:
        _url(options.url)
        _engine(options.engine)
        mps.read(options.mps)
        _devices(options.devices)
    except (argparse.ArgumentTypeError, ValueError) as fault:
        raise SystemExit(f"{fault}.") from fault
    if options.processes not in {"yes", "no"}:
        raise SystemExit(
            f"{PREFIX}PROCESSES (or processes in {FILE}) is yes or no, not {options.processes!r}."
        )
    if is_clear(options.url) and options.allow_http != "yes":
        raise SystemExit(
            f"{options.url} is no https: this host's token and the secrets of tasks would cross the network in "
            "clear. Put TLS before the platform, or allow it with --allow-http."
        )
    try:
        if options.ca:
            ssl.create_default_context(cafile=options.ca)
    except OSError as error:
        raise SystemExit(f"The certificates in {options.ca} cannot be used: {error.strerror}.") from error


def keep(options: argparse.Namespace) -> None:
    """Keep how this host joined, for the service and whoever looks; there are no secrets in it."""
    given = {name: getattr(options, name) for name in KEPT}
    for name in ("storage", "ca"):  # the service starts in another folder
        given[name] = str(Path(given[name]).resolve()) if given[name] else None
    draft = options.state / f"{FILE}.new"
    draft.write_text(json.dumps(given, indent=2) + "\n")
    draft.replace(options.state / FILE)


def _joined(state: Path) -> dict[str, Any]:
    try:
        found = json.loads((state / FILE).read_text())
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise SystemExit(f"{state / FILE} cannot be read: {error}.") from error
    way_out = "Mend it, or join again: taiji-agent join URL --token TOKEN …"
    if not isinstance(found, dict):
        raise SystemExit(
            f"{state / FILE} is not an object in braces, with options and their values. {way_out}"
        )
    for name in KEPT:
        value = found.get(name)
        if value is not None and not isinstance(value, str):
            shown = json.dumps(value)[:64]
            raise SystemExit(
                f"{name} in {state / FILE} has to be a text in quotes, and is {shown}. {way_out}"
            )
    return found


def is_clear(url: str) -> bool:
    """Return whether what is sent to `url` can be read on the way: no TLS, and to another machine."""
    parts = urlsplit(url)
    if parts.scheme != "http" or parts.hostname == "localhost":
        return False
    try:
        return not ipaddress.ip_address(parts.hostname or "").is_loopback
    except ValueError:
        return True


def _url(text: str) -> str:
    try:
        parts = urlsplit(text)
        right = parts.scheme in {"http", "https"} and parts.hostname and parts.port != 0
    except ValueError:  # no port, or no address of IPv6
        right = False
    if not right:
        raise argparse.ArgumentTypeError(f"{text!r} is not an address such as https://taiji.example.com")
    return text.rstrip("/")


def _engine(text: str) -> str:
    if not engine.is_choice(text):
        raise argparse.ArgumentTypeError(
            f"{text!r} is not auto, none, podman, docker or, such as podman:/run/podman/podman.sock, KIND:SOCKET"
        )
    return text


def _seconds(text: str) -> float:
    if not re.fullmatch(r"\d{1,4}(\.\d+)?", text) or float(text) <= 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds, such as 10")
    return float(text)


def _bytes(text: str) -> int:
    if not re.fullmatch(r"\d{1,18}", text, re.ASCII) or int(text) < LEAST_CAP:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of bytes, {LEAST_CAP} at least")
    return int(text)


def _devices(text: str) -> str:
    for path in filter(None, text.split(",")):
        if not path.startswith("/dev/") or ".." in path.split("/") or ":" in path:
            raise argparse.ArgumentTypeError(f"{path!r} is not the path of a device, such as /dev/infiniband")
    return text


def _group(text: str) -> tuple[str, int]:
    name, _, number = text.rpartition(":")
    if not name or not number.isdecimal() or not 0 < int(number) <= 1024:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not of the form TYPE:N, such as P40:8, with N from 1 to 1024"
        )
    return name, int(number)
