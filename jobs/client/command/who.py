"""`taiji login` and `taiji logout`."""

import sys
from typing import Annotated
from urllib.parse import urlsplit

import typer

from jobs.client.command import account
from jobs.client.command.account import Account, NoAccount
from jobs.client.command.screen import line


def add_account(app: typer.Typer) -> None:
    """Add them to the command."""
    app.command("login")(login)
    app.command("logout")(logout)


def login(
    url: Annotated[str, typer.Argument(help="The platform's address, such as https://taiji.example.org.")],
    token_stdin: Annotated[
        bool, typer.Option("--token-stdin", help="Read the token from stdin, for scripts.")
    ] = False,
) -> None:
    """Keep the platform's address and your API token on this machine, in a file that only you can read."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.netloc or parts.username or parts.query:
        raise NoAccount(f"{url} is no address of a platform: one looks like https://taiji.example.org.")
    piped = token_stdin or not sys.stdin.isatty()  # nobody is there to be asked
    token = sys.stdin.read() if piped else typer.prompt("API token", hide_input=True)
    who = Account(url=url.rstrip("/"), token=str(token).strip())
    if not who.token or not who.token.isascii() or not who.token.isprintable():
        raise NoAccount("That is no token: it is one word, as the platform showed it when it was made.")
    with who.platform() as platform:
        flags = ", ".join(business["business_flag"] for business in platform.businesses())
    path = account.keep(who)
    line(f"Logged in to {who.url}; you may submit for {flags or 'no business yet'}. Kept in {path}.")


def logout() -> None:
    """Forget the address and the token."""
    line("Forgotten." if account.forget() else "Nobody was logged in.")
