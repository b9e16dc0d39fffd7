"""Where the platform is and who calls it: from the environment, else from what `taiji login` kept."""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from jobs.client.command.language import language
from jobs.client.command.words import say
from jobs.client.errors import Refused
from jobs.client.platform import Taiji


class NoAccount(Exception):
    """Nobody logged in, or with a token that is none any more; the message says how."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """A platform's address and an API token of it."""

    url: str
    token: str
    from_environment: bool = False  # the token

    @contextmanager
    def platform(self) -> Iterator[Taiji]:
        """Give the platform, speaking the language of the shell; raises NoAccount for a bad TAIJI_TOKEN."""
        with Taiji(self.url, self.token, language=language()) as platform:
            try:
                yield platform
            except Refused as error:
                if error.status != 401 or not self.from_environment:
                    raise
                message = say("The token in TAIJI_TOKEN is not valid (any more) at %(url)s.")
                raise NoAccount(message % {"url": self.url}) from error


def file() -> Path:
    """Return the file that `taiji login` keeps the account in."""
    if named := os.environ.get("TAIJI_LOGIN"):
        return Path(named)
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "taiji" / "login.json"


def find(given: str = "") -> Account:
    """Return the account to call with, `given` being the token where one is; raises NoAccount.

    A kept token is sent to no other platform than the one that it is for.
    """
    kept = _kept()
    url = os.environ.get("TAIJI_URL", "").rstrip("/") or kept.get("url", "")
    own = kept.get("token", "") if url == kept.get("url") else ""
    variable = os.environ.get("TAIJI_TOKEN", "").strip()
    token = given or variable or own
    if url and token:
        return Account(url=url, token=token, from_environment=not given and bool(variable))
    missing = "TAIJI_TOKEN" if url else "TAIJI_URL and TAIJI_TOKEN"
    message = say("Nobody is logged in: run `taiji login URL` once, or set %(missing)s.")
    raise NoAccount(message % {"missing": missing})


def keep(account: Account) -> Path:
    """Write the account where only its owner can read it; return the file."""
    path = file()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    with open(path, "x", opener=lambda name, flags: os.open(name, flags, 0o600), encoding="utf-8") as new:
        json.dump({"url": account.url, "token": account.token}, new)
    return path


def forget() -> bool:
    """Remove the account; return whether there was one."""
    there = file().exists()
    file().unlink(missing_ok=True)
    return there


def _kept() -> dict[str, str]:
    try:
        found = json.loads(file().read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        message = say("%(file)s cannot be read (%(fault)s): remove it and log in again.")
        raise NoAccount(message % {"file": file(), "fault": error}) from error
    if not isinstance(found, dict) or not all(isinstance(part, str) for part in found.values()):
        message = say("%(file)s is not what `taiji login` writes: remove it and log in again.")
        raise NoAccount(message % {"file": file()})
    return found
