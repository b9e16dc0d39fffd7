"""What a change would change, as it is now: kept with the question, and looked at again before the change is made."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from django.contrib.auth.models import User
from django.db import transaction

from cluster import hints
from cluster.models import GpuType, Host, Region
from jobs import host_acts
from jobs.models import Policy
from jobs.simulation.what_if import Change, QuotaChange
from quotas import audit
from quotas.models import Business, Quota

Base = dict[str, dict[str, Any]]  # of quotas, policy and hosts: a key for each thing, and what it is now


class Changed(Exception):
    """What a change was tried against is not as it was any more; `what` names it: (kind, key, then, now).

    Kind "gone" is a quota whose business, type or region was deleted.
    """

    def __init__(self, what: list[tuple[str, str, Any, Any]]) -> None:
        """Keep what differs."""
        super().__init__("the base changed")
        self.what = what


@dataclass(frozen=True, slots=True, kw_only=True)
class Applied:
    """What was written."""

    quotas: int
    policy: int
    hosts: int
    left_out: int  # hosts that would have to be bought: they register themselves


def base_of(change: Change, *, lock: bool = False) -> Base:
    """Return what the change would change; `lock`: keep others from changing it until the transaction ends."""
    return {
        "quotas": {quota_key(row): _cards(row, lock) for row in change.quotas},
        "policy": {key: _policy(lock).get(key) for key in sorted(change.policy)},
        "hosts": {str(pk): state for pk, state in _states(change, lock)},
    }


def quota_key(row: QuotaChange) -> str:
    """Return the name of a quota in a base."""
    return f"{row.business}/{row.gpu_type}/{row.region or ''}"


def _quota(row: QuotaChange) -> Any:
    rows = Quota.objects.filter(business=row.business, gpu_type=row.gpu_type, region=row.region)
    return rows.order_by("pk")  # the order of its model joins other tables, whose rows would be locked too


def _cards(row: QuotaChange, lock: bool) -> int | None:
    """Return the cards of a quota; None where there is no such row."""
    rows = _quota(row)
    found: int | None = (rows.select_for_update() if lock else rows).values_list("cards", flat=True).first()
    return found


def _policy(lock: bool) -> dict[str, Any]:
    rows = Policy.objects.filter(pk=1)
    return (rows.select_for_update() if lock else rows).values_list("values", flat=True).first() or {}


def _states(change: Change, lock: bool) -> Iterator[tuple[int, str]]:
    rows = Host.objects.filter(pk__in=[row.host for row in change.hosts]).order_by("pk")
    yield from (rows.select_for_update() if lock else rows).values_list("pk", "state")


def differences(then: Base, now: Base) -> list[tuple[str, str, Any, Any]]:
    """Return what is not as it was: (kind, key, then, now)."""
    return [
        (kind, key, then[kind].get(key), now[kind].get(key))
        for kind in ("quotas", "policy", "hosts")
        for key in sorted(then[kind].keys() | now[kind].keys())
        if then[kind].get(key) != now[kind].get(key)
    ]


def _gone(change: Change) -> list[tuple[str, str, Any, Any]]:
    """Return the quotas that can be written no more; what the others need is kept from being deleted meanwhile."""
    there = {
        model: set(rows.order_by("pk").select_for_update().values_list("pk", flat=True))
        for model, rows in (
            (Business, Business.objects.filter(pk__in=[row.business for row in change.quotas])),
            (GpuType, GpuType.objects.filter(pk__in=[row.gpu_type for row in change.quotas])),
            (Region, Region.objects.filter(pk__in=[row.region for row in change.quotas if row.region])),
        )
    }
    return [
        ("gone", quota_key(row), None, None)
        for row in change.quotas
        if row.business not in there[Business]
        or row.gpu_type not in there[GpuType]
        or (row.region is not None and row.region not in there[Region])
    ]


def apply(change: Change, base: Base, user: User, reason: str) -> Applied:
    """Write the change as the admin would, with who and why; all of it or nothing.

    Raises Changed where what it was tried against is not so any more, and host_moves.Refused where a host may not
    be moved so.
    """
    with transaction.atomic():
        if what := _gone(change) or differences(base, base_of(change, lock=True)):
            raise Changed(what)
        for row in change.quotas:
            _write_quota(row, user, reason)
        if change.policy:
            _write_policy(change, user, reason)
        for move in change.hosts:
            host_acts.act(Host.objects.get(pk=move.host), move.verb, by=user, reason=reason)
        transaction.on_commit(hints.wake_pass)
    return Applied(
        quotas=len(change.quotas),
        policy=len(change.policy),
        hosts=len(change.hosts),
        left_out=sum(row.hosts for row in change.added),
    )


def _write_quota(row: QuotaChange, user: User, reason: str) -> None:
    keys = {"business_id": row.business, "gpu_type_id": row.gpu_type, "region_id": row.region}
    quota = _quota(row).first() or Quota(**keys)
    quota.cards = row.cards
    _save(quota, user, reason)


def _write_policy(change: Change, user: User, reason: str) -> None:
    policy = Policy.objects.get_or_create(pk=1)[0]
    values = {**policy.values, **change.policy}
    policy.values = {key: value for key, value in values.items() if value is not None}
    _save(policy, user, reason)


def _save(row: Quota | Policy, user: User, reason: str) -> None:
    """Save with what the history keeps."""
    row._change_reason = reason  # type: ignore[union-attr]  # of simple_history
    row._history_user = user  # type: ignore[union-attr]
    row.save()
    audit.note(f"{row._meta.model_name}.changed", by=user, on=row, reason=reason)
