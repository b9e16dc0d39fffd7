"""Read what an address asks for behind its question mark, and cut lists into pages."""

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Any

from django.db.models import QuerySet
from django.utils.translation import gettext as _
from rest_framework.exceptions import Throttled
from rest_framework.request import Request

from jobs.config import Fault, Invalid
from jobs.values import not_kept

MOST = 2**63 - 1
YEARS = (1970, 9998)  # with room for any zone at both ends
PAGE, LONGEST_PAGE = 50, 500  # rows
LONGEST_WAIT_S, BUSY_S = 60, 5
BUSY = "taiji.wait_busy"  # in the scope of a request that was not held, because too many are


def single(request: Request, name: str) -> str:
    """Return what the query says by a name, blank where it says nothing; raises Invalid where it says two things."""
    given = {text.strip() for text in request.query_params.getlist(name)}
    if len(given) > 1:
        raise Invalid([Fault(name, "twice", _("Say this once: which of several holds would be chance."))])
    return given.pop() if given else ""


def number(request: Request, name: str, default: int, least: int = 0, most: int = MOST) -> int:
    """Return a whole number from the query; raises Invalid."""
    given = single(request, name)
    if not given:
        return default
    if given.isascii() and given.isdigit() and len(given) < 20 and least <= int(given) <= most:
        return int(given)
    message = _("Write a whole number from %(least)d to %(most)d.") % {"least": least, "most": most}
    raise Invalid([Fault(name, "range", message)])


def moment(request: Request, name: str) -> datetime | None:
    """Return a time from the query, None where it names none; raises Invalid."""
    given = single(request, name)
    if not given:
        return None
    try:
        # An unquoted + of a zone comes as a blank.
        found = datetime.fromisoformat(given.replace(" ", "+") if "T" in given else given)
        if found.tzinfo is not None and YEARS[0] <= found.year <= YEARS[1]:
            return found
    except ValueError:
        pass
    message = _("Write a time with its zone, such as 2030-01-31T08:00:00+08:00.")
    raise Invalid([Fault(name, "time", message)])


def waited(request: Request) -> None:
    """Refuse a `wait` that is none, or that was not granted since too many wait; raises Invalid or Throttled."""
    number(request, "wait", 0, 0, LONGEST_WAIT_S)
    if getattr(request, "scope", {}).get(BUSY):
        raise Throttled(
            BUSY_S, _("Too many calls wait for news at once; ask again a little later, or without wait.")
        )


def words(request: Request, name: str, known: Collection[str]) -> list[str]:
    """Return the words of a filter, repeated or behind commas; raises Invalid for one that is not known."""
    given = [word.strip() for text in request.query_params.getlist(name) for word in text.split(",")]
    given = [word for word in given if word]
    if not set(given) <= set(known):
        raise Invalid([Fault(name, "choice", _("Write some of %s.") % ", ".join(known))])
    return given


def nothing_else(request: Request, names: Collection[str]) -> None:
    """Refuse what the address asks for by a name that is none: it would be as if it had not been asked."""
    strange = sorted(set(request.query_params) - set(names))
    if strange:
        message = (
            _("This call takes no such parameter; known: %s.") % ", ".join(names)
            if names
            else _("This call takes no parameters; leave it out.")
        )
        raise Invalid([Fault(name[:64], "unknown", message) for name in strange])


def only(request: Request, shape: Mapping[str, Any]) -> frozenset[str]:
    """Return the fields of a record that `fields` asks for, empty where it asks for all; raises Invalid."""
    return frozenset(words(request, "fields", shape["properties"]))


def picked(request: Request, page: dict[str, Any], shape: Mapping[str, Any]) -> dict[str, Any]:
    """Return a page whose rows have no more than what `fields` asks for; raises Invalid."""
    wanted = only(request, shape)
    return page | {"results": [pick(row, wanted) for row in page["results"]]} if wanted else page


def pick(row: dict[str, Any], wanted: frozenset[str]) -> dict[str, Any]:
    """Return the fields of a row that are wanted; none named: all."""
    return {name: value for name, value in row.items() if name in wanted} if wanted else row


def text(request: Request, name: str) -> str:
    """Return a text of the query; one that no row can hold reads as nothing anybody is called. Raises Invalid."""
    given = single(request, name)
    return "?" if not_kept(given) else given


def page(request: Request, rows: "QuerySet[Any, Any]", *, newest_first: bool = True) -> dict[str, Any]:
    """Return one page of rows that have an `id`: {"results", "next"}, the next page's address or null.

    Pages go on behind the last id shown, so they stay right and quick while rows come and go.
    """
    limit = number(request, "limit", PAGE, 1, LONGEST_PAGE)
    cursor = number(request, "cursor", 0)
    if cursor:
        rows = rows.filter(pk__lt=cursor) if newest_first else rows.filter(pk__gt=cursor)
    found = list(rows.order_by("-pk" if newest_first else "pk")[: limit + 1])
    return {
        "results": found[:limit],
        "next": following(request, str(found[limit - 1]["id"])) if len(found) > limit else None,
    }


def following(request: Request, cursor: str) -> str:
    """Return the address of the page behind `cursor`."""
    query = request.query_params.copy()
    query["cursor"] = cursor
    return request.build_absolute_uri(f"{request.path}?{query.urlencode()}")
