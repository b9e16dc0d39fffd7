"""The shapes of questions what would have been, and of their answers, with an example of each."""

from typing import Any

from jobs import what_if_rules as rules
from jobs.api import what_if_bodies
from jobs.api.shapes import NUMBER, REASON, TEXT, TIME, Shape, list_of, maybe, page_of, record, words
from jobs.policy_fields import DEFAULTS
from jobs.scheduling import policy
from jobs.what_ifs import WhatIf

_ANY_NUMBER: Shape = {"type": "number"}


def _key(key: str) -> Shape:
    """Return the shape of a key of the policy; null is its default."""
    kind = words(list(policy.CHOICES[key])) if key in policy.CHOICES else _ANY_NUMBER
    return maybe(NUMBER if key in policy.WHOLE else kind)


_POLICY: Shape = {
    "type": "object",
    "properties": {key: _key(key) for key in DEFAULTS},
    "additionalProperties": False,
}
_NAMES = list_of(TEXT)
_CHANGE = record(
    quotas=list_of(record(business=TEXT, gpu_type=TEXT, region=maybe(TEXT), cards=NUMBER)),
    policy=_POLICY,
    added=list_of(record(region=TEXT, gpu_type=TEXT, hosts=NUMBER, cards=NUMBER)),
    cordon=_NAMES,
    remove=_NAMES,
)
_FIGURES: dict[str, Shape] = {
    "tasks": NUMBER,
    "finished": NUMBER,
    "p50_wait_s": maybe(_ANY_NUMBER),
    "p95_wait_s": maybe(_ANY_NUMBER),
    "evictions": NUMBER,
    "lost_card_s": _ANY_NUMBER,
    "card_utilisation": _ANY_NUMBER,
    "card_s": _ANY_NUMBER,
}
_COURSE = list_of(_ANY_NUMBER)
_SIDE = record(
    summary=record(**_FIGURES),
    rows=list_of(record(**{"business": TEXT, "class": TEXT}, **_FIGURES)),
    course=record(span=_ANY_NUMBER, capacity=_ANY_NUMBER, high=_COURSE, elastic=_COURSE, waiting=_COURSE),
)
RESULT = record(since=TIME, tasks=NUMBER, still_running=NUMBER, never_ran=NUMBER, before=_SIDE, after=_SIDE)
_WHAT_IF: dict[str, Shape] = {
    "id": NUMBER,
    "asked_at": TIME,
    "user": maybe(TEXT),
    "days": NUMBER,
    "change": _CHANGE,
    "steps": list_of(record(what=TEXT, then=TEXT, new=TEXT)),
    "state": words(WhatIf.State.values),
    "done": {"type": "integer", "description": "Percent."},
    "heard_at": maybe(TIME),
    "ended_at": maybe(TIME),
    "fault": maybe(REASON),
    "applied_at": maybe(TIME),
    "applied_by": maybe(TEXT),
    "applied_why": TEXT,
}
WHAT_IF = record(**_WHAT_IF)
WHAT_IFS = page_of(WHAT_IF)
ANSWERED = record(**_WHAT_IF, result=maybe(RESULT))


def _object(needed: list[str], **fields: Shape) -> Shape:
    return {"type": "object", "properties": fields, "required": needed}


def _number(least: int, most: int) -> Shape:
    return {"type": "integer", "minimum": least, "maximum": most}


def _few(most: int, shape: Shape) -> Shape:
    return {**list_of(shape), "maxItems": most}


BODY = _object(
    [],
    days={**_number(rules.FEWEST_DAYS, rules.MOST_DAYS), "default": rules.DAYS},
    quotas=_few(
        what_if_bodies.MOST_QUOTAS,
        _object(
            ["business", "gpu_type", "cards"],
            business=TEXT,
            gpu_type=TEXT,
            region=maybe(TEXT),
            cards=_number(0, rules.MOST_CARDS),
        ),
    ),
    policy=_POLICY,
    added=_few(
        what_if_bodies.MOST_ADDED,
        _object(
            ["region", "gpu_type", "hosts", "cards"],
            region=TEXT,
            gpu_type=TEXT,
            hosts=_number(1, rules.MOST_HOSTS),
            cards=_number(1, rules.MOST_ON_HOST),
        ),
    ),
    cordon=_few(what_if_bodies.MOST_TAKEN_OUT, TEXT),
    remove=_few(what_if_bodies.MOST_TAKEN_OUT, TEXT),
    Token=TEXT,
)
REASON_BODY = _object(["reason"], reason={"type": "string", "maxLength": 255}, Token=TEXT)

EXAMPLE_BODY: dict[str, Any] = {
    "days": 7,
    "quotas": [{"business": "ads", "gpu_type": "P40", "cards": 24}],
    "policy": {"placement": "spread", "aging_s": None},
    "added": [{"region": "SZ", "gpu_type": "P40", "hosts": 2, "cards": 8}],
    "cordon": ["h7"],
}
EXAMPLE: dict[str, Any] = {
    "id": 3,
    "asked_at": "2030-01-31T08:00:00.123456Z",
    "user": "root",
    "days": 7,
    "change": {
        "quotas": [{"business": "ads", "gpu_type": "P40", "region": None, "cards": 24}],
        "policy": {},
        "added": [],
        "cordon": [],
        "remove": [],
    },
    "steps": [{"what": "quota of ads · P40", "then": "16", "new": "24"}],
    "state": "running",
    "done": 40,
    "heard_at": "2030-01-31T08:00:20.123456Z",
    "ended_at": None,
    "fault": None,
    "applied_at": None,
    "applied_by": None,
    "applied_why": "",
}
_FEW = {
    "tasks": 640,
    "finished": 631,
    "p50_wait_s": 42.0,
    "p95_wait_s": 5400.0,
    "evictions": 88,
    "lost_card_s": 90000.0,
    "card_utilisation": 0.81,
    "card_s": 7200000.0,
}
_BEFORE: dict[str, Any] = {
    "summary": _FEW,
    "rows": [{"business": "ads", "class": "high", **_FEW}],
    "course": {"span": 5040.0, "capacity": 16, "high": [8.0], "elastic": [5.0], "waiting": [2.5]},
}
EXAMPLE_ONE: dict[str, Any] = EXAMPLE | {
    "state": "done",
    "done": 100,
    "ended_at": "2030-01-31T08:00:41.123456Z",
    "result": {
        "since": "2030-01-24T08:00:00Z",
        "tasks": 640,
        "still_running": 9,
        "never_ran": 4,
        "before": _BEFORE,
        "after": _BEFORE | {"summary": _FEW | {"p95_wait_s": 1800.0}},
    },
}
EXAMPLE_OPEN: dict[str, Any] = EXAMPLE | {"state": "waiting", "done": 0, "heard_at": None, "result": None}
EXAMPLE_OVER: dict[str, Any] = EXAMPLE | {
    "state": "canceled",
    "ended_at": "2030-01-31T08:00:21.123456Z",
    "result": None,
}
EXAMPLE_MADE: dict[str, Any] = EXAMPLE_ONE | {
    "applied_at": "2030-01-31T09:00:00.123456Z",
    "applied_by": "root",
    "applied_why": "the big run",
}
EXAMPLE_REASON = {"reason": "the big run"}
