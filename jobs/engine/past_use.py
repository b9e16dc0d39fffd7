"""What elastic attempts used until now, decayed: the sum up to some time is kept, so that a pass adds up few rows."""

from collections import defaultdict
from collections.abc import Iterable
from datetime import UTC, datetime
from math import exp, log

from django.db import transaction
from django.db.models import F, FloatField, Sum
from django.db.models.functions import Exp

from jobs.engine import lease
from jobs.engine.epoch import Epoch
from jobs.models import PastUse, TaskClass
from jobs.scheduling import types
from quotas.models import UsageRow

HALF_LIVES = 10  # what is older than so many is left out when all is summed up: under a thousandth of it
SETTLED_S = 3600.0  # a usage row is committed, and seen by everybody, sooner than this after it was dated
KEEP_EVERY_S = 3600.0  # the kept sum moves up as often as this
LEAST_CARD_S = 0.001  # less than this of a user who stopped long ago is forgotten

Sums = dict[tuple[int, int], float]  # business, user → card-seconds


def read(now: float, half_life_s: float) -> Iterable[types.Usage]:
    """Give the card-seconds of each user who has some, decayed to `now`; exact for the half-life at hand."""
    for (business, user), card_s in sorted(_sums(now, half_life_s).items()):
        yield types.Usage(business=business, user=user, card_s=card_s)


def keep(now: float, half_life_s: float, fence: int) -> None:
    """Move the kept sum up to an hour ago where it is older than two hours, or was made for another half-life.

    Raises lease.StaleHolder.
    """
    through = now - SETTLED_S
    recent = (_at(through - KEEP_EVERY_S), _at(through))
    if PastUse.objects.filter(pk=1, half_life_s=half_life_s, through__range=recent).exists():
        return
    sums = _sums(through, half_life_s)
    kept = [[*key, card_s] for key, card_s in sorted(sums.items()) if card_s >= LEAST_CARD_S]
    with transaction.atomic():
        lease.guard(fence)
        values = {"through": _at(through), "half_life_s": half_life_s, "sums": kept}
        PastUse.objects.update_or_create(pk=1, defaults=values)


def _sums(at: float, half_life_s: float) -> Sums:
    """Sum up what ended until `at` (seconds since the epoch), decayed to then."""
    fade = log(2) / half_life_s
    sums: Sums = defaultdict(float)
    since = at - HALF_LIVES * half_life_s
    kept = PastUse.objects.filter(pk=1, half_life_s=half_life_s, through__lte=_at(at)).first()
    if kept is not None:
        since = kept.through.timestamp()
        left = exp(-fade * (at - since))
        sums |= {(business, user): card_s * left for business, user, card_s in kept.sums}
    rows = UsageRow.objects.filter(
        task_class=TaskClass.ELASTIC, ended_at__gt=_at(max(0.0, since)), ended_at__lte=_at(at)
    ).order_by()
    decayed = F("cards") * F("seconds") * Exp((Epoch(F("ended_at")) - at) * fade)
    found = rows.values_list("business_id", "user_id").annotate(
        card_s=Sum(decayed, output_field=FloatField())
    )
    for business, user, card_s in found:
        sums[business, user] += card_s
    return sums


def _at(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, tz=UTC)
