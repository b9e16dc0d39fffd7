"""A document from a file, with the code that lies in a folder of this machine."""

import json
import shlex
import sys
from pathlib import Path
from typing import Any

from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

from jobs import parse
from jobs.client import uploads
from jobs.client.command.screen import err
from jobs.client.command.words import say
from jobs.client.pack import CannotPack, pack
from jobs.client.platform import Taiji

TEXTS = frozenset({"business_flag", "task_flag", "start_cmd", "exit_cmd"})  # what may read like another kind


class BadDocument(Exception):
    """The file holds no document; the message says where and why."""


def read(path: Path) -> dict[str, Any]:
    """Return the document in a file, `-` for what comes in: JSON or YAML, with comments and trailing commas."""
    found = _parsed(path)
    if not isinstance(found, dict):
        message = say("%(file)s holds no document: it begins with { and names its fields.")
        raise BadDocument(message % {"file": path})
    return found


def read_many(path: Path) -> list[dict[str, Any]]:
    """Return the documents that a file lists."""
    found = _parsed(path)
    if not isinstance(found, list) or not found or not all(isinstance(one, dict) for one in found):
        message = say("%(file)s holds no list of documents: it begins with [ or with - before each of them.")
        raise BadDocument(message % {"file": path})
    return found


def _parsed(path: Path) -> Any:
    try:
        text = sys.stdin.read() if str(path) == "-" else path.read_text(encoding="utf-8-sig")
        return parse.parse(text)
    except UnicodeDecodeError as error:
        message = say("%(file)s is no text in UTF-8: %(fault)s")
        raise BadDocument(message % {"file": path, "fault": error}) from error
    except parse.Malformed as error:
        message = say("%(file)s is no task document (JSON or YAML object): see docs/client.md (%(fault)s)")
        raise BadDocument(message % {"file": path, "fault": _with_place(error)}) from error


def _with_place(error: parse.Malformed) -> str:
    if not error.line:
        return error.problem
    column = f", column {error.column}" if error.column else ""
    return f"line {error.line}{column}: {error.problem}"


def value_of(field: str, text: str) -> Any:
    """Return the value of a field as YAML reads it: 2, true, P40, [a, b]."""
    try:
        found = parse.parse(text) if text.strip() else text
    except parse.Malformed as error:
        message = say("--set: %(text)s is no value: %(fault)s")
        raise BadDocument(message % {"text": repr(text), "fault": error.problem}) from error
    if field in TEXTS and isinstance(found, bool | int | float):
        message = say(
            "--set: %(field)s is a text, and the shell takes its quotes away: write --set %(quoted)s"
        )
        quoted = shlex.quote(f"{field}={json.dumps(text.strip(), ensure_ascii=False)}")
        raise BadDocument(message % {"field": field, "quoted": quoted})
    return found


def bring_code(platform: Taiji, document: dict[str, Any], beside: Path) -> dict[str, Any]:
    """Return the document with its folder of code uploaded; a relative folder lies beside the document."""
    folder = _folder(document)
    if folder is None:
        return document
    business = document.get("business_flag")
    if not isinstance(business, str) or not business:
        return document  # the platform says what is missing, together with all else
    try:
        packed = pack(beside / Path(folder).expanduser())
    except CannotPack as error:
        raise BadDocument(f"model_local_file_path: {error}") from error
    try:
        with _bar(packed.size) as bar:
            task = bar.add_task(say("Uploading code"), total=packed.size)
            uploads.send(platform.http, business, packed, lambda sent: bar.update(task, advance=sent))
    finally:
        packed.file.unlink()
    return document | {"upload": packed.digest}


def without_folder(document: dict[str, Any], beside: Path) -> dict[str, Any]:
    """Return the document as it can be asked about: its folder of code is uploaded only where it is submitted."""
    folder = _folder(document)
    if folder is None:
        return document
    if not (beside / Path(folder).expanduser()).is_dir():
        message = say("%(folder)s is no folder") % {"folder": folder}
        raise BadDocument(f"model_local_file_path: {message}")
    asked = {name: value for name, value in document.items() if name != "model_local_file_path"}
    return asked | {"start_cmd": asked.get("start_cmd") or "./start.sh"}


def _folder(document: dict[str, Any]) -> str | None:
    """Return the folder that the code is to come from; None where it comes from elsewhere, or there is none."""
    folder = document.get("model_local_file_path")
    if not isinstance(folder, str) or not folder.strip():
        return None
    return None if document.get("upload") or document.get("model_id") else folder


def _bar(size: int) -> Progress:
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    return Progress(*columns, console=err, transient=True, disable=not err.is_terminal or size < 2**20)
