"""The config document against the database: whose business, which cards, how much quota."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from cryptography.fernet import InvalidToken
from django.conf import settings
from django.contrib.auth.models import User
from django.utils import timezone
from django.utils.translation import gettext as _

from cluster import clock, vault
from cluster.models import GpuType, Region
from jobs import capacity, document, elsewhere, sources
from jobs.lookups import MOST_NAMED, Lookups, flags_of
from jobs.materials import Code, Dataset
from jobs.models import Priority, Task, TaskClass
from jobs.needs import kind_of
from jobs.values import Fault, Invalid
from quotas.models import Business

__all__ = ["NEVER_CODES", "Config", "Fault", "Invalid", "read", "same_request"]

CLASSES = {True: TaskClass.ELASTIC, False: TaskClass.HIGH, "auto": TaskClass.AUTO}
PRIORITIES = {"low": Priority.LOW, "medium": Priority.MEDIUM, "high": Priority.HIGH}
NEVER_CODES = capacity.CODES  # faults of what this cluster and quota can never give


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """A document that was found good, in the words of the database; `document` is its normal form."""

    business: Business
    user: User
    task_flag: str
    wanted_class: TaskClass
    host_num: int
    host_gpu_num: int
    gpu_types: tuple[GpuType, ...]  # in the order to try
    region: Region | None
    needs: str  # what a host has to offer
    priority: int
    pull_up: bool
    keep_alive: bool
    retry_limit: int
    time_limit_s: int | None
    checkpoint_interval_s: int | None
    not_before: datetime | None
    document: dict[str, Any]
    secrets: dict[str, str]  # by path, such as env.AWS_SECRET
    code: Code | sources.Wanted | None
    dataset: Dataset | sources.Wanted | None


def read(
    given: object,
    *,
    user: User,
    origin: Task | None = None,
    could_ever: bool = True,
    lookups: Lookups | None = None,
    needs: str = "",
) -> Config:
    """Return what a document asks for; raises Invalid with all its faults.

    `origin`: the task that the document was cloned from; its secrets stand in where no value is given.
    `could_ever`: what no host or quota could ever give is a fault, too. `lookups` are shared by many documents.
    `needs`: what hosts have to offer for what no document says how to run; blank: what it says.
    """
    known = lookups or Lookups(user, flags_of([given]))
    if origin is not None and (job := elsewhere.named(origin.config)):
        raise Invalid([Fault("", elsewhere.NOT_HERE, elsewhere.not_here(job))])
    normal = document.normalise(given)
    values, faults = dict(normal.values), list(normal.faults)
    faults += document.required(given) if isinstance(given, dict) else []
    if settings.DEFAULT_IMAGE and not needs:
        values.setdefault("image_full_name", settings.DEFAULT_IMAGE)
    business = _business(values, known, faults)
    region = _region(values, known, faults)
    gpu_types = _gpu_types(values, business, known, faults)
    is_sized = "host_num" in values and "host_gpu_num" in values and (region or "region" not in values)
    if could_ever and business and gpu_types and is_sized:
        ask = _ask(values, region, needs or kind_of(values))
        gpu_types = _possible(ask, gpu_types, values, business, known, faults)
    secrets = _secrets(normal.secrets, user, origin, faults)
    faults += document.leaks(values, secrets | ({"Token": normal.token} if normal.token else {}))
    code = sources.code(values, secrets, business, faults, known.sources) if business else None
    dataset = sources.dataset(values, secrets, business, faults, known.sources) if business else None
    if faults or business is None:
        raise Invalid(faults[: document.MOST_FAULTS])
    if "GPUName" in values:
        values = values | {"GPUName": ",".join(gpu_type.name for gpu_type in gpu_types)}
    found = _config(values, secrets, business=business, user=user, region=region, gpu_types=tuple(gpu_types))
    return replace(found, code=code, dataset=dataset, needs=needs or found.needs)


def default_name(business: Business) -> str:
    """Return the name of a task whose document gives none."""
    # To the microsecond, so that two that come in one second are told apart.
    return f"{business.flag}-{timezone.localtime(clock.now()):%Y%m%d-%H%M%S-%f}"


def same_request(earlier: Task, wanted: Config) -> bool:
    """Say whether a task was asked for in the same words, the values of its secrets too."""
    return bool(earlier.config == wanted.document and _kept(earlier) == wanted.secrets)


def _config(
    values: dict[str, Any],
    secrets: dict[str, str],
    *,
    business: Business,
    user: User,
    region: Region | None,
    gpu_types: tuple[GpuType, ...],
) -> Config:
    not_before = values.get("not_before")
    return Config(
        business=business,
        user=user,
        task_flag=values.get("task_flag") or default_name(business),
        wanted_class=CLASSES[values["is_elasticity"]],
        host_num=values["host_num"],
        host_gpu_num=values["host_gpu_num"],
        gpu_types=gpu_types,
        region=region,
        needs=kind_of(values),
        priority=PRIORITIES[values["priority"]],
        pull_up=values["enable_evicted_pulled_up"],
        keep_alive=values["keep_alive"],
        retry_limit=values["retry_limit"],
        time_limit_s=values.get("time_limit"),
        checkpoint_interval_s=values.get("checkpoint_interval"),
        not_before=datetime.fromisoformat(not_before) if not_before else None,
        document=values,
        secrets=secrets,
        code=None,
        dataset=None,
    )


def _ask(values: Mapping[str, Any], region: Region | None, needs: str) -> capacity.Ask:
    return capacity.Ask(
        host_num=values["host_num"],
        host_gpu_num=values["host_gpu_num"],
        region=region,
        needs=needs,
        high=values.get("is_elasticity") is False,
    )


def _business(values: Mapping[str, Any], known: Lookups, faults: list[Fault]) -> Business | None:
    flag = values.get("business_flag")
    if flag is None:
        return None
    found = known.businesses.get(flag)
    if found is None:
        # The same words for one that doesn't exist and one of others: nobody learns who else is here.
        message = _("You belong to no business of this name; yours: %s.")
        faults.append(Fault("business_flag", "unknown", message % _list(known.own_flags)))
    return found


def _region(values: Mapping[str, Any], known: Lookups, faults: list[Fault]) -> Region | None:
    name = values.get("region")
    if name is None:
        return None
    regions = known.regions
    folded = {one.casefold(): region for one, region in regions.items()}
    found = regions.get(name) or folded.get(name.casefold())
    if found is None:
        faults.append(Fault("region", "unknown", _("There is no such region; known: %s.") % _list(regions)))
    return found


def _gpu_types(
    values: Mapping[str, Any], business: Business | None, lookups: Lookups, faults: list[Fault]
) -> list[GpuType]:
    """Return the types in the order to try: those named, else the business's defaults."""
    if "GPUName" not in values:
        asked = business is not None and not _faulty("GPUName", faults)
        return _default_types(business, lookups, faults) if business and asked else []
    given = values["GPUName"].split(",")
    known = lookups.gpu_types(name.casefold() for name in given)
    wanted = [(name, known.get(name.casefold())) for name in given]
    strange = [name for name, found in wanted if found is None]
    if strange:
        message = _("Unknown GPU type: %(names)s. Known: %(known)s.")
        listed = _list(sorted({gpu_type.name for gpu_type in known.values()}))
        faults.append(Fault("GPUName", "unknown", message % {"names": _list(strange), "known": listed}))
        return []
    return list({found.pk: found for _name, found in wanted if found}.values())


def _possible(
    ask: capacity.Ask,
    gpu_types: list[GpuType],
    values: Mapping[str, Any],
    business: Business,
    lookups: Lookups,
    faults: list[Fault],
) -> list[GpuType]:
    """Return the types, as they are now where it is a fault that `ask` can never be met with those of a moment ago."""
    never = capacity.faults(ask, gpu_types, business, fleet=lookups.fleet, quotas=lookups.quotas)
    if never and lookups.look_at_types_anew():
        gpu_types = _gpu_types(values, business, lookups, faults)
        never = capacity.faults(ask, gpu_types, business, fleet=lookups.fleet, quotas=lookups.quotas)
    faults += never if gpu_types else []
    return gpu_types


def _default_types(business: Business, lookups: Lookups, faults: list[Fault]) -> list[GpuType]:
    found = lookups.default_types(business)
    if not found:
        known = _list(sorted({gpu_type.name for gpu_type in lookups.gpu_types(()).values()}))
        message = _("Business %(flag)s has no default GPU type; name one or several here: %(known)s.")
        faults.append(Fault("GPUName", "required", message % {"flag": business.flag, "known": known}))
    return found


def _faulty(name: str, faults: list[Fault]) -> bool:
    return any(fault.field == name for fault in faults)


def _secrets(
    given: Mapping[str, str | None], user: User, origin: Task | None, faults: list[Fault]
) -> dict[str, str]:
    """Return every secret; one named without a value is the origin's, which only its owner may carry on."""
    secrets = {path: value for path, value in given.items() if value is not None}
    missing = [path for path in given if path not in secrets]
    kept = _kept(origin) if missing and origin and origin.user_id == user.pk else {}
    secrets |= {path: kept[path] for path in missing if path in kept}
    if unknown := [path for path in missing if path not in kept]:
        message = _("Give the value of this secret: only its owner's own copies of a task keep it.")
        faults += [Fault(path, "required", message) for path in unknown]
    return secrets


def _kept(task: Task) -> dict[str, str]:
    """Return the secrets of a task; none where the present keys cannot read them, so that they are asked for."""
    try:
        return vault.unseal(task.secrets)
    except InvalidToken:
        return {}


def _list(names: Sequence[str] | Any) -> str:
    found = list(names)
    more = ", …" if len(found) > MOST_NAMED else ""
    return (", ".join(found[:MOST_NAMED]) + more) or _("none")
