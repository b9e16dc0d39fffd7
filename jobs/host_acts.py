"""What operators do to hosts, written into the audit together with the move."""

from django.contrib.auth.models import User
from django.db import transaction

from cluster import host_moves
from cluster.models import Host
from quotas import audit


def act(host: Host, verb: str, *, by: User, reason: str) -> None:
    """Do what an operator asks of the host as he sees it; raises host_moves.Refused where its state forbids it."""
    with transaction.atomic():
        host_moves.act(host, verb, actor_id=by.pk, reason=reason)
        audit.note(f"host.{verb}", by=by, on=host, reason=reason)
