"""What calls take behind the question mark and in headers, in the words of OpenAPI."""

from typing import Any

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter


def query(name: str, says: str, kind: Any = OpenApiTypes.STR) -> OpenApiParameter:
    """Return a value of the address that may be left out."""
    return OpenApiParameter(name, kind, OpenApiParameter.QUERY, description=says)


PAGE = [
    query("cursor", "Where the page begins: take it from `next`.", OpenApiTypes.INT),
    query("limit", "Rows of a page, 50 by default, 500 at most.", OpenApiTypes.INT),
]
HOST_FILTERS = [
    query("state", "States, behind commas: ready, cordoned, draining, quarantined, lost."),
    query("region", "Only hosts of this region."),
    query("gpu_type", "Only hosts with cards of this type."),
]
ONLY = query("fields", "Fields that the rows are to have, behind commas; by default all.")
OF_BUSINESS = query("business", "Only those of this business_flag.")
WAIT = query(
    "wait", "Seconds, 60 at most: wait so long for what comes, where nothing is there yet.", OpenApiTypes.INT
)
EVENTS_QUERY = [
    query("after", "Only events behind this one: take it from `last`.", OpenApiTypes.INT),
    PAGE[1],
    WAIT,
    ONLY,
]
FILTERS = [
    query("q", "A part of the name in small or capital letters, or the whole number of a task."),
    query("state", "States, behind commas; also open, over, and waiting for several of them."),
    query("class", "Classes asked for, behind commas: high, elastic, auto."),
    query("business", "Names of businesses, behind commas."),
    query("user", "A user's name, or `me`."),
    query("gpu_type", "GPU types, behind commas: tasks that accept one of them."),
    query("region", "Regions, behind commas: tasks that ask for one of them."),
    query("reason", "Codes of reasons to wait, behind commas."),
    query("tag", "A tag."),
    query("submitted_from", "A day, a time, `today`, or `7d` or `12h` for so long ago."),
    query("submitted_to", "The same; a day counts whole."),
    query("ended_from", "The same, of the end."),
    query("sort", "newest, oldest, waiting_longest (tasks that wait), ended_last (tasks that are over)."),
    query("cursor", "Where the page begins: take it from `next`."),
    PAGE[1],
    ONLY,
]
_EXCEL = query("excel", "1: with a mark by which Excel reads it rightly.", OpenApiTypes.INT)
FILE_FILTERS = [each for each in FILTERS if each.name not in {"cursor", "limit", "fields"}] + [_EXCEL]
_DAYS = query("days", "Of how many days, 30 by default.", OpenApiTypes.INT)
USAGE_QUERY = [_DAYS, _EXCEL]
USAGE_DAYS_QUERY = [
    _DAYS,
    query("cursor", "The day with which the page begins: take it from `next`.", OpenApiTypes.DATE),
    query("limit", "Days of a page, 50 by default, 500 at most.", OpenApiTypes.INT),
]
AUDIT_FILTERS = [
    query("user", "The name of who did it."),
    query("deed", "What the deed begins with, such as `task.` or `token.made`."),
    query("kind", "What it was done to, such as `task` or `quota`."),
    query("target", "The id of what it was done to."),
    query("address", "The address that it came from."),
    query("since", "A time with its zone: no earlier.", OpenApiTypes.DATETIME),
    query("until", "A time with its zone: before it.", OpenApiTypes.DATETIME),
]
AUDIT_FILE = [*AUDIT_FILTERS, _EXCEL]
UPLOAD_BUSINESS = OpenApiParameter(
    "business",
    OpenApiTypes.STR,
    OpenApiParameter.QUERY,
    required=True,
    description="A business_flag of yours.",
)
ALTERNATIVES = query("alternatives", "1: try as well what else would start.", OpenApiTypes.INT)
ORIGIN = query("origin", "The id of a task of yours whose secrets this copy keeps.", OpenApiTypes.INT)
KEY = OpenApiParameter(
    "Idempotency-Key",
    OpenApiTypes.STR,
    OpenApiParameter.HEADER,
    description="For a day a request that is repeated with its key does nothing more and gets the same answer.",
)
SEARCH_QUERY = [
    query("q", "What to search for; letters of the Latin alphabet match in either case."),
    query("attempt", "Number of the attempt; by default the last.", OpenApiTypes.INT),
    query("rank", "Member of the attempt; by default 0.", OpenApiTypes.INT),
    query("offset", "The byte to begin with: take it from `next`.", OpenApiTypes.INT),
]
CARDS_QUERY = [
    query("attempt", "Number of the attempt; by default the last.", OpenApiTypes.INT),
    query("rank", "Only the cards of this member; by default of all.", OpenApiTypes.INT),
    query("from", "A time with its zone; by default when the attempt got its cards.", OpenApiTypes.DATETIME),
    query("to", "A time with its zone; by default the attempt's end, or now.", OpenApiTypes.DATETIME),
]
LOG_QUERY = [
    query("attempt", "Number of the attempt; by default the last.", OpenApiTypes.INT),
    query("rank", "Member of the attempt; by default 0.", OpenApiTypes.INT),
    query("offset", "The byte to begin with; by default 0.", OpenApiTypes.INT),
    query("limit", "At most so many bytes from there; by default all.", OpenApiTypes.INT),
    query("download", "1: as a file.", OpenApiTypes.INT),
    WAIT,
]
