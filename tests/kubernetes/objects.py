"""The objects of a stand-in API server: versions, history, selectors, deletion in steps, owners."""

import copy
import itertools
import threading
import uuid
from collections import defaultdict
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

JSON = dict[str, Any]
Key = tuple[str, str]  # namespace, name


def now() -> str:
    """Return the time as the API writes it."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class Failure(Exception):
    """An answer that is no success."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        """Keep what is to be answered."""
        super().__init__(message)
        self.status, self.reason, self.message = status, reason, message


class Store:
    """All objects by resource, such as `pods`; used by one thread at a time."""

    def __init__(self) -> None:
        """Be empty."""
        self.lock = threading.RLock()
        self.objects: dict[str, dict[Key, JSON]] = defaultdict(dict)
        # version, kind, object, and what it was before
        self.history: dict[str, list[tuple[int, str, JSON, JSON | None]]] = defaultdict(list)
        self.oldest: dict[str, int] = defaultdict(int)  # what is asked for from before this is expired
        self.version = 100
        self.changed: Callable[[], None] = lambda: None
        self.created: list[tuple[str, JSON]] = []  # as they were sent
        self._uids = (str(uuid.UUID(int=number)) for number in itertools.count(1))

    def compact(self) -> None:
        """Forget the history: a watch that goes on from before has lost its place."""
        with self.lock:
            self.version += 1
            for resource in (*self.objects, "nodes", "pods"):
                self.history[resource] = []
                self.oldest[resource] = self.version

    def get(self, resource: str, key: Key) -> JSON:
        """Return an object as it is."""
        found = self.objects[resource].get(key)
        if found is None:
            raise Failure(404, "NotFound", f'{resource} "{key[1]}" not found')
        return found

    def create(self, resource: str, namespace: str, sent: JSON) -> JSON:
        """Take in a new object."""
        thing = copy.deepcopy(sent)
        self.created.append((resource, sent))
        metadata = thing.setdefault("metadata", {})
        key = (namespace, metadata["name"])
        if key in self.objects[resource]:
            raise Failure(409, "AlreadyExists", f'{resource} "{key[1]}" already exists')
        metadata |= {"uid": next(self._uids), "creationTimestamp": now()}
        if namespace:
            metadata["namespace"] = namespace
        self._write(resource, key, thing, "ADDED")
        return thing

    def update(self, resource: str, key: Key, new: JSON) -> JSON:
        """Put `new` in the place of an object; one that is only held by finalizers goes with the last of them."""
        old = self.get(resource, key)
        new["metadata"] |= {name: old["metadata"][name] for name in ("uid", "creationTimestamp")}
        if _content(new) == _content(old):
            return old
        self._write(resource, key, new, "MODIFIED")
        if new["metadata"].get("deletionTimestamp") and not new["metadata"].get("finalizers"):
            grace = new["metadata"].get("deletionGracePeriodSeconds", 0)
            if not grace:
                self._remove(resource, key)
        return new

    def delete(self, resource: str, key: Key, grace_s: int | None, uid: str = "") -> JSON:
        """Delete an object as the API does: at once, or after its grace, or when nothing holds it any more."""
        thing = copy.deepcopy(self.get(resource, key))
        metadata = thing["metadata"]
        if uid and uid != metadata["uid"]:
            raise Failure(409, "Conflict", f"the uid in the precondition ({uid}) is not {metadata['uid']}")
        grace = _grace(resource, thing, grace_s)
        if before := metadata.get("deletionTimestamp"):
            had = metadata.get("deletionGracePeriodSeconds", 0)
            if grace >= had:
                if not had and not metadata.get("finalizers"):
                    self._remove(resource, key)
                return thing
            asked = datetime.fromisoformat(before) - timedelta(seconds=had)
        else:
            asked = datetime.now(UTC)
        until = (asked + timedelta(seconds=grace)).strftime("%Y-%m-%dT%H:%M:%SZ")
        metadata |= {"deletionTimestamp": until, "deletionGracePeriodSeconds": grace}
        if grace or metadata.get("finalizers"):
            self._write(resource, key, thing, "MODIFIED")
        else:
            self._remove(resource, key)
        return thing

    def _write(self, resource: str, key: Key, thing: JSON, kind: str) -> None:
        self.version += 1
        thing["metadata"]["resourceVersion"] = str(self.version)
        before = self.objects[resource].get(key)
        self.objects[resource][key] = thing
        self.history[resource].append((self.version, kind, copy.deepcopy(thing), before))
        self.changed()

    def _remove(self, resource: str, key: Key) -> None:
        self.version += 1
        before = self.objects[resource].pop(key)
        thing = copy.deepcopy(before)
        thing["metadata"]["resourceVersion"] = str(self.version)
        self.history[resource].append((self.version, "DELETED", thing, before))
        self._collect(thing["metadata"]["uid"])
        self.changed()

    def _collect(self, uid: str) -> None:
        """Delete what belonged to an object that is no more, and to no other."""
        for resource, things in self.objects.items():
            for key, thing in list(things.items()):
                owners = {owner["uid"] for owner in thing["metadata"].get("ownerReferences") or ()}
                living = {one["metadata"]["uid"] for all_ in self.objects.values() for one in all_.values()}
                if uid in owners and not owners & living:
                    self.delete(resource, key, None)


def merge(old: Any, patch: Any) -> Any:
    """Return the merge of RFC 7386."""
    if not isinstance(patch, dict):
        return patch
    found = dict(old) if isinstance(old, dict) else {}
    for name, value in patch.items():
        if value is None:
            found.pop(name, None)
        else:
            found[name] = merge(found.get(name), value)
    return found


def apply_status(old: JSON, sent: JSON) -> JSON:
    """Return an object with the conditions that are applied to it: a list by type, of which others are left alone."""
    status = old.get("status") or {}
    mine = {each["type"]: each for each in sent["status"]["conditions"]}
    there = [each for each in status.get("conditions") or () if each["type"] not in mine]
    return {**old, "status": {**status, "conditions": [*there, *mine.values()]}}


def selected(thing: Mapping[str, Any], labels: str, fields: str) -> bool:
    """Say whether an object is one of those that the selectors mean."""
    known = thing["metadata"].get("labels") or {}
    parts = [part.strip() for part in labels.split(",") if part.strip()]
    return all(_labelled(known, part) for part in parts) and all(
        _fielded(thing, part) for part in fields.split(",") if part
    )


def _labelled(labels: Mapping[str, str], part: str) -> bool:
    if "!=" in part:
        name, value = part.split("!=")
        return labels.get(name) != value
    if "=" in part:
        name, _, value = part.replace("==", "=").partition("=")
        return labels.get(name) == value
    return part[1:] not in labels if part.startswith("!") else part in labels


def _fielded(thing: Mapping[str, Any], part: str) -> bool:
    path, unequal, value = part.partition("!=")
    if not unequal:
        path, _, value = part.replace("==", "=").partition("=")
    found: Any = thing
    for step in path.split("."):
        found = (found or {}).get(step)
    return ((found or "") == value) != bool(unequal)


def _grace(resource: str, thing: Mapping[str, Any], asked: int | None) -> int:
    if resource != "pods" or not thing["spec"].get("nodeName"):
        return 0
    if (thing.get("status") or {}).get("phase") in {"Succeeded", "Failed"}:
        return 0
    return int(thing["spec"].get("terminationGracePeriodSeconds", 30)) if asked is None else asked


def _content(thing: Mapping[str, Any]) -> Mapping[str, Any]:
    metadata = {name: value for name, value in thing["metadata"].items() if name != "resourceVersion"}
    return {**thing, "metadata": metadata}
