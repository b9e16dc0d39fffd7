"""The schemas of a real API server, made strict: a field that it does not know is a fault."""

import functools
import gzip
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator

ROOT = Path(__file__).resolve().parents[2]
FOLDER = Path(os.environ.get("TAIJI_SHARED") or ROOT.parent / "shared") / "k8s"
FILES = {
    "v1": "openapi-api-v1.json.gz",
    "batch/v1": "openapi-apis-batch-v1.json.gz",
    "coordination.k8s.io/v1": "openapi-apis-coordination.k8s.io-v1.json.gz",
}


class Absent(Exception):
    """The recorded schemas are not there."""


def faults(thing: Mapping[str, Any]) -> list[str]:
    """Return what is wrong with an object, by its path; raises Absent where nobody can say."""
    found = _validator(thing["apiVersion"], thing["kind"]).iter_errors(thing)
    return sorted(f"{'.'.join(map(str, error.absolute_path))}: {error.message[:300]}" for error in found)


@functools.cache
def _validator(version: str, kind: str) -> Draft202012Validator:
    schemas = _schemas(version)
    name = next(
        name
        for name, schema in schemas.items()
        if any(
            one["kind"] == kind and version == "/".join(filter(None, (one["group"], one["version"])))
            for one in schema.get("x-kubernetes-group-version-kind", ())
        )
    )
    return Draft202012Validator({"$ref": f"#/components/schemas/{name}", "components": {"schemas": schemas}})


@functools.cache
def _schemas(version: str) -> dict[str, Any]:
    path = FOLDER / FILES[version]
    if not path.is_file():
        raise Absent(f"the schemas are not at {path}: set TAIJI_SHARED to the folder that holds them")
    with gzip.open(path) as file:
        found: dict[str, Any] = json.load(file)["components"]["schemas"]
    return {name: _strict(schema) for name, schema in found.items()}


def _strict(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_strict(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    # What is left out may be written as null, and a default stands beside `allOf`: neither is a fault of ours.
    found = {name: _strict(value) for name, value in schema.items()}
    if isinstance(found.get("properties"), dict) and "additionalProperties" not in found:
        found["additionalProperties"] = False
    return found
