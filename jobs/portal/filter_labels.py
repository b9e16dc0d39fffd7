"""What the filters of the list are called on pages, and the reasons to wait among which one of them chooses."""

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from jobs.values import Fault

LABELS: dict[str, Promise] = {
    "q": _("Name or number"),
    "state": _("State"),
    "sort": _("Order"),
    "class": _("Class"),
    "business": _("Business"),
    "user": _("User"),
    "gpu_type": _("GPU type"),
    "region": _("Region"),
    "reason": _("Waits because"),
    "tag": _("Tag"),
    "submitted_from": _("Submitted from"),
    "submitted_to": _("Submitted to"),
    "ended_from": _("Ended"),
}
REASONS: dict[str, Promise] = {  # of jobs/scheduling/reasons.py, without their numbers
    "hold": _("held by its owner"),
    "dependency": _("other tasks come first"),
    "not_before": _("not to start yet"),
    "backoff": _("a pause before it starts again"),
    "no_quota": _("no quota for these types"),
    "quota": _("quota used up"),
    "quota_over": _("quota was lowered under what is used"),
    "quota_region": _("quota left in other regions only"),
    "quota_kept": _("quota kept for an older task"),
    "elastic_cap": _("limit of elastic tasks reached"),
    "cap_kept": _("limit of elastic tasks kept for an older task"),
    "too_large": _("no host is big enough"),
    "no_host": _("hosts that are big enough take no starts"),
    "no_container": _("no host runs containers"),
    "no_process": _("no host runs plain processes"),
    "no_ceph": _("no host mounts its ceph"),
    "no_mpijob": _("no cluster runs MPIJobs of people"),
    "storage_away": _("the storage of its hosts is away"),
    "no_cards": _("too few free cards on one host"),
    "no_cards_gang": _("too few hosts with free cards"),
    "no_room": _("nothing to evict makes room on one host"),
    "no_room_gang": _("nothing to evict makes room on enough hosts"),
    "held_for": _("free cards are held for others"),
    "reserved": _("cards are reserved"),
    "refused": _("larger than the cluster"),
    "time_limit": _("stopped at its time limit"),
    "evict_delay": _("evicts after a delay"),
    "leaving": _("its cards are being cleared"),
    "behind": _("behind the first in line"),
    "kept_for_head": _("cards kept for the first in line"),
}


def said(fault: Fault) -> str:
    """Return a fault of an address as a person is told of it."""
    return f"{LABELS.get(fault.field, fault.field)}: {fault.message}"
