"""Whether what is read of an MPIJob is of the type that it has to be, in a sentence for each field; pure.

An API server asks its webhooks before it looks at the schema of a kind, so that anything may stand anywhere.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any

JSON = dict[str, Any]
TEXTS: JSON = {"*": str}
CONTAINER: JSON = {"resources": {"limits": dict, "requests": dict}}
REPLICA: JSON = {"replicas": int, "template": {"spec": {"nodeName": str, "containers": [CONTAINER]}}}
# A type, or what stands below: fields by name ("*": of any name), or what each of a list is.
JOB: JSON = {
    "metadata": {"labels": TEXTS, "annotations": TEXTS},
    "spec": {
        "slotsPerWorker": int,
        "runLauncherAsWorker": bool,
        "runPolicy": {"suspend": bool, "managedBy": str},
        "mpiReplicaSpecs": {"Worker": REPLICA, "Launcher": REPLICA},
    },
}
WORDS: Mapping[type, str] = {
    bool: "true or false",
    dict: "an object",
    int: "a whole number",
    list: "a list",
    str: "a text",
}
SHOWN_AT_MOST = 60  # signs of a value that is not what it has to be


def faults(job: object) -> list[str]:
    """Return a sentence for each field that is of another type than it has to be; what is absent is none."""
    return list(_faults(job, JOB, ""))


def _faults(value: object, shape: Any, where: str) -> Iterator[str]:
    kind = shape if isinstance(shape, type) else type(shape)
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        yield f"{where or 'It'} is {_shown(value)}: it has to be {WORDS[kind]}."
    elif isinstance(value, list) and isinstance(shape, list):
        for number, each in enumerate(value):
            yield from _faults(each, shape[0], f"{where}[{number}]")
    elif isinstance(value, dict) and isinstance(shape, dict):
        for name in sorted(value) if "*" in shape else shape:
            if value.get(name) is not None:
                below = shape.get(name, shape.get("*"))
                yield from _faults(value[name], below, f"{where}.{name}".removeprefix("."))


def _shown(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= SHOWN_AT_MOST else f"{text[:SHOWN_AT_MOST]}…"
