"""`taiji login` and `taiji logout`."""

import sys
from typing import Annotated
from urllib.parse import urlsplit

import typer

from jobs.client.command import account
from jobs.client.command.account import Account, NoAccount
from jobs.client.command.screen import line
from jobs.client.command.words import say


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
        message = say("%(url)s is no address of a platform: one looks like https://taiji.example.org.")
        raise NoAccount(message % {"url": url})
    piped = token_stdin or not sys.stdin.isatty()  # nobody is there to be asked
    token = sys.stdin.read() if piped else typer.prompt(say("API token"), hide_input=True)
    who = Account(url=url.rstrip("/"), token=str(token).strip())
    if not who.token or not who.token.isascii() or not who.token.isprintable():
        raise NoAccount(say("That is no token: it is one word, as the platform showed it when it was made."))
    with who.platform() as platform:
        flags = ", ".join(business["business_flag"] for business in platform.businesses())
    path = account.keep(who)
    said = say("Logged in to %(url)s; you may submit for %(businesses)s. Kept in %(file)s.")
    line(said % {"url": who.url, "businesses": flags or say("no business yet"), "file": path})


def logout() -> None:
    """Forget the address and the token."""
    line(say("Forgotten.") if account.forget() else say("Nobody was logged in."))
