"""The commit of a gang: its first member chooses it, the others are told and follow."""

from collections.abc import Collection, Mapping
from typing import Any

from django.db import transaction

from cluster import hints
from cluster.models import Instance


def follows(spec: Mapping[str, Any]) -> bool:
    """Say whether the member with this spec runs the commit that the first member of its gang chose."""
    code = spec.get("code") or {}
    return code.get("follow") is True and not code.get("commit")


def chosen(gangs: Collection[int]) -> dict[int, str]:
    """Return the commits by gang, of those that have one; one query, none for no gangs."""
    if not gangs:
        return {}
    first = Instance.objects.filter(gang__in=gangs, rank=0).exclude(commit="")
    return dict(first.values_list("gang", "commit"))


def told(spec: Mapping[str, Any], commit: str) -> Mapping[str, Any]:
    """Return the spec with the commit of its gang."""
    return {**spec, "code": {**spec["code"], "commit": commit}} if commit else spec


def tell(gangs: Collection[int]) -> None:
    """Tell the hosts of these gangs, once the transaction at hand is committed."""
    if gangs:
        transaction.on_commit(lambda: _tell(gangs))


def _tell(gangs: Collection[int]) -> None:
    hosts = Instance.objects.filter(gang__in=gangs).exclude(rank=0).values_list("host", flat=True)
    hints.publish(*(hints.host_topic(host) for host in sorted(set(hosts))))
