"""The config document as people type it into fields, and back: what a field cannot hold stands in the rest."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.utils import timezone
from django.utils.translation import gettext as _

from jobs.document import absent
from jobs.values import bad_character

REST = "rest"  # the field for what has none of its own, or does not fit into it
FLAGS = ("enable_evicted_pulled_up", "keep_alive", "exec_start_in_all_mpi_pods")
LINES = ("start_cmd", "exit_cmd")  # texts of several lines
NAMED = ("model_id", "dataset_id")  # a number, as a number or as text
TEXTS = (
    *("business_flag", "task_flag", "GPUName", "region", "image_full_name", "priority"),
    *("upload", "model_local_file_path", *NAMED, *LINES),
)
OBJECTS = ("model_params", "dataset_params")  # typed as JSON
NUMBERS = ("host_num", "host_gpu_num", "time_limit", "checkpoint_interval", "retry_limit")
MOST_DIGITS = 100  # nobody means a number that is longer, and reading one takes its time
PRIORITIES = ("low", "medium", "high")
CLASSES: dict[str, bool | str] = {"false": False, "true": True, "auto": "auto"}
KEPT: dict[str, Any] = {"secret": True}  # a secret without its value: that of the copied task is meant


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    """What was typed, as a document; `faults` (field, message) of what could not even be read."""

    document: dict[str, Any]
    faults: list[tuple[str, str]] = field(default_factory=list)


def read(typed: Mapping[str, Any]) -> Read:
    """Return the document that was typed, field by field; a field of its own goes before the rest."""
    faults: list[tuple[str, str]] = []
    document = _object(REST, typed[REST], faults)
    document |= {name: found for name in OBJECTS if (found := _object(name, typed[name], faults))}
    for name in (*TEXTS, *NUMBERS, *FLAGS, "is_elasticity", "not_before"):
        if (own := _own(name, typed[name])) is not None:
            document[name] = own
    document.setdefault("is_elasticity", False)
    env = _environment(typed, faults)
    given = document.get("env")
    if isinstance(given, dict) or env:
        document["env"] = (given if isinstance(given, dict) else {}) | env
    return Read(document=document, faults=faults)


def _own(name: str, text: Any) -> Any:
    """Return what one field says; None: nothing."""
    if name in FLAGS:
        return True if text else None
    if not text.strip():
        return None
    if name in NUMBERS:
        return _as_number(text)
    if name == "is_elasticity":
        return CLASSES.get(text, text)
    return _as_moment(text) if name == "not_before" else text


def _object(name: str, text: str, faults: list[tuple[str, str]]) -> dict[str, Any]:
    """Return the JSON object in a field."""
    try:
        found = json.loads(text.strip() or "{}")
    except RecursionError:
        faults.append((name, _("This is nested too deeply; no field needs that.")))
        return {}
    except ValueError as error:
        faults.append((name, _("This is not JSON: %(error)s.") % {"error": error}))
        return {}
    if not isinstance(found, dict):
        faults.append((name, _('A JSON object is needed, such as {"tags": ["night"]}.')))
        return {}
    return found


def rest(typed: Mapping[str, Any]) -> dict[str, Any]:
    """Return what stands in the field for the rest; nothing where that cannot be read."""
    return _object(REST, typed[REST], [])


def _environment(typed: Mapping[str, Any], faults: list[tuple[str, str]]) -> dict[str, Any]:
    plain = {name: value or "" for name, value in lines(typed, "env", faults).items()}
    secret = lines(typed, "secret_env", faults, name_alone=True)
    return plain | {
        name: KEPT if value is None else {"value": value, "secret": True} for name, value in secret.items()
    }


def lines(
    typed: Mapping[str, Any], name: str, faults: list[tuple[str, str]], *, name_alone: bool = False
) -> dict[str, str | None]:
    """Return NAME → value of the lines of a field; None where a line is a name alone."""
    found: dict[str, str | None] = {}
    for number, line in enumerate(typed[name].splitlines(), start=1):
        key, equals, value = line.partition("=")
        if not line.strip():
            continue
        if not equals and not name_alone:
            faults.append((name, _("Line %(number)d has no “=”.") % {"number": number}))
        found[key.strip()] = value if equals else None
    return found


def typed(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a person would have typed to get `document`, whatever it holds; only a Token is left out."""
    values: dict[str, Any] = {"is_elasticity": "" if "is_elasticity" in document else "false"}
    left_over: dict[str, Any] = {}
    for name, value in document.items():
        if name in ("Token", "env") or absent(name, value):
            continue
        text = _written(name, value)
        if text is None:
            left_over[name] = value
        else:
            values[name] = text
    values["env"], values["secret_env"], left = _written_environment(document.get("env"))
    if left not in (None, {}):
        left_over["env"] = left
    values[REST] = dumped(left_over) if left_over else ""
    return values


def dumped(value: Any) -> str:
    """Return a value as JSON that every page can show: half a character stays an escape."""
    text = json.dumps(value, ensure_ascii=False, indent=2)
    return json.dumps(value, indent=2) if bad_character(text, lines=True) else text


def _written(name: str, value: Any) -> Any:
    """Return what stands in the field of its own; None where it has none, or cannot hold the value."""
    if name in FLAGS:
        return value if isinstance(value, bool) else None
    if name in OBJECTS:
        return dumped(value) if isinstance(value, dict) else None
    if name == "is_elasticity":
        return _class_of(value)
    if name == "not_before":
        return _local(value)
    if name in NUMBERS or (name in NAMED and not isinstance(value, str)):
        whole = isinstance(value, int) and not isinstance(value, bool)
        text = str(value) if whole else value
        return (
            text
            if isinstance(text, str) and (not whole or _as_number(text) == value) and _fits(text, name, whole)
            else None
        )
    return value if name in TEXTS and isinstance(value, str) and _fits(value, name) else None


def _fits(text: str, name: str, whole: bool = False) -> bool:
    """Say whether a browser gives the text back as it is, and reading makes the same value of it."""
    if name in NUMBERS and not whole and _as_number(text) != text:
        return False  # a number in quotes
    if name == "priority":
        return text in PRIORITIES
    return "\r" not in text and not bad_character(text, lines=name in LINES)


def _written_environment(env: Any) -> tuple[str, str, Any]:
    """Return the lines of both fields, and what fits into neither."""
    if not isinstance(env, dict):
        return "", "", env
    plain, secret, left = [], [], {}
    for name, value in env.items():
        if not _is_name(name):
            left[name] = value
        elif _is_line(value):
            plain.append(f"{name}={value}")
        elif value == KEPT:
            secret.append(name)
        elif (
            isinstance(value, dict)
            and {**value, "value": ""} == {"value": "", **KEPT}
            and _is_line(value.get("value"))
        ):
            secret.append(f"{name}={value['value']}")
        else:
            left[name] = value
    return "\n".join(plain), "\n".join(secret), left


def _is_name(name: Any) -> bool:
    return _is_line(name) and name.strip() == name != "" and "=" not in name


def _is_line(value: Any) -> bool:
    return (
        isinstance(value, str)
        and len(f"{value}.".splitlines()) == 1
        and not bad_character(value, lines=False)
    )


def _class_of(value: object) -> str | None:
    if isinstance(value, str):
        return "auto" if value.strip().lower() == "auto" else None
    return {False: "false", True: "true"}[value] if isinstance(value, bool) else None


def _as_number(text: str) -> int | str:
    """Return the number that was typed, or the text itself for the document to refuse."""
    text = text.strip()
    is_number = text.isascii() and text.removeprefix("-").isdigit() and len(text) < MOST_DIGITS
    return int(text) if is_number else text


def _as_moment(text: str) -> str:
    """Return a local time as the document wants it, with its zone; what is none stays as typed."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return text
    return (timezone.make_aware(moment) if timezone.is_naive(moment) else moment).isoformat()


def _local(value: object) -> str | None:
    """Return a time in the zone of the pages; None for what is no time with a zone."""
    try:
        moment = timezone.localtime(datetime.fromisoformat(str(value)))
    except (ValueError, OverflowError):  # localtime refuses a time without its zone
        return None
    return moment.strftime("%Y-%m-%dT%H:%M:%S" if moment.second else "%Y-%m-%dT%H:%M")
