"""Where the code and the data of a task come from: read from its document, and written for its hosts."""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar
from urllib.parse import quote, urlsplit

from django.conf import settings
from django.contrib.auth.models import User
from django.utils.crypto import salted_hmac
from django.utils.translation import gettext as _

from cluster import vault
from jobs import uploads
from jobs.materials import Code, Dataset, Source
from jobs.source_fields import DIGEST
from jobs.values import Fault
from quotas.models import Business

SourceT = TypeVar("SourceT", bound=Source)
TOKEN = "model_params.path_info.private_token"


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """A source that a document describes; `secrets` as cluster/secret_specs.py places them in a spec."""

    name: str
    params: dict[str, Any]
    secrets: dict[str, str] = field(default_factory=dict)
    kind: str = ""


Found = dict[tuple[Any, ...], Any]  # what documents of one request named, looked up once


def code(
    values: Mapping[str, Any],
    secrets: Mapping[str, str],
    business: Business,
    faults: list[Fault],
    seen: Found,
) -> Code | Wanted | None:
    """Return the code that a document names: known, to be known, or none."""
    if "model_id" in values:
        found = _known(Code, "model_id", values, business, faults, seen)
        if found:
            faults += _once(seen, ("faults", found.pk), lambda: list(_faults_of(found)))
        return found
    if "model_params" in values:
        return _git(values["model_params"], secrets, faults)
    if "upload" not in values:
        return None
    digest = str(values["upload"]).removeprefix(DIGEST)
    if not _once(seen, ("upload", business.pk, digest), lambda: uploads.find(business, digest)):
        faults.append(Fault("upload", "unknown", _not_there()))
        return None
    name = str(values.get("model_local_file_path", "")).rstrip("/").rpartition("/")[2]
    return Wanted(kind=Code.Kind.UPLOAD, name=name[:255], params={"digest": digest})


def dataset(
    values: Mapping[str, Any],
    secrets: Mapping[str, str],
    business: Business,
    faults: list[Fault],
    seen: Found,
) -> Dataset | Wanted | None:
    """Return the dataset that a document names: known, to be known, or none."""
    if "dataset_id" in values:
        return _known(Dataset, "dataset_id", values, business, faults, seen)
    if "dataset_params" not in values:
        return None
    given = values["dataset_params"]
    mounts = [
        {
            "kind": "ceph",
            "addr": mount["addr"],
            "name": mount["name"],
            "src": mount["src_path"],
            "dst": mount["dst_path"],
        }
        for mount in given["ceph_info"]
    ]
    paths = {
        f"data.{place}.secret": f"dataset_params.ceph_info.{place}.secret" for place in range(len(mounts))
    }
    return Wanted(
        name=given.get("dataset_name", ""),
        params={"mounts": mounts},
        secrets={to: secrets[path] for to, path in paths.items() if path in secrets},
    )


def keep(
    model: type[SourceT], wanted: SourceT | Wanted | None, business: Business, user: User, seen: Found
) -> SourceT | None:
    """Return the row of a source, made where the business does not know it yet; `seen` are those kept just now."""
    if not isinstance(wanted, Wanted):
        return wanted
    mark = _fingerprint(wanted)
    values: dict[str, Any] = {"user": user, "name": wanted.name, "params": wanted.params}
    values |= {"secrets": vault.seal(wanted.secrets)} | ({"kind": wanted.kind} if wanted.kind else {})
    row: SourceT = _once(
        seen,
        (model, business.pk, mark),
        lambda: model._default_manager.get_or_create(business=business, fingerprint=mark, defaults=values)[0],
    )
    return row


def keep_all(
    model: type[SourceT], asked: Iterable[tuple[SourceT | Wanted | None, Business, User]], seen: Found
) -> None:
    """Keep several in one order, whoever asks for them: else two at once could wait for each other for ever."""
    wanted = [(one, business, user) for one, business, user in asked if isinstance(one, Wanted)]
    for one, business, user in sorted(wanted, key=lambda each: (each[1].pk, _fingerprint(each[0]))):
        keep(model, one, business, user, seen)


def _fingerprint(wanted: Wanted) -> str:
    said = [wanted.kind, wanted.name, wanted.params, wanted.secrets]
    return salted_hmac("source", json.dumps(said, sort_keys=True), algorithm="sha256").hexdigest()


def _once(seen: Found, key: tuple[Any, ...], find: Callable[[], Any]) -> Any:
    if key not in seen:
        seen[key] = find()
    return seen[key]


def _known(
    model: type[SourceT],
    name: str,
    values: Mapping[str, Any],
    business: Business,
    faults: list[Fault],
    seen: Found,
) -> SourceT | None:
    pk = int(values[name])
    known = model._default_manager.filter(pk=pk, business=business)
    found: SourceT | None = _once(seen, (name, business.pk, pk), known.first)
    if found is None:
        faults.append(Fault(name, "unknown", _("The business knows nothing of this number.")))
    return found


def _faults_of(known: Code) -> Iterable[Fault]:
    """Say why known code cannot be had any more."""
    if known.kind == Code.Kind.UPLOAD and not uploads.find(known.business, known.params["digest"]):
        yield Fault("model_id", "unknown", _not_there())
    if known.kind == Code.Kind.GIT and not any(
        known.params["url"].startswith(p) for p in settings.GIT_PREFIXES
    ):
        yield Fault("model_id", "host", _not_allowed())


def _not_there() -> str:
    return _("This code is not there (any more): upload it again.")


def _not_allowed() -> str:
    hosts = ", ".join(map(_host, settings.GIT_PREFIXES)) or _("none")
    return _("Operators allow code from these git hosts (TAIJI_GIT): %s.") % hosts


def _host(prefix: str) -> str:
    return prefix.partition("://")[2].rstrip("/")


def _git(given: Mapping[str, Any], secrets: Mapping[str, str], faults: list[Fault]) -> Wanted | None:
    place = given["path_info"]
    asked = str(place.get("host", "")).partition("://")[2] or str(place.get("host", ""))
    asked = asked.rstrip("/").casefold()
    # The first host is meant where none is named: the document's own words know only one.
    fitting = [
        prefix
        for prefix in settings.GIT_PREFIXES
        if asked in {"", _host(prefix).casefold(), urlsplit(prefix).netloc.casefold()}
    ]
    if not fitting:
        faults.append(Fault("model_params.path_info.host", "host", _not_allowed()))
        return None
    names = "/".join(quote(part) for part in (*place["group"].split("/"), place["project"]))
    params = {"url": f"{fitting[0]}{names}.git"}
    params |= {"commit": place["commit_id"]} if "commit_id" in place else {"branch": place.get("branch", "")}
    token = {"code.token": secrets[TOKEN]} if TOKEN in secrets else {}
    return Wanted(kind=Code.Kind.GIT, name=given.get("model_name", ""), params=params, secrets=token)
