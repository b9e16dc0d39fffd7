"""Read filters of a list of tasks from an address: every word that means nothing is a fault with a way out."""

import re
from collections.abc import Collection
from datetime import datetime, time, timedelta

from django.contrib.auth.models import User
from django.http import QueryDict
from django.utils import timezone
from django.utils.dateparse import parse_date, parse_datetime
from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, pgettext_lazy

from cluster import clock
from cluster.models import GpuType, Region
from jobs.filters import GROUPS, LISTED, NEWEST, OPEN, ORDERS, OVER, QUEUE, Filters
from jobs.models import TaskClass
from jobs.scheduling.reasons import SENTENCES
from jobs.states import State
from jobs.values import Fault, not_kept
from quotas import access

NAMES = (
    *("q", "state", "class", "business", "user", "gpu_type", "region", "reason", "tag"),
    *("submitted_from", "submitted_to", "ended_from", "sort"),
)  # of the query
GROUP_WORDS: dict[str, Promise] = {
    OPEN: gettext_lazy("not over"),
    QUEUE: pgettext_lazy("state", "waiting"),
    OVER: gettext_lazy("over"),
}
ME = "me"
NOBODY = 0  # the id of what nothing is called: it finds no task
LONGEST = 255  # characters of a word
MOST = 32  # words of one filter
FIRST_YEAR, LAST_YEAR = 1971, 2999
_SPAN = re.compile(r"([1-9]\d{0,3})([hd])")


def read(query: QueryDict, user: User) -> tuple[Filters, list[Fault]]:
    """Return the filters that an address asks for, among what `user` may see, and what in it means nothing.

    What means nothing narrows nothing; two queries, one more for each of the filters by user, type and region.
    """
    return _Reader(query, user).read()


class _Reader:
    """One address; it gathers the faults."""

    def __init__(self, query: QueryDict, user: User) -> None:
        self._query = query
        self._user = user
        self._faults: list[Fault] = []

    def read(self) -> tuple[Filters, list[Fault]]:
        now = timezone.localtime(clock.now())
        states, order = self._states_in_order()
        found = Filters(
            text=self._text("q"),
            states=states,
            classes=frozenset(self._words("class", TaskClass.values)),
            businesses=self._businesses(),
            user=self._owner(),
            gpu_types=self._gpu_types(),
            regions=self._regions(),
            reasons=frozenset(self._words("reason", SENTENCES)),
            tag=self._text("tag"),
            submitted_from=self._moment("submitted_from", now),
            submitted_to=self._moment("submitted_to", now, end=True),
            ended_from=self._moment("ended_from", now),
            order=order,
        )
        return found, self._faults

    def _refuse(self, name: str, code: str, message: str) -> None:
        self._faults.append(Fault(name, code, message))

    def _given(self, name: str) -> list[str]:
        """Return the values of a filter that is repeated for more than one."""
        return [text for given in self._query.getlist(name)[:MOST] if (text := given.strip())]

    def _listed(self, name: str) -> list[str]:
        """Return the values of a filter, repeated or behind commas."""
        return [text for part in self._given(name) for word in part.split(",") if (text := word.strip())]

    def _single(self, name: str) -> str:
        """Return the value of a filter that has one, blank where there is none; of several the first, and a fault."""
        given = list(dict.fromkeys(self._given(name)))
        if len(given) > 1:
            self._refuse(name, "twice", _("Say this once: which of several holds would be chance."))
        return given[0] if given else ""

    def _words(self, name: str, known: Collection[str]) -> list[str]:
        """Return the words of a filter that are known."""
        given = self._listed(name)
        if not set(given) <= set(known):
            self._refuse(name, "choice", _("Write some of %s.") % ", ".join(known))
        return [word for word in given if word in known]

    def _text(self, name: str) -> str:
        given = self._single(name)
        if len(given) > LONGEST or not_kept(given):
            self._refuse(name, "text", _("Write at most %d printable characters.") % LONGEST)
            return ""
        return given

    def _states(self) -> frozenset[str]:
        words = self._words("state", [*(state.value for state in State), *GROUPS])
        return frozenset(str(state) for word in words for state in GROUPS.get(word, (word,)))

    def _states_in_order(self) -> tuple[frozenset[str], str]:
        """Return states and order; some orders are of the tasks in some states only."""
        states = self._states()
        order = next(iter(self._words("sort", ORDERS)), NEWEST)
        if order not in LISTED:
            return states, order
        group = LISTED[order]
        listed = (states or GROUPS[group]) & GROUPS[group]
        if not listed:
            self._refuse(
                "sort", "state", _("Only tasks of the state “%s” have this order.") % GROUP_WORDS[group]
            )
            return states, NEWEST
        return listed, order

    def _businesses(self) -> tuple[int, ...] | None:
        """Return ids: of those named, else of all that the user sees. One that he does not see finds nothing."""
        named = self._given("business")
        if not named:
            seen = access.ids_seen_by(self._user)
            return seen if seen is None else seen or (NOBODY,)
        # Flags may hold commas: each text is a flag, or several.
        parts = {part.strip() for text in named for part in (text, *text.split(","))}
        flags = [part for part in parts if not not_kept(part)]
        found = access.businesses_seen_by(self._user).filter(flag__in=flags)
        return tuple(found.order_by("pk").values_list("pk", flat=True)) or (NOBODY,)

    def _owner(self) -> int | None:
        name = self._single("user")
        if name in {"", ME}:
            return self._user.pk if name else None
        if not_kept(name):
            return NOBODY
        return User.objects.filter(username=name).values_list("pk", flat=True).first() or NOBODY

    def _gpu_types(self) -> tuple[int, ...]:
        given = self._listed("gpu_type")
        if not given:
            return ()
        known = GpuType.objects.by_name()
        if any(name.casefold() not in known for name in given):
            names = sorted({gpu_type.name for gpu_type in known.values()})
            self._refuse("gpu_type", "choice", _("Write some of %s.") % ", ".join(names))
        return tuple(sorted({known[name.casefold()].pk for name in given if name.casefold() in known}))

    def _regions(self) -> tuple[int, ...]:
        given = self._listed("region")
        if not given:
            return ()
        known = dict(Region.objects.values_list("name", "pk"))
        if not set(given) <= set(known):
            self._refuse("region", "choice", _("Write some of %s.") % ", ".join(known))
        return tuple(sorted({known[name] for name in given if name in known}))

    def _moment(self, name: str, now: datetime, *, end: bool = False) -> datetime | None:
        """Return the first moment that counts, or with `end` the first that is too late."""
        given = self._single(name)
        if not given:
            return None
        try:
            found = _moment(given, now, end)
        except ValueError:  # well formed, but there is no such day
            found = None
        if found is None or not FIRST_YEAR <= found.year <= LAST_YEAR:
            said = _(
                "Write a day such as %(day)s, a time such as %(time)s, today, or 7d or 12h for so long ago."
            )
            sample = {"day": now.date().isoformat(), "time": now.isoformat(timespec="seconds")}
            self._refuse(name, "moment", said % sample)
            return None
        return found


def _moment(given: str, now: datetime, end: bool) -> datetime | None:
    """Read `today`, `7d`, a day, or a time with or without a zone; raises ValueError for what no calendar has."""
    if span := _SPAN.fullmatch(given):
        hours = int(span[1]) * (24 if span[2] == "d" else 1)
        return now - timedelta(hours=hours)
    if day := now.date() if given == "today" else parse_date(given):
        # With the offset of its own day: clocks may have changed since.
        return timezone.make_aware(datetime.combine(day + timedelta(days=end), time()))
    # A plus sign that was not escaped reads as a space.
    found = parse_datetime(given if "T" not in given else given.replace(" ", "+"))
    return timezone.make_aware(found) if found is not None and timezone.is_naive(found) else found
