"""The documents of one request: what many of them say alike is checked once.

Whatever is not as good as always is read whole, alone, so that each of its faults is named.
"""

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from django.contrib.auth.models import User

from jobs import config, document
from jobs.config import Config, Invalid
from jobs.fields import FIELDS
from jobs.lookups import Lookups, flags_of
from jobs.sources import Found
from jobs.values import checked

# In these the tasks of a sweep differ. The database is asked about none of them, and what one may be hangs on no
# other field, but for two things: whether there is one, and whether it shows a secret. Nor has one a column of a task
# but those of services._OWN: all others are written as the first of those that are alike has them.
OWN = ("task_flag", "start_cmd", "exit_cmd", "env", "tags")


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """Some fields that were found good: `values` and `secrets` as in a Config, and all their text that is shown."""

    values: dict[str, Any]
    secrets: dict[str, str]
    text: str


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Alike:
    """What some documents ask for, but for their own fields: `config` is that of the first of them."""

    config: Config
    rest: Part


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    """A document that was found good; all that it does not say here it says as the others that are `alike`."""

    alike: Alike
    task_flag: str
    document: dict[str, Any]  # its normal form, without secrets
    secrets: dict[str, str]


class Reader:
    """Reads the documents of one request of a user."""

    def __init__(self, user: User, documents: Collection[object]) -> None:
        """Look up for these documents; nothing is read yet."""
        self._user = user
        self._lookups = Lookups(user, flags_of(documents))
        self._alike: dict[str, Alike] = {}
        self._parts: dict[str, Part | None] = {}

    @property
    def sources(self) -> Found:
        """Return what the documents named of code and data."""
        return self._lookups.sources

    def read(self, given: object) -> Read | Invalid:
        """Return what a document asks for, or all its faults."""
        parted = self._parted(given)
        if parted is None:
            return self._whole(given)
        key, own = parted
        if key in self._alike and (quickly := _together(self._alike[key], own)):
            return quickly
        found = self._whole(given)
        if isinstance(found, Read):
            self._alike.setdefault(key, found.alike)
        return found

    def _parted(self, given: object) -> tuple[str, dict[str, Part]] | None:
        """Return a key that documents share which are alike, and this one's own fields; None: it is read whole."""
        # No field may show a token, and what was read keeps none to look for.
        if not isinstance(given, dict) or "Token" in given:
            return None
        try:
            own = self._own(given)
            key = json.dumps([sorted(own or ()), {name: given[name] for name in given if name not in OWN}])
        except RecursionError:  # nested too deeply
            return None
        return None if own is None else (key, own)

    def _whole(self, given: object) -> Read | Invalid:
        try:
            found = config.read(given, user=self._user, lookups=self._lookups)
        except Invalid as invalid:
            return invalid
        return Read(
            alike=Alike(config=found, rest=_rest(found)),
            task_flag=found.task_flag,
            document=found.document,
            secrets=found.secrets,
        )

    def _own(self, given: Mapping[Any, Any]) -> dict[str, Part] | None:
        """Return the document's own fields that say something; None where one has a fault."""
        parts = {}
        for name in OWN:
            if name not in given or document.absent(name, given[name]):
                continue
            part = self._part(name, given[name])
            if part is None:
                return None
            parts[name] = part
        return parts

    def _part(self, name: str, value: object) -> Part | None:
        if isinstance(value, str):
            return _checked(name, value)
        key = f"{name}={json.dumps(value)}"
        if key not in self._parts:
            self._parts[key] = _checked(name, value)
        return self._parts[key]


def _together(alike: Alike, own: Mapping[str, Part]) -> Read | None:
    """Return what a document asks for; None where it shows a secret."""
    values, secrets, texts = dict(alike.config.document), alike.rest.secrets, [alike.rest.text]
    for part in own.values():
        values |= part.values
        secrets = secrets | part.secrets
        texts.append(part.text)
    for secret in secrets.values():
        if len(secret) >= document.SHORTEST_LEAK and any(secret in text for text in texts):
            return None
    name = values.get("task_flag") or config.default_name(alike.config.business)
    return Read(alike=alike, task_flag=name, document=values, secrets=secrets)


def _checked(name: str, value: object) -> Part | None:
    """Return a field by itself; None where it has a fault, or names a secret without its value."""
    values = checked([(name, value, FIELDS[name].check)], [])
    secrets = document.take_secrets(values)
    given = {path: secret for path, secret in secrets.items() if secret is not None}
    if not values or len(given) < len(secrets):
        return None
    return Part(values=values, secrets=given, text=_shown(values))


def _rest(found: Config) -> Part:
    values = {name: value for name, value in found.document.items() if name not in OWN}
    secrets = {path: secret for path, secret in found.secrets.items() if path.partition(".")[0] not in OWN}
    return Part(values=values, secrets=secrets, text=_shown(values))


def _shown(values: Mapping[str, Any]) -> str:
    return "\0".join(text for _path, text in document.texts(values))
