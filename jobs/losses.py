"""What an attempt that did not end well cost: the card-hours of work that are lost with it, as far as is known."""

from datetime import timedelta

from django.utils.formats import number_format
from django.utils.translation import gettext as _

from jobs.durations import hms
from jobs.models import Attempt, Task

LEAST = 36  # card-seconds: less would read as 0.00 card-hours
COUNTS = frozenset({Attempt.Outcome.EVICTED, Attempt.Outcome.FAILED, Attempt.Outcome.LOST})


def said(attempt: Attempt, task: Task) -> str:
    """Return what was lost in a sentence; blank where nothing counts as lost, or the attempt still works.

    The work is counted as the pass does when it looks for the least lost work: from the cards' start on, in
    multiples of the checkpoint interval.
    """
    if (attempt.outcome or attempt.ending) not in COUNTS:
        return ""
    end = attempt.ending_at or attempt.ended_at
    if end is None:
        return ""
    worked = max(end - attempt.created_at, timedelta()).total_seconds()
    interval = task.checkpoint_interval_s
    if interval is None:
        if attempt.cards * worked < LEAST:
            return ""
        return _("At most %(hours)s card-hours of work are lost: it names no checkpoint_interval.") % {
            "hours": _hours(attempt.cards * worked)
        }
    if interval == 0:
        return _("No work is lost: it saves all the time.")
    lost = attempt.cards * (worked % interval)
    if lost < LEAST:
        return _("Next to no work is lost: it saves each %(each)s.") % {
            "each": hms(timedelta(seconds=interval))
        }
    return _("About %(hours)s card-hours of work since its last checkpoint are lost (one each %(each)s).") % {
        "hours": _hours(lost),
        "each": hms(timedelta(seconds=interval)),
    }


def _hours(card_seconds: float) -> str:
    return number_format(card_seconds / 3600, 2)
