"""Uploads of code: taken from members of a business, kept as long as a live or recent task may need them."""

from collections.abc import Callable
from datetime import datetime, timedelta

from django.conf import settings
from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import Q, Sum

from cluster import bundles, clock
from jobs.materials import Code, Upload
from jobs.models import Task, Template
from jobs.source_fields import DIGEST
from jobs.states import TERMINAL
from quotas import audit
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
        Upload.objects.filter(pk=found.pk).update(used_at=clock.now())
    return found


def receive(business: Business, user: User, digest: str, read: Callable[[int], bytes]) -> Upload:
    """Keep what `read` gives as packed code of the business.

    Raises Full, or what bundles.received raises; then nothing was kept. What others sent under the same digest is not
    shown to be there: it has to be sent again, which proves that the sender has it.
    """
    room = _room(business, digest)
    most = settings.UPLOAD_MIB * MIB
    if room <= 0:
        raise Full
    try:
        with bundles.received(digest, read, min(most, room)) as came, bundles.locked():
            # Looked at once more: others of the business may have been sent meanwhile, and from here on none is.
            if came.size > _room(business, digest):
                raise Full
            came.keep()
            values = {"size": came.size, "user": user, "used_at": clock.now()}
            with transaction.atomic():
                upload, _new = Upload.objects.update_or_create(
                    business=business, digest=digest, defaults=values
                )
                audit.note("upload.sent", by=user, on=upload, business=business.flag, size=came.size)
            return upload
    except bundles.TooLarge:
        if room < most:
            raise Full from None
        raise


def _room(business: Business, digest: str) -> int:
    """Return how many bytes the business may still upload as `digest`."""
    others = Upload.objects.filter(business=business).exclude(digest=digest)
    return settings.UPLOADS_MIB * MIB - int(others.aggregate(all=Sum("size"))["all"] or 0)


def collect(now: datetime) -> int:
    """Forget the uploads that no live or recent task and no template needs, and nobody used lately; return how many.

    Their bytes go with them.
    """
    before = now - timedelta(days=settings.UPLOAD_KEEP_DAYS)
    needed = Task.objects.filter(code__kind=Code.Kind.UPLOAD).exclude(
        Q(state__in=TERMINAL) & Q(ended_at__lt=before)
    )
    keys = set(needed.values_list("business_id", "code__params__digest").distinct())
    named = _named_by_templates()
    with bundles.locked():
        old = Upload.objects.filter(used_at__lt=before).values_list("pk", "business_id", "digest")
        unneeded = [
            pk for pk, business, digest in old if (business, digest) not in keys and digest not in named
        ]
        Upload.objects.filter(pk__in=unneeded, used_at__lt=before).delete()
        kept = Upload.objects.values_list("digest", flat=True)
        bundles.remove_others(kept, (now - DRAFT_AGE).timestamp())
    return len(unneeded)


def _named_by_templates() -> set[str]:
    """Return the digests that templates name, by themselves or by the number of known code."""
    configs = [one for one in Template.objects.values_list("config", flat=True) if isinstance(one, dict)]
    numbers = {str(config.get("model_id", "")) for config in configs}
    known = Code.objects.filter(kind=Code.Kind.UPLOAD).values_list("pk", "params__digest")
    named = {str(config.get("upload", "")).lower().removeprefix(DIGEST) for config in configs}
    return named | {digest for pk, digest in known.iterator() if str(pk) in numbers}
