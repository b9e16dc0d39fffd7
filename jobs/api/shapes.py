"""The shapes of bodies and answers in the words of OpenAPI."""

from typing import Any

from cluster import host_states
from cluster.card_metrics import METRICS
from jobs.endings import ENDINGS
from jobs.fields import FIELDS
from jobs.materials import Code
from jobs.models import TaskClass
from jobs.states import State
from quotas import passwords

Shape = dict[str, Any]
TEXT: Shape = {"type": "string"}
NUMBER: Shape = {"type": "integer"}
TIME: Shape = {"type": "string", "format": "date-time"}


def maybe(shape: Shape) -> Shape:
    """Return the shape of a value that may be null."""
    return {"oneOf": [shape, {"type": "null"}]}


def words(names: list[str]) -> Shape:
    """Return the shape of one word of a closed list."""
    return {"type": "string", "enum": names}


def record(**fields: Shape) -> Shape:
    """Return the shape of an object that has all these fields."""
    return {"type": "object", "properties": fields, "required": list(fields), "additionalProperties": False}


def list_of(shape: Shape) -> Shape:
    """Return the shape of a list."""
    return {"type": "array", "items": shape}


def page_of(shape: Shape) -> Shape:
    """Return the shape of one page of a list."""
    return record(results=list_of(shape), next=maybe(TEXT))


ERRORS = record(errors=list_of(record(field=TEXT, code=TEXT, message=TEXT)))


def answers(status: int, shape: Shape, *others: int) -> dict[Any, Shape]:
    """Return the answers of a view: the good one, and what every view may say instead."""
    refusals = (400, 401, 403, 404, 429, *others)
    found = {(each, "application/json"): ERRORS for each in refusals}
    return {(status, "application/json"): shape, **found}


def answers_without_body(*others: int) -> dict[Any, Any]:
    """Return the answers of a view whose good one is 204."""
    return {204: None} | {(each, "application/json"): ERRORS for each in (400, 401, 403, 404, 429, *others)}


def body(shape: Shape) -> dict[str, Shape]:
    """Return a body in JSON."""
    return {"application/json": shape}


def _field(name: str) -> Shape:
    field = FIELDS[name]
    said = " ".join(filter(None, (str(field.says), str(field.refused))))
    return {
        **field.json,
        "description": said,
        **({} if field.default is None else {"default": field.default}),
    }


CONFIG: Shape = {
    "type": "object",
    "properties": {name: _field(name) for name in FIELDS},
    "required": ["business_flag"],
}
TOKEN_ONLY: Shape = {"type": "object", "properties": {"Token": TEXT}}
REASON = record(code=TEXT, message=TEXT)
_TASK: dict[str, Shape] = {
    "id": NUMBER,
    "task_flag": TEXT,
    "business": TEXT,
    "user": TEXT,
    "state": words([state.value for state in State]),
    "class": words(TaskClass.values),
    "reason": maybe(REASON),
    "host_num": NUMBER,
    "host_gpu_num": NUMBER,
    "gpu_types": list_of(TEXT),
    "region": maybe(TEXT),
    "priority": words(["low", "medium", "high"]),
    "submitted_at": TIME,
    "queued_at": TIME,
    "ended_at": maybe(TIME),
    "origin": maybe(NUMBER),
    "url": TEXT,
}
TASK = record(**_TASK)
MANY_DOCUMENTS: Shape = {
    "type": "object",
    "properties": {
        "tasks": {"type": "array", "items": CONFIG, "minItems": 1, "maxItems": 1000},
        "Token": TEXT,
    },
    "required": ["tasks"],
}
MANY_SUBMITTED = record(
    results=list_of(
        record(
            status={"type": "integer", "enum": [201, 400]},
            task=maybe(TASK),
            errors=ERRORS["properties"]["errors"],
        )
    )
)
MANY_CHOSEN: Shape = {
    "type": "object",
    "properties": {
        "ids": {"type": "array", "items": {"type": "integer", "minimum": 1}},
        "filter": {"type": "object", "additionalProperties": TEXT, "minProperties": 1},
        "Token": TEXT,
    },
}
MANY_STEERED = record(
    done=NUMBER,
    by_state={"type": "object", "additionalProperties": NUMBER},
    skipped=list_of(record(why=TEXT, state=words([state.value for state in State]), number=NUMBER)),
    refusals=list_of(TEXT),
    more={"type": "boolean"},
)
MEMBER = record(
    host=TEXT,
    cards=list_of(NUMBER),
    rank=NUMBER,
    phase=TEXT,
    exit_code=maybe(NUMBER),
    exit_signal=maybe(NUMBER),
    detail=TEXT,
    commit=TEXT,
    log_removed_at=maybe(TIME),
)
_ATTEMPT: dict[str, Shape] = {
    "attempt": NUMBER,
    "class": words(["high", "elastic"]),
    "gpu_type": TEXT,
    "cards": NUMBER,
    "started_at": TIME,
    "running_at": maybe(TIME),
    "ended_at": maybe(TIME),
    "outcome": maybe(TEXT),
    "code": maybe(words(list(ENDINGS))),
    "message": maybe(TEXT),
    "advice": maybe(TEXT),
    "evicted_for": maybe(NUMBER),
    "evicted_for_business": maybe(TEXT),
    "evict_rule": maybe(TEXT),
    "evict_rule_said": maybe(TEXT),
    "lost_work": maybe(TEXT),
    "commit": maybe(TEXT),
    "hosts": list_of(MEMBER),
}
ATTEMPT = record(**_ATTEMPT)
DETAIL = record(
    **_TASK,
    config={"type": "object"},
    model_id=maybe(TEXT),
    dataset_id=maybe(TEXT),
    place=maybe(record(position=NUMBER, of=NUMBER)),
    estimated_start=maybe(TIME),
    estimate_basis=maybe(REASON),
    evictions=NUMBER,
    attempts=list_of(ATTEMPT),
)
FREE_CARDS = record(
    region=TEXT, gpu_type=TEXT, low=NUMBER, high=maybe(NUMBER), largest_block=NUMBER, as_of=TIME
)
CARD = record(index=NUMBER, gpu_type=TEXT, state=TEXT, in_use={"type": "boolean"})
HOST = record(
    id=NUMBER,
    name=TEXT,
    region=TEXT,
    state=words(["ready", "cordoned", "draining", "quarantined", "lost", "removed"]),
    reason=TEXT,
    trouble=TEXT,
    warnings=list_of(TEXT),
    lost_since=maybe(TIME),
    last_seen_at=maybe(TIME),
    clock_offset_s={"type": "number"},
    agent_version=TEXT,
    cards=list_of(CARD),
)
HOST_STATES = words([*host_states.State, "lost"])
HOST_STATE = record(id=NUMBER, name=TEXT, state=HOST_STATES, reason=TEXT)
HOST_EVENT = record(
    id=NUMBER,
    at=TIME,
    code=TEXT,
    message=TEXT,
    reason=TEXT,
    actor=maybe(TEXT),
    old_state=maybe(HOST_STATES),
    new_state=maybe(HOST_STATES),
)
WHY: Shape = {"type": "object", "properties": {"reason": TEXT, "Token": TEXT}}
QUOTA = record(
    id=NUMBER,
    business=TEXT,
    gpu_type=TEXT,
    region=maybe(TEXT),
    cards=NUMBER,
    used=NUMBER,
    elastic_cards=maybe(NUMBER),
    elastic_used=NUMBER,
    user_elastic_cards=maybe(NUMBER),
)
BUSINESS = record(id=NUMBER, business_flag=TEXT, name=TEXT, default_gpu_types=list_of(TEXT))
_VALUES = list_of(maybe({"type": "number"}))
TASK_CARDS = record(
    attempt=maybe(NUMBER),
    step_s=NUMBER,
    at=list_of(NUMBER),
    cards=list_of(
        record(
            host=TEXT,
            rank=NUMBER,
            index=NUMBER,
            gpu_type=TEXT,
            memory_mib=NUMBER,
            **dict.fromkeys(METRICS, _VALUES),
            xids=list_of(record(at=NUMBER, xid=NUMBER)),
        )
    ),
)
UPLOAD = record(upload=TEXT, size=NUMBER)
_KNOWN: dict[str, Shape] = {"id": NUMBER, "business": TEXT, "name": TEXT, "params": {"type": "object"}}
MODEL = record(**_KNOWN, kind=words(Code.Kind.values), created_at=TIME)
DATASET = record(**_KNOWN, created_at=TIME)
TEMPLATE = record(
    id=NUMBER,
    name=TEXT,
    description=TEXT,
    config={"type": "object"},
    readers=words(["me", "members", "all"]),
    business=maybe(TEXT),
    changeable={"type": "boolean"},
)
TEMPLATE_BODY: Shape = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 128},
        "description": {"type": "string", "maxLength": 255},
        "readers": words(["me", "members", "all"]),
        "business": TEXT,
        "config": {**CONFIG, "required": []},
        "Token": TEXT,
    },
    "required": ["name", "config"],
}
VIEW = record(id=NUMBER, name=TEXT, query=TEXT)
VIEW_BODY: Shape = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 40},
        "query": {"type": "string", "example": "state=waiting&user=me"},
        "Token": TEXT,
    },
    "required": ["name", "query"],
}
_ROLE = words(["member", "lead"])
PERSON = record(user=TEXT, role=_ROLE)
MEMBER_BODY: Shape = {"type": "object", "properties": {"role": _ROLE}, "required": ["role"]}
_SCOPE = words(["read", "submit", "manage"])
_TOKEN: dict[str, Shape] = {
    "id": NUMBER,
    "name": TEXT,
    "hint": TEXT,
    "user": TEXT,
    "scope": _SCOPE,
    "business": maybe(TEXT),
    "created_at": TIME,
    "expires_at": maybe(TIME),
    "last_used_at": maybe(TIME),
}
TOKEN = record(**_TOKEN)
TOKEN_MADE = record(**_TOKEN, token=TEXT)
TOKEN_BODY: Shape = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 64},
        "scope": _SCOPE,
        "days": {"type": "integer", "minimum": 1, "maximum": 3650},
        "business": TEXT,
        "Token": TEXT,
    },
    "required": ["name", "scope"],
}
PASSWORD_BODY: Shape = {
    "type": "object",
    "properties": {
        "old_password": {"type": "string", "maxLength": passwords.LONGEST, "format": "password"},
        "new_password": {"type": "string", "maxLength": passwords.LONGEST, "format": "password"},
        "Token": TEXT,
    },
    "required": ["old_password", "new_password"],
}
AUDIT_ENTRY = record(
    id=NUMBER,
    at=TIME,
    user=TEXT,
    user_id=maybe(NUMBER),
    deed=TEXT,
    kind=TEXT,
    target_id=TEXT,
    target=TEXT,
    address=TEXT,
    agent=TEXT,
    token_id=maybe(NUMBER),
    args={"type": "object"},
)
_USED = record(card_hours={"type": "number"}, attempts=NUMBER)
USAGE_DAY = record(day={"type": "string", "format": "date"}, high=_USED, elastic=_USED)
ME = record(
    user=TEXT,
    operator={"type": "boolean"},
    auditor={"type": "boolean"},
    businesses=list_of(record(business_flag=TEXT, role=_ROLE)),
    token=maybe(record(name=TEXT, scope=_SCOPE, expires_at=maybe(TIME))),
)
RESERVATION = record(
    id=NUMBER,
    business=TEXT,
    gpu_type=TEXT,
    region=maybe(TEXT),
    cards=NUMBER,
    kind=words(["standing", "once", "weekly"]),
    starts_at=maybe(TIME),
    ends_at=maybe(TIME),
    weekday=maybe(NUMBER),
    from_time=maybe(TEXT),
    to_time=maybe(TEXT),
    time_zone=TEXT,
    note=TEXT,
)
RESERVATION_BODY: Shape = {
    "type": "object",
    "properties": {
        "business": TEXT,
        "gpu_type": TEXT,
        "region": TEXT,
        "cards": {"type": "integer", "minimum": 1},
        "kind": words(["standing", "once", "weekly"]),
        "starts_at": TIME,
        "ends_at": TIME,
        "weekday": {"type": "integer", "minimum": 0, "maximum": 6, "description": "0 is Monday."},
        "from_time": {"type": "string", "example": "20:00"},
        "to_time": {"type": "string", "example": "08:00"},
        "time_zone": {"type": "string", "example": "Asia/Shanghai", "default": "UTC"},
        "note": {"type": "string", "maxLength": 255},
        "Token": TEXT,
    },
    "required": ["business", "gpu_type", "cards"],
}
_STATE = words([state.value for state in State])
EVENT = record(
    id=NUMBER,
    at=TIME,
    code=TEXT,
    message=TEXT,
    old_state=maybe(_STATE),
    new_state=maybe(_STATE),
    attempt=maybe(NUMBER),
    actor=maybe(TEXT),
    evicted_for=maybe(NUMBER),
    rule=maybe(TEXT),
)
EVENTS = record(results=list_of(EVENT), last=NUMBER, over={"type": "boolean"})
FREE_HISTORY = record(region=TEXT, gpu_type=TEXT, points=list_of(record(at=TIME, free=NUMBER)))
LOG_FOUND = record(
    hits=list_of(record(offset=NUMBER, line=TEXT)),
    next=maybe(NUMBER),
)
