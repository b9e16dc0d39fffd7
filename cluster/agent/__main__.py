"""The agent's command: `python -m cluster.agent run …`."""

import argparse
import asyncio
import contextlib
import fcntl
import functools
import logging
import os
import signal
import socket
import sys
from pathlib import Path
from urllib.parse import urlsplit

from cluster.agent import VERSION
from cluster.agent.agent import Agent
from cluster.agent.cards import Cards, read_nvml, simulated
from cluster.agent.link import Link
from cluster.agent.logs import CAP
from cluster.agent.membership import Membership

log = logging.getLogger("cluster.agent")


def arguments() -> argparse.ArgumentParser:
    """Return what the command takes."""
    parser = argparse.ArgumentParser(
        prog="taiji-agent", description="Runs the tasks of a Taiji platform on this host."
    )
    parser.add_argument("--version", action="version", version=VERSION)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    run = commands.add_parser(
        "run",
        help="register this host if need be, then serve it until told to end",
        description="Serve this host until told to end. What runs outlives the agent and is found again.",
    )
    run.add_argument(
        "--url", required=True, type=_url, help="the platform, such as https://taiji.example.com"
    )
    run.add_argument(
        "--name", default=socket.gethostname(), help="what this host is called (default: %(default)s)"
    )
    run.add_argument(
        "--region", default="default", help="where it stands, used when it registers (default: %(default)s)"
    )
    run.add_argument(
        "--state", required=True, type=Path, metavar="DIR", help="folder of this agent alone, on a local disk"
    )
    run.add_argument(
        "--storage",
        required=True,
        type=Path,
        metavar="DIR",
        help="the platform's storage, the same on every host",
    )
    run.add_argument(
        "--join-token-file", type=Path, metavar="FILE", help="the token to register with; not needed later"
    )
    run.add_argument(
        "--address",
        default="",
        help="how other hosts reach this one (default: the address facing the platform)",
    )
    run.add_argument(
        "--simulate",
        action="append",
        type=_group,
        default=[],
        metavar="TYPE:N",
        help="offer N simulated cards instead of those that NVML finds; may be given again for another type",
    )
    run.add_argument("--ca", metavar="FILE", help="certificates to trust instead of the system's")
    run.add_argument(
        "--log-cap",
        type=int,
        default=CAP,
        metavar="BYTES",
        help="most that is kept of one log (default: %(default)s)",
    )
    return parser


def _url(text: str) -> str:
    parts = urlsplit(text)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise argparse.ArgumentTypeError(f"{text!r} is not an address such as https://taiji.example.com")
    return text.rstrip("/")


def warn_of_clear_text(url: str) -> None:
    """Say that tokens and secrets can be read on the way, where the platform is called over HTTP elsewhere."""
    parts = urlsplit(url)
    if parts.scheme == "http" and parts.hostname not in {"localhost", "127.0.0.1", "::1"}:
        log.warning(
            "%s is no https: this host's token and the secrets of tasks cross the network in clear.", url
        )


def _group(text: str) -> tuple[str, int]:
    name, _, number = text.rpartition(":")
    if not name or not number.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not of the form TYPE:N, such as P40:8")
    return name, int(number)


def lock(folder: Path) -> int:
    """Return the lock of the state folder, held while it is open; or end with a sentence."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle = os.open(folder / "agent.lock", os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise SystemExit(f"The state folder {folder} cannot be used: {error.strerror}.") from error
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise SystemExit(f"Another agent works in {folder}.") from error
    return handle


async def serve(options: argparse.Namespace) -> None:
    """Run the agent until SIGTERM or SIGINT."""
    membership = Membership(
        name=options.name,
        region=options.region,
        folder=options.state.resolve(),
        join_token_file=options.join_token_file,
    )
    cards = Cards(functools.partial(simulated, options.simulate) if options.simulate else read_nvml)
    async with Link(options.url, options.ca) as link:
        agent = Agent(
            membership=membership,
            link=link,
            cards=cards,
            storage=options.storage.resolve(),
            address=options.address,
            log_cap=options.log_cap,
        )
        work = asyncio.ensure_future(agent.run())
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, work.cancel)
        with contextlib.suppress(asyncio.CancelledError):
            await work


def main() -> None:
    """Run the command."""
    options = arguments().parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    logging.getLogger("httpx").setLevel(logging.WARNING)  # else a line for every call
    warn_of_clear_text(options.url)
    held = lock(options.state)
    try:
        asyncio.run(serve(options))
    except OSError as error:
        sys.exit(f"The agent cannot work: {error}.")
    finally:
        os.close(held)


if __name__ == "__main__":
    main()
