"""What the official client knows of the kinds that it was generated from, as a check of objects written by hand.

It knows each kind of a real API server, its fields and which of them are required; what formats texts may have it
does not.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from kubernetes import client

PLAIN: Mapping[str, type | tuple[type, ...]] = {
    "str": str,
    "int": int,
    "float": (int, float),
    "bool": bool,
    "object": object,
    "datetime": str,
    "bytes": str,
}


class Unknown(Exception):
    """The client has no such kind."""


def faults(thing: Mapping[str, Any]) -> list[str]:
    """Return what is wrong with an object, by its path; raises Unknown for a kind that the client does not have."""
    group, _, version = thing["apiVersion"].rpartition("/")
    kind = f"{version.capitalize()}{thing['kind']}"
    if not hasattr(client, kind) or (group and not hasattr(client, _api(group, version))):
        raise Unknown(f"{thing['apiVersion']} {thing['kind']}")
    return list(_object(kind, thing, ""))


def _api(group: str, version: str) -> str:
    words = group.removesuffix(".k8s.io").split(".")
    return "".join(word.capitalize() for word in words) + version.capitalize() + "Api"


def _object(kind: str, thing: Any, path: str) -> Iterator[str]:
    if not isinstance(thing, dict):
        yield f"{path}: {thing!r} is no object"
        return
    model: Any = getattr(client, kind)
    fields = {name: model.openapi_types[ours] for ours, name in model.attribute_map.items()}
    for name, value in thing.items():
        where = f"{path}.{name}".lstrip(".")
        if name not in fields:
            yield f"{where}: there is no such field"
        elif value is not None:
            yield from _value(fields[name], value, where)
    yield from _missing(model, kind, thing, path)


def _missing(model: Any, kind: str, thing: Mapping[str, Any], path: str) -> Iterator[str]:
    for ours, field in model.model_fields.items():
        name = model.attribute_map[field.alias or ours]
        if thing.get(name) is None and field.is_required():
            yield f"{path}.{name}: {kind} needs it".lstrip(".")


def _value(kind: str, value: Any, path: str) -> Iterator[str]:
    if listed := re.fullmatch(r"List\[(.*)\]", kind):
        if not isinstance(value, list):
            yield f"{path}: {value!r} is no list"
            return
        for number, one in enumerate(value):
            yield from _value(listed[1], one, f"{path}.{number}")
    elif mapped := re.fullmatch(r"Dict\[str, (.*)\]", kind):
        if not isinstance(value, dict):
            yield f"{path}: {value!r} is no object"
            return
        for name, one in value.items():
            yield from _value(mapped[1], one, f"{path}.{name}")
    elif kind in PLAIN:
        wrong = isinstance(value, bool) and kind in {"str", "int", "float"}
        if wrong or not isinstance(value, PLAIN[kind]):
            yield f"{path}: {value!r} is no {kind}"
    else:
        yield from _object(kind, value, path)
