"""The command `taiji-agent`: join a platform, serve this host."""

import argparse
import asyncio
import contextlib
import fcntl
import logging
import os
import shlex
import signal
import sys
from pathlib import Path

from cluster.agent import mps, users
from cluster.agent import options as given
from cluster.agent.address import own_address
from cluster.agent.agent import Agent
from cluster.agent.cards import Cards, Simulated
from cluster.agent.gpus import Gpus
from cluster.agent.link import Away, Link
from cluster.agent.membership import Membership, NotAdmitted
from cluster.agent.offers import Offers

log = logging.getLogger("cluster.agent")


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


async def join(options: argparse.Namespace) -> None:
    """Register this host, unless it is registered already, and keep how; raises Away or NotAdmitted."""
    token = (sys.stdin.readline() if options.token == "-" else options.token).strip()
    if not token:
        raise NotAdmitted("The join token is blank.")
    membership = _membership(options, join_token=token)
    before = membership.registered_as()
    address = options.address or own_address(options.url)
    new = before is None
    async with Link(options.url, options.ca) as link:
        if new:
            await membership.register(link, address)
        elif before == (options.name, options.url):
            with contextlib.suppress(Away, NotAdmitted):  # as a rule its name is taken, by itself
                await membership.register(link, address)
                new = True  # an operator had freed the name
    given.keep(options)
    if new:
        state = "" if options.state == given.STATE else f" --state {shlex.quote(str(options.state))}"
        print(f"{options.name} has joined {options.url}. Start the service, or: taiji-agent run{state}")
    else:
        was = " at ".join(before or ())
        print(f"This host had joined before, as {was}: its options are changed, nothing is registered.")


async def serve(options: argparse.Namespace, user: str) -> None:
    """Run the agent until SIGTERM or SIGINT, its tasks as `user`."""
    cards = Cards(Simulated(options.simulate) if options.simulate else _gpus(options))
    async with Link(options.url, options.ca) as link:
        agent = Agent(
            membership=_membership(options, join_token_file=options.join_token_file),
            link=link,
            cards=cards,
            storage=options.storage.resolve(),
            offers=Offers(processes=options.processes == "yes", engine=options.engine),
            user=user,
            address=options.address,
            log_cap=options.log_cap,
            code_cap=options.code_cap,
            devices=tuple(filter(None, options.devices.split(","))),
            cards_s=options.cards_every,
        )
        work = asyncio.ensure_future(agent.run())
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, work.cancel)
        with contextlib.suppress(asyncio.CancelledError):
            await work


def _gpus(options: argparse.Namespace) -> Gpus:
    return Gpus(options.state.resolve(), shares=mps.read(options.mps))


def _membership(
    options: argparse.Namespace, join_token: str = "", join_token_file: Path | None = None
) -> Membership:
    return Membership(
        name=options.name,
        region=options.region,
        folder=options.state.resolve(),
        join_token_file=join_token_file,
        join_token=join_token,
    )


def main() -> None:
    """Run the command."""
    options = given.complete(given.arguments().parse_args())
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    logging.getLogger("httpx").setLevel(logging.WARNING)  # else a line for every call
    if given.is_clear(options.url):
        log.warning(
            "%s is no https: this host's token and the secrets of tasks cross the network in clear.",
            options.url,
        )
    try:
        user = users.resolve(options.task_user)
    except users.NoSuchUser as fault:
        sys.exit(str(fault))
    held = lock(options.state)
    try:
        asyncio.run(join(options) if options.command == "join" else serve(options, user))
    except OSError as error:
        sys.exit(f"The agent cannot work: {error}.")
    except (Away, NotAdmitted) as fault:
        sys.exit(str(fault))
    finally:
        os.close(held)


if __name__ == "__main__":
    main()
