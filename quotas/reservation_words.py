"""When a reservation holds, in words of the reader's language; moments are those of the time zone at hand."""

from collections.abc import Iterator
from datetime import datetime

from django.utils import timezone
from django.utils.formats import date_format
from django.utils.translation import gettext as _

from quotas.windows import Rule


def when(rule: Rule, weekday: str = "") -> str:
    """Return when a rule holds; `weekday` is what the day is called on which a weekly window begins."""
    if rule.kind == "once" and rule.starts_at and rule.ends_at:
        return f"{_moment(rule.starts_at)} – {_moment(rule.ends_at)}"
    return ", ".join([_window(rule, weekday) if rule.kind == "weekly" else _("always"), *_bounds(rule)])


def _window(rule: Rule, weekday: str) -> str:
    if not rule.from_time or not rule.to_time:
        return ""
    begin, end = (f"{each:%H:%M}" for each in (rule.from_time, rule.to_time))
    words = {"weekday": weekday, "begin": begin, "end": end, "zone": rule.zone}
    if rule.to_time <= rule.from_time:
        return _("each %(weekday)s %(begin)s to %(end)s of the next day (%(zone)s)") % words
    return _("each %(weekday)s %(begin)s to %(end)s (%(zone)s)") % words


def _bounds(rule: Rule) -> Iterator[str]:
    if rule.starts_at:
        yield _("from %(at)s on") % {"at": _moment(rule.starts_at)}
    if rule.ends_at:
        yield _("until %(at)s") % {"at": _moment(rule.ends_at)}


def _moment(at: datetime) -> str:
    return date_format(timezone.localtime(at), "Y-m-d H:i")
