"""Checks of the fields that say where code and data come from."""

import re
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any

from django.utils.translation import gettext as _

from cluster.agent.protocol import SYSTEM_FOLDERS
from jobs.values import (
    Check,
    Fault,
    Invalid,
    Secret,
    choice,
    flag,
    listed,
    refuse,
    shape,
    text,
    wrong_type,
)

DIGEST = "sha256:"
MOST_MOUNTS = 64
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}", re.ASCII)
_SEGMENT = re.compile(r"[\w.][\w.~+-]*")
_COMMIT = re.compile(r"[0-9a-f]{4,64}", re.ASCII)
_MONITOR = re.compile(r"(\[[0-9a-fA-F:]+\]|[A-Za-z0-9][A-Za-z0-9._-]*)(:[0-9]{1,5})?", re.ASCII)
_CEPH_NAME = re.compile(r"[A-Za-z0-9_.-]{1,255}", re.ASCII)
_CEPH_KEY = re.compile(r"[A-Za-z0-9+/=]{1,255}", re.ASCII)
# Places that nothing may hide from the processes of a task, besides the system's own.
ALONE = frozenset({"/", "/home", "/opt", "/root", "/srv", "/taiji", "/tmp", "/var"})

_line: Check = text(255)


def digest(value: object) -> str:
    """Take the name of an upload."""
    written: str = text(80)(value)
    if written and not _DIGEST.fullmatch(written.lower()):
        refuse("format", _('Write the upload\'s digest, "sha256:" and 64 hexadecimal digits.'))
    return written.lower()


def number(value: object) -> str:
    """Take the number of something known, as a number or as text."""
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    written: str = text(18)(value)
    if written and not (written.isascii() and written.isdigit()):
        refuse("format", _("Write its number, such as 12."))
    return str(int(written)) if written else ""


def secret(value: object) -> str | Secret:
    """Take a secret: a text, or {"secret": true} where a copied task has it."""
    if isinstance(value, dict):
        parts = shape({"value": text(1024), "secret": flag})(value)
        return Secret(parts.get("value") or None)
    if not isinstance(value, str):
        wrong_type(value, _('a text in quotes, or {"secret": true} in a copy of a task that has it'))
    written: str = text(1024)(value)
    return Secret(written) if written else ""


def _segments(most: int) -> Check:
    """Return the check of at most so many names behind slashes: a part of an address, and nothing else in it."""

    def check(value: object) -> str:
        written = str(_line(value)).strip("/")
        parts = written.split("/") if written else []
        if len(parts) > most or any(not _SEGMENT.fullmatch(part) or part in {".", ".."} for part in parts):
            refuse(
                "format", _("Write letters, digits, dots, underscores and hyphens as the git host has it.")
            )
        return written

    return check


def _branch(value: object) -> str:
    """Take what git takes for the name of a branch."""
    written: str = _line(value)
    bad = re.search(r"^[-/.]|[\x00-\x20~^:?*\[\\]|\.\.|//|@\{|(/|\.|\.lock)$|/\.", written)
    if written and bad:
        refuse("format", _("This is no name of a branch."))
    return written


def _commit(value: object) -> str:
    written = str(_line(value)).lower()
    if written and not _COMMIT.fullmatch(written):
        refuse("format", _("Write the commit's id, or at least its first 4 digits."))
    return written


_PATH_INFO = shape(
    {
        "group": _segments(8),
        "project": _segments(1),
        "private_token": secret,
        "branch": _branch,
        "commit_id": _commit,
        "host": _line,
    }
)
_MODEL = shape({"model_source": choice("git"), "model_name": _line, "path_info": _PATH_INFO})


def git(value: object) -> dict[str, Any]:
    """Take code from git: group and project, and a token, branch, commit or host where needed."""
    found: dict[str, Any] = _MODEL(value)
    place = {name: given for name, given in (found.get("path_info") or {}).items() if given}
    _need(place, {"group": _("Name the group."), "project": _("Name the project.")}, "path_info.")
    # As the address of a repository has it; of ".git" alone nothing would be left.
    if place["project"] == ".git":
        raise Invalid([Fault("path_info.project", "required", _("Name the project."))])
    place["project"] = place["project"].removesuffix(".git")
    named = {"model_name": found["model_name"]} if found.get("model_name") else {}
    return {"model_source": "git", **named, "path_info": place}


def _addresses(value: object) -> str:
    written: str = text(1024)(value)
    parts = [part.strip() for part in re.split("[,，]", written) if part.strip()]
    if not all(_MONITOR.fullmatch(part) for part in parts):
        refuse("format", _('Write the monitors as "10.0.0.1:6789,10.0.0.2:6789".'))
    return ",".join(parts)


def _path(value: object) -> str:
    written: str = text(1024)(value)
    if written and (not written.startswith("/") or ".." in PurePosixPath(written).parts):
        refuse("format", _("Write a whole path that begins with /, without .. in it."))
    return str(PurePosixPath("/" + written.strip("/"))) if written else ""


def _place(value: object) -> str:
    written = _path(value)
    if written and (written in ALONE or written.split("/")[1] in SYSTEM_FOLDERS):
        refuse("place", _("The system uses this folder itself; mount below another one, such as /data/mine."))
    return written


def _matching(pattern: re.Pattern[str], most: int) -> Check:
    def check(value: object) -> str:
        written: str = text(most)(value)
        if written and not pattern.fullmatch(written):
            refuse("format", _("This is not of the form that ceph uses."))
        return written

    return check


def _ceph_secret(value: object) -> str | Secret:
    found = secret(value)
    if isinstance(found, Secret) and found.value is not None and not _CEPH_KEY.fullmatch(found.value):
        refuse("format", _("This is not of the form that ceph uses."))
    return found


_CEPH = shape(
    {
        "addr": _addresses,
        "name": _matching(_CEPH_NAME, 255),
        "secret": _ceph_secret,
        "src_path": _path,
        "dst_path": _place,
    }
)


def _mount(value: object) -> dict[str, Any]:
    found = {name: given for name, given in _CEPH(value).items() if given}
    needed = {
        "addr": _("Give the addresses of its monitors."),
        "name": _("Give the name to log in with."),
        "secret": _("Give the secret to log in with."),
        "src_path": _("Give the path in the cluster."),
    }
    _need(found, needed)
    if "dst_path" not in found:
        try:
            found["dst_path"] = _place(found["src_path"])
        except Invalid as error:
            raise Invalid([Fault("dst_path", fault.code, fault.message) for fault in error.faults]) from None
    found["name"] = found["name"].removeprefix("client.")
    return found


_MOUNTS = listed(MOST_MOUNTS, _mount)


def ceph(value: object) -> dict[str, Any]:
    """Take private ceph folders; where each is mounted is told by dst_path, by default as src_path."""
    top = shape({"dataset_source": choice("outer_ceph"), "dataset_name": _line, "ceph_info": _filled})
    found: dict[str, Any] = top(value)
    mounts = found.get("ceph_info") or []
    _need({"ceph_info": mounts}, {"ceph_info": _("Name what to mount.")})
    _apart([mount["dst_path"] for mount in mounts])
    named = {"dataset_name": found["dataset_name"]} if found.get("dataset_name") else {}
    return {"dataset_source": "outer_ceph", **named, "ceph_info": mounts}


def _filled(value: object) -> list[dict[str, Any]]:
    """Take the mounts, without those that stand blank in the sample."""
    if isinstance(value, list):
        value = [item for item in value if not (isinstance(item, dict) and not any(item.values()))]
    found: list[dict[str, Any]] = _MOUNTS(value)
    return found


def _apart(places: list[str]) -> None:
    """Refuse mounts that would hide each other."""
    for place, path in enumerate(places):
        others = [
            other
            for other in places[:place]
            if f"{path}/".startswith(f"{other}/") or f"{other}/".startswith(f"{path}/")
        ]
        if others:
            message = _("This hides %(other)s, or is hidden by it; mount them side by side.") % {
                "other": others[0]
            }
            raise Invalid([Fault(f"ceph_info.{place}.dst_path", "place", message)])


def _need(found: Mapping[str, object], needed: Mapping[str, str], above: str = "") -> None:
    missing = [
        Fault(above + name, "required", message) for name, message in needed.items() if not found.get(name)
    ]
    if missing:
        raise Invalid(missing)
