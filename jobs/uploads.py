"""Uploads of code: taken from members of a business, kept as long as a live or recent task may need them."""

from collections.abc import Callable
from datetime import datetime, timedelta

from django.conf import settings
from django.contrib.auth.models import User
from django.db.models import Q, Sum
from django.utils import timezone

from cluster import bundles
from jobs.materials import Code, Upload
from jobs.models import Task
from jobs.states import TERMINAL
from quotas.models import Business

MIB = 2**20
DRAFT_AGE = timedelta(days=1)  # of what was being written when its process died


class Full(Exception):
    """The business has as much uploaded as it may."""


def find(business: Business, digest: str) -> Upload | None:
    """Return the upload of a business if it is there whole, and keep it for the usual time from now on."""
    with bundles.locked():
        found = Upload.objects.filter(business=business, digest=digest).first()
        if found is None or not bundles.path_of(digest).exists():
            return None
        Upload.objects.filter(pk=found.pk).update(used_at=timezone.now())
    return found


def receive(business: Business, user: User, digest: str, read: Callable[[int], bytes]) -> Upload:
    """Keep what `read` gives as packed code of the business.

    Raises Full, or what bundles.keep raises; then nothing was kept. What others sent under the same digest is not
    shown to be there: it has to be sent again, which proves that the sender has it.
    """
    room = settings.UPLOADS_MIB * MIB - _used(business)
    most = settings.UPLOAD_MIB * MIB
    if room <= 0:
        raise Full
    try:
        size = bundles.keep(digest, read, min(most, room))
    except bundles.TooLarge:
        if room < most:
            raise Full from None
        raise
    with bundles.locked():
        if not bundles.path_of(digest).exists():
            raise bundles.NoSpace  # collected in the instant between; nobody may believe that it is there
        values = {"size": size, "user": user, "used_at": timezone.now()}
        return Upload.objects.update_or_create(business=business, digest=digest, defaults=values)[0]


def _used(business: Business) -> int:
    return int(Upload.objects.filter(business=business).aggregate(all=Sum("size"))["all"] or 0)


def collect(now: datetime) -> int:
    """Forget the uploads that no live task needs and nobody used lately, and remove their bytes; return how many."""
    before = now - timedelta(days=settings.UPLOAD_KEEP_DAYS)
    needed = Task.objects.filter(code__kind=Code.Kind.UPLOAD).exclude(
        Q(state__in=TERMINAL) & Q(ended_at__lt=before)
    )
    keys = set(needed.values_list("business_id", "code__params__digest").distinct())
    with bundles.locked():
        old = Upload.objects.filter(used_at__lt=before).values_list("pk", "business_id", "digest")
        unneeded = [pk for pk, business, digest in old if (business, digest) not in keys]
        Upload.objects.filter(pk__in=unneeded, used_at__lt=before).delete()
        kept = Upload.objects.values_list("digest", flat=True)
        bundles.remove_others(kept, (now - DRAFT_AGE).timestamp())
    return len(unneeded)
