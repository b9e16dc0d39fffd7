"""Read settings from the environment and from the secrets file of the data folder."""

import json
import os
import re
from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network, ip_network
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote, urlsplit
from zoneinfo import available_timezones

import dj_database_url
from django.core.exceptions import ValidationError
from django.core.validators import validate_email

_problems: list[tuple[str, str, str]] = []


def problems() -> list[tuple[str, str, str]]:
    """Return what was wrong with the environment: (check id, what is wrong, the way out)."""
    return list(_problems)


def text(name: str, default: str) -> str:
    """Return the variable `name`, or `default` where it is unset or blank."""
    return os.environ.get(name, "").strip() or default


def flag(name: str, default: bool) -> bool:
    """Return a yes/no variable; anything but 1/true/yes/on and 0/false/no/off is reported by a check."""
    value = text(name, "1" if default else "0").lower()
    if value in {"1", "true", "yes", "on"}:
        return True
    if value not in {"0", "false", "no", "off"}:
        _problems.append(("taiji.E002", f"{name}={value!r} is not a yes or a no.", f"Set {name} to 1 or 0."))
    return False


def number(name: str, default: int, least: int, most: int) -> int:
    """Return a whole number between `least` and `most`; another value is reported by a check."""
    value = text(name, str(default))
    if value.isascii() and value.isdigit() and least <= int(value) <= most:
        return int(value)
    _problems.append(
        (
            "taiji.E003",
            f"{name}={value!r} is not a whole number from {least} to {most}.",
            f"Set {name} to such a number, or unset it for {default}.",
        )
    )
    return default


def choice(name: str, words: tuple[str, ...]) -> str:
    """Return one of `words`, the first where the variable is unset; another is reported by a check."""
    value = text(name, words[0])
    if value in words:
        return value
    listed = ", ".join(words)
    _problems.append(
        ("taiji.E010", f"{name}={value!r} is none of {listed}.", f"Set {name} to one of them, or unset it.")
    )
    return words[0]


def shaped(name: str, default: str, pattern: str, such: str) -> str:
    """Return a text that matches the whole `pattern`; another is reported by a check with `such`, an example."""
    value = text(name, default)
    if value == default or re.fullmatch(pattern, value):
        return value
    _problems.append(
        (
            "taiji.E012",
            f"{name}={_without_password(value)!r} is not what it has to be.",
            f"Write {name} such as {such}, or unset it.",
        )
    )
    return default


def _without_password(address: str) -> str:
    return re.sub(r"//[^@/]*@", "//…@", address)


def zone(name: str, default: str) -> str:
    """Return a time zone's name; one that does not exist is reported by a check."""
    value = text(name, default)
    if value in available_timezones():
        return value
    _problems.append(
        (
            "taiji.E007",
            f"{name}={value!r} is not a time zone.",
            f"Set {name} to a name such as Asia/Shanghai, or unset it for {default}.",
        )
    )
    return default


def database(name: str) -> dict[str, Any]:
    """Return Django's settings of the PostgreSQL that a variable names, none where it is unset."""
    value = text(name, "")
    if not value:
        return {}
    if value.partition("://")[0] in {"postgres", "postgresql"}:
        try:
            return dict(dj_database_url.parse(value, conn_health_checks=True))
        except ValueError:
            pass  # reported like any other that cannot be read
    _problems.append(
        (
            "taiji.E008",
            f"{name} is not the address of a PostgreSQL.",
            f"Write it as postgres://user:password@host/name, or unset {name} for SQLite in the data folder.",
        )
    )
    return {}


@dataclass(frozen=True, slots=True)
class MailServer:
    """A server that takes mails; without a host none is meant."""

    scheme: str = "smtp"
    host: str = ""
    port: int = 25
    user: str = ""
    password: str = ""


MAIL_PORTS = {"smtp": 25, "smtp+tls": 587, "smtp+ssl": 465}  # of each scheme, where the address names none


def mail_server(name: str) -> MailServer:
    """Return the mail server that a variable names, none where it is unset; another is reported by a check."""
    value = text(name, "")
    try:
        return _mail_server(value) if value else MailServer()
    except ValueError:  # not shown: there may be a password in it
        _problems.append(
            (
                "taiji.E024",
                f"{name} is not the address of a mail server.",
                f"Write {name} as smtp+tls://user:password@host:587 (or smtp+ssl://, smtp://), user and password with "
                "% codes for what is no letter or digit, both or neither; or unset it.",
            )
        )
        return MailServer()


def _mail_server(value: str) -> MailServer:
    parts = urlsplit(value)
    user, password = unquote(parts.username or ""), unquote(parts.password or "")
    host = parts.hostname or ""
    port = MAIL_PORTS[parts.scheme] if parts.scheme in MAIL_PORTS and parts.port is None else parts.port
    beyond = parts.path.strip("/") or parts.query or parts.fragment
    if parts.scheme not in MAIL_PORTS or beyond or bool(user) != bool(password) or not port:
        raise ValueError(parts.scheme)
    if not re.fullmatch(r"[a-z0-9._:-]+", host):
        raise ValueError(host)
    return MailServer(parts.scheme, host, port, user, password)


def mailboxes(name: str, most: int) -> list[str]:
    """Return the comma-separated mail addresses, `most` at most; others are reported by a check."""
    found = names(name, "")
    if text(name, "") and not (0 < len(found) <= most and all(map(_is_mailbox, found))):
        such = "one address" if most == 1 else f"up to {most} addresses behind commas"
        _problems.append(
            (
                "taiji.E025",
                f"{name}={text(name, '')!r} is not {such} of mail.",
                f"Write {name} such as taiji@example.com, {such}; or unset it.",
            )
        )
        return []
    return found


def _is_mailbox(written: str) -> bool:
    try:
        validate_email(written)
    except ValidationError:
        return False
    return True


def names(name: str, default: str) -> list[str]:
    """Return a comma-separated list."""
    return [part.strip() for part in text(name, default).split(",") if part.strip()]


def addresses(name: str, default: str) -> list[str]:
    """Return a comma-separated list of HTTP addresses, each ending in a slash; others are reported by a check."""
    found = []
    for address in names(name, default):
        parts = urlsplit(address)
        plain = parts.scheme in {"http", "https"} and parts.hostname and not parts.username
        if plain and not parts.query and not parts.fragment:
            found.append(address.rstrip("/") + "/")
            continue
        _problems.append(
            (
                "taiji.E009",
                f"{name} holds {address!r}, which is not an address without user, ? and #.",
                f"Write {name} as https://git.example.com/, several behind commas; blank: none.",
            )
        )
    return found


def address(name: str, such: str = "https://login.example.com/realm") -> str:
    """Return one HTTP address without a slash at its end, blank where it is unset; another is reported by a check."""
    value = text(name, "")
    parts = urlsplit(value)
    if not value or (
        parts.scheme in {"http", "https"} and parts.hostname and not parts.query and not parts.username
    ):
        return value.rstrip("/")
    _problems.append(
        (
            "taiji.E022",
            f"{name}={value!r} is not an address without user, ? and #.",
            f"Write {name} as {such}, or unset it.",
        )
    )
    return ""


def origin(address: str) -> str:
    """Return scheme, host and port of an address."""
    parts = urlsplit(address)
    return f"{parts.scheme}://{parts.netloc}"


def networks(name: str, default: str) -> list[IPv4Network | IPv6Network]:
    """Return a comma-separated list of addresses and networks; others are reported by a check."""
    found = []
    for written in names(name, default):
        try:
            found.append(ip_network(written))
        except ValueError:
            _problems.append(
                (
                    "taiji.E021",
                    f"{name} holds {written!r}, which is neither an address nor a network.",
                    f"Write {name} as 10.0.0.5 or 10.0.0.0/24, several behind commas; blank: none.",
                )
            )
    return found


def secrets(folder: Path) -> dict[str, str]:
    """Return the generated secrets of the data folder; empty where none were generated yet."""
    path = folder / "secrets.json"
    try:
        found = json.loads(path.read_text())
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        _problems.append(
            ("taiji.E004", f"{path} cannot be read: {error}.", "Restore it from a backup: it holds the keys.")
        )
        return {}
    return {str(key): str(value) for key, value in found.items()}


def socket_url(path: Path) -> str:
    """Return the Redis URL of a Unix socket, with the path percent-encoded."""
    return f"unix://{quote(str(path))}"
