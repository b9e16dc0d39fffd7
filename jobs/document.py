"""The config document of a task as text and JSON: read, checked field by field, normalised; no database."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from django.utils.translation import gettext as _

from jobs import elsewhere, parse
from jobs.fields import FIELDS
from jobs.values import Fault, Invalid, Secret, checked, unknown

DEEPEST = 16  # levels of nesting
SHORTEST_LEAK = 6  # signs; shorter ones stand in any text by chance
MOST_FAULTS = 100
SOURCE_WORDS = frozenset(
    {"dataset_source", "model_source"}
)  # filled in the sample, they ask for nothing alone
EXAMPLES = frozenset({"ip1:port,ip2:port"})  # stand in the sample where a value goes
CODE_SOURCES = frozenset({"model_local_file_path", "upload", "model_id", "model_params"})
# What is named by number stands before what is described.
BEFORE = {"model_id": CODE_SOURCES - {"model_id"}, "dataset_id": frozenset({"dataset_params"})}


@dataclass(frozen=True, slots=True, kw_only=True)
class Normal:
    """What a document says: `values` without secrets, `secrets` by path (None: not given), all faults."""

    values: dict[str, Any]
    secrets: dict[str, str | None] = field(default_factory=dict)
    token: str = ""
    faults: list[Fault] = field(default_factory=list)


def parse_text(written: str) -> Any:
    """Return the document in a text, JSON or the sample as printed; raises Invalid."""
    try:
        return parse.parse(written)
    except parse.Malformed as error:
        message = _("This cannot be read: %s.") % error.problem
        if error.line:
            message = _("Line %(line)d cannot be read: %(problem)s.") % {
                "line": error.line,
                "problem": error.problem,
            }
        raise Invalid([Fault("", "malformed", message)]) from None


def normalise(document: object) -> Normal:
    """Return the normal form of a document and all its faults; required fields are checked by `required`."""
    if not isinstance(document, dict):
        fault = Fault("", "type", _("A config is an object in braces, with field names and values."))
        return Normal(values={}, faults=[fault])
    if _too_deep(document):
        return Normal(
            values={}, faults=[Fault("", "nesting", _("This is nested too deeply; no field needs that."))]
        )
    given = {name: value for name, value in document.items() if not absent(name, value)}
    for name, ignored in BEFORE.items():
        if name in given:
            given = {field: value for field, value in given.items() if field not in ignored}
    faults = [_strange(name, document) for name in document if name not in FIELDS][:MOST_FAULTS]
    known = [(name, given[name], FIELDS[name].check) for name in FIELDS if name in given]
    found = checked(known, faults)
    faults += [
        Fault(name, "unsupported", str(FIELDS[name].refused))
        for name, *_rest in known
        if FIELDS[name].refused
    ]
    token = found.pop("Token", "")
    secrets = take_secrets(found)
    defaults = {
        name: each.default for name, each in FIELDS.items() if each.default is not None and name not in given
    }
    values = {name: value for name, value in (defaults | found).items() if value not in ("", [], {})}
    ordered = {name: values[name] for name in FIELDS if name in values}
    return Normal(values=ordered, secrets=secrets, token=token, faults=faults[:MOST_FAULTS])


def _strange(name: object, document: Mapping[Any, Any]) -> Fault:
    """Return the fault of a field that no document has; what a task of somebody's MPIJob shows is told apart."""
    job = elsewhere.named(document) if name == elsewhere.MPIJOB else ""
    return (
        Fault(elsewhere.MPIJOB, elsewhere.NOT_HERE, elsewhere.not_here(job)) if job else unknown(name, FIELDS)
    )


def required(document: object) -> list[Fault]:
    """Return a fault for each field that a task cannot do without."""
    given = document if isinstance(document, dict) else {}
    missing = {name for name in ("business_flag", "start_cmd") if absent(name, given.get(name))}
    faults = []
    if "business_flag" in missing:
        faults.append(Fault("business_flag", "required", _("Name the business that the task belongs to.")))
    if "start_cmd" in missing and all(absent(name, given.get(name)) for name in CODE_SOURCES):
        faults.append(
            Fault("start_cmd", "required", _('Give the command that is the task, such as "python train.py".'))
        )
    return faults + _code_faults(given)


def _code_faults(given: Mapping[str, Any]) -> list[Fault]:
    """Return what is wrong with the way in which the code is named."""
    there = {name for name in CODE_SOURCES if not absent(name, given.get(name))}
    if "model_id" in there:
        return []
    if "model_local_file_path" in there and not there & {"upload", "model_params"}:
        message = _(
            "The platform cannot read folders of your machine: send the document with taiji submit, which uploads "
            "the folder, or upload it yourself (PUT uploads/) and name its digest in upload."
        )
        return [Fault("model_local_file_path", "not_uploaded", message)]
    if {"upload", "model_params"} <= there:
        return [Fault("upload", "conflict", _("Name one source of code: upload or model_params."))]
    return []


# Fields whose words are the user's own; the others name what the platform knows.
OWN_WORDS = (
    *("start_cmd", "exit_cmd", "task_flag", "env", "tags", "image_full_name", "model_local_file_path"),
    *("dataset_params", "model_params"),
)


def leaks(values: Mapping[str, Any], secrets: Mapping[str, str]) -> list[Fault]:
    """Return a fault for each plain field that holds, and so would show, the value of a secret."""
    long = {path: value for path, value in secrets.items() if len(value) >= SHORTEST_LEAK}
    if not long:
        return []
    plain = dict(texts({name: values[name] for name in OWN_WORDS if name in values}))
    return [
        Fault(path, "secret_shown", _leak(secret))
        for path, written in plain.items()
        for secret, value in long.items()
        if value in written
    ]


def _leak(secret: str) -> str:
    words = {"secret": secret, "name": secret.rpartition(".")[2]}
    if secret.startswith("env."):
        message = _(
            "This holds the value of the secret %(secret)s and would show it; write $%(name)s instead."
        )
    else:
        message = _("This holds the value of the secret %(secret)s and would show it; leave it out here.")
    return message % words


def texts(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """Return every text in a value, with the path to it."""
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, dict):
        for name, inner in value.items():
            yield from texts(inner, f"{path}.{name}" if path else name)
    elif isinstance(value, list | tuple):
        for place, inner in enumerate(value):
            yield from texts(inner, f"{path}.{place}")


def take_secrets(found: dict[str, Any]) -> dict[str, str | None]:
    """Leave only a mark where a secret stood, and return the secrets by path."""
    secrets: dict[str, str | None] = {}
    for name, value in found.items():
        found[name] = _without_secrets(value, name, secrets)
    return secrets


def _without_secrets(value: Any, path: str, secrets: dict[str, str | None]) -> Any:
    if isinstance(value, Secret):
        secrets[path] = value.value
        return {"secret": True}
    if isinstance(value, dict):
        return {name: _without_secrets(inner, f"{path}.{name}", secrets) for name, inner in value.items()}
    if isinstance(value, list):
        return [_without_secrets(inner, f"{path}.{place}", secrets) for place, inner in enumerate(value)]
    return value


def absent(name: object, value: object) -> bool:
    """Say whether a field with this value is as good as left out."""
    return value in (None, {}) if name == "env" else _blank(value)


def _blank(value: object) -> bool:
    """Say whether nothing is filled in: blank texts, and objects and lists of them."""
    if isinstance(value, str):
        return not value.strip() or value.strip() in EXAMPLES
    if isinstance(value, dict):
        return all(name in SOURCE_WORDS or _blank(entry) for name, entry in value.items())
    return value is None or (isinstance(value, list) and all(_blank(entry) for entry in value))


def _too_deep(value: object, left: int = DEEPEST) -> bool:
    if not isinstance(value, dict | list):
        return False
    entries = value.values() if isinstance(value, dict) else value
    return not left or any(_too_deep(one, left - 1) for one in entries if isinstance(one, dict | list))
