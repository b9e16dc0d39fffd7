"""Filters of the list of tasks that somebody keeps under a name: what they are reduced to, and what is refused."""

from urllib.parse import urlencode

from django.contrib.auth.models import User
from django.db import transaction
from django.http import QueryDict
from django.utils.translation import gettext as _

from jobs import filter_words
from jobs.filters import NEWEST
from jobs.models import SavedView
from jobs.values import Fault, bad_character, not_kept
from quotas import audit

MOST = 20  # views of one user
LONGEST_NAME = 40
LONGEST_QUERY = 2000


def plain(query: QueryDict) -> str:
    """Return the filters of an address in a fixed order, without blanks, pages and what is no filter."""
    pairs = [
        (name, text)
        for name in filter_words.NAMES
        for given in query.getlist(name)
        if (text := given.strip()) and (name, text) != ("sort", NEWEST)
    ]
    return urlencode(pairs)


def fault(user: User, name: str, query: str) -> Fault | None:
    """Return why `user` cannot keep these filters under this name."""
    bad = bad_character(name, lines=False)
    if not 0 < len(name) <= LONGEST_NAME or (bad and not _is_there(user, name)):
        message = _("Name: write 1 to %(most)d printable characters.") % {"most": LONGEST_NAME}
        return Fault("name", "character" if bad else "length", message)
    if not query or len(query) > LONGEST_QUERY:
        message = _("Filters: set at least one, and fewer words than these; then save the view.")
        return Fault("query", "length", message)
    others = SavedView.objects.filter(user=user).exclude(name=name)
    if others.count() >= MOST:
        return Fault(
            "name", "too_many", _("Name: you have %(most)d views; remove one first.") % {"most": MOST}
        )
    return None


def _is_there(user: User, name: str) -> bool:
    return not not_kept(name) and SavedView.objects.filter(user=user, name=name).exists()


def keep(user: User, name: str, query: str) -> SavedView:
    """Keep filters under a name of the user's; a name that is there gets the new ones."""
    with transaction.atomic():
        view, _made = SavedView.objects.update_or_create(user=user, name=name, defaults={"query": query})
        audit.note("view.saved", by=user, on=view)
    return view


def remove(user: User, view: SavedView) -> None:
    """Forget a view of the user's own."""
    with transaction.atomic():
        audit.note("view.removed", by=user, on=view)
        view.delete()
