"""The `taiji` command: its frame, and one line for every fault."""

import os
import sys
from typing import Annotated

import typer

from jobs.client.command import codes
from jobs.client.command.account import NoAccount
from jobs.client.command.documents import BadDocument
from jobs.client.command.looking import add_looking
from jobs.client.command.screen import err
from jobs.client.command.steering import add_steering
from jobs.client.command.submitting import add_submitting
from jobs.client.command.trying import sim
from jobs.client.command.who import add_account
from jobs.client.command.words import say
from jobs.client.errors import CallFailed, Refused

app = typer.Typer(
    name="taiji",
    help="Submit GPU tasks to a Taiji platform, watch them and steer them.",
    epilog=f"Exit codes: {codes.WORDS}",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
add_account(app)
add_submitting(app)
add_looking(app)
add_steering(app)
app.command(
    "sim", add_help_option=False, context_settings={"allow_extra_args": True, "ignore_unknown_options": True}
)(sim)


def _version(wanted: bool) -> None:
    if wanted:
        from jobs.client import VERSION

        print(f"taiji {VERSION}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Stand above all commands."""


def main() -> None:
    """Run the command; whatever goes wrong is a sentence on stderr and an exit code of `codes`."""
    try:
        app()
    except CallFailed as error:
        err.print(f"taiji: {error}", markup=False)
        if isinstance(error, Refused) and error.status == 401:
            err.print(say("Log in with `taiji login URL`, or set TAIJI_TOKEN."), markup=False)
        sys.exit(codes.of_failure(error))
    except NoAccount as error:
        err.print(f"taiji: {error}", markup=False)
        sys.exit(codes.NOT_ALLOWED)
    except BadDocument as error:
        err.print(f"taiji: {error}", markup=False)
        sys.exit(codes.DATA)
    except BrokenPipeError:  # whoever read, such as `head`, has enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(141)
    except OSError as error:
        err.print(f"taiji: {error.filename or 'a file'}: {error.strerror or error}", markup=False)
        sys.exit(codes.NOT_THERE)
    except KeyboardInterrupt:
        sys.exit(codes.BROKEN_OFF)
