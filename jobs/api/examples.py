"""Examples of bodies and answers, by the name of the call."""

from typing import Any

from jobs.api import what_if_shapes

DOCUMENT: dict[str, Any] = {
    "business_flag": "ads",
    "GPUName": "P40,M40",
    "host_num": 1,
    "host_gpu_num": 2,
    "is_elasticity": True,
    "enable_evicted_pulled_up": True,
    "start_cmd": "echo training for $EPOCHS epochs; sleep 60",
    "env": {"EPOCHS": "3", "S3_KEY": {"value": "…", "secret": True}},
    "time_limit": "2h30m",
}
TASK: dict[str, Any] = {
    "id": 7,
    "task_flag": "ads-20300131-080000-123456",
    "business": "ads",
    "user": "ann",
    "state": "queued",
    "class": "elastic",
    "reason": {"code": "no_cards", "message": "asks 2 P40 on one host; 1 is free, the largest host has 1"},
    "host_num": 1,
    "host_gpu_num": 2,
    "gpu_types": ["P40", "M40"],
    "region": None,
    "priority": "medium",
    "submitted_at": "2030-01-31T08:00:00.123456Z",
    "queued_at": "2030-01-31T08:00:00.123456Z",
    "ended_at": None,
    "origin": None,
    "url": "https://taiji.example.org/tasks/7/",
}
STOPPED = TASK | {"state": "stopped", "reason": None, "ended_at": "2030-01-31T08:05:00.123456Z"}
HELD = TASK | {"state": "held", "reason": None}
ERROR = {"field": "start_cmd", "code": "required", "message": "Give the command that is the task."}
TEMPLATE_BODY: dict[str, Any] = {
    "name": "resnet on two cards",
    "description": "With checkpoints each ten minutes",
    "readers": "members",
    "business": "ads",
    "config": {"GPUName": "P40", "host_gpu_num": 2, "checkpoint_interval": "10m"},
}
TEMPLATE: dict[str, Any] = TEMPLATE_BODY | {"id": 3, "changeable": True}
EVENT: dict[str, Any] = {
    "id": 15,
    "at": "2030-01-31T08:00:03.123456Z",
    "code": "started",
    "message": "Given 2 P40 cards on h1, as elastic",
    "old_state": "queued",
    "new_state": "starting",
    "attempt": 1,
    "actor": None,
    "evicted_for": None,
    "rule": None,
}
VERDICT: dict[str, Any] = {
    "verdict": "starts",
    "where": {
        "gpu_type": "P40",
        "region": "SZ",
        "task_class": "elastic",
        "hosts": [{"host": "h1", "cards": 2}],
    },
    "reason": None,
    "faults": [],
    "evicts": [],
    "position": None,
    "of": None,
    "estimated_start": "2030-01-31T08:00:00Z",
    "estimate_basis": {"code": "free", "message": "free cards"},
    "alternatives": [],
}
MANY_MOVED: dict[str, Any] = {
    "done": 12,
    "by_state": {"queued": 10, "running": 2},
    "skipped": [{"why": "not_yours", "state": "running", "number": 1}],
    "refusals": [],
    "more": False,
}
CHOICE = {"filter": {"state": "waiting", "user": "me"}}
WHY = {"reason": "the fan is loud"}
RESERVATION_BODY: dict[str, Any] = {
    "business": "ads",
    "gpu_type": "P40",
    "cards": 8,
    "kind": "weekly",
    "weekday": 0,
    "from_time": "20:00",
    "to_time": "08:00",
    "time_zone": "Asia/Shanghai",
    "note": "nightly training",
}
RESERVATION: dict[str, Any] = {
    **RESERVATION_BODY,
    "id": 4,
    "region": None,
    "starts_at": None,
    "ends_at": None,
    "from_time": "20:00:00",
    "to_time": "08:00:00",
}
TOKEN: dict[str, Any] = {
    "id": 5,
    "name": "nightly",
    "hint": "x7Qk",
    "user": "ann",
    "scope": "submit",
    "business": "ads",
    "created_at": "2030-01-31T08:00:00.123456Z",
    "expires_at": "2030-05-01T08:00:00.123456Z",
    "last_used_at": None,
}
AUDIT_ENTRY: dict[str, Any] = {
    "id": 911,
    "at": "2030-01-31T08:00:00.123456Z",
    "user": "ann",
    "user_id": 12,
    "deed": "task.stop",
    "kind": "task",
    "target_id": "7",
    "target": "ads-20300131-080000-123456",
    "address": "192.0.2.7",
    "agent": "curl/8.5.0",
    "token_id": 5,
    "args": {},
}
VERBS = ("stop", "hold", "release", "free", "retry")
HOST_VERBS = ("cordon", "uncordon", "drain", "remove", "restore")

BODIES: dict[str, Any] = {
    "tasks_submit": DOCUMENT,
    "tasks_preview": DOCUMENT,
    "tasks_submit_many": {"tasks": [DOCUMENT, DOCUMENT | {"GPUName": "M40"}]},
    "templates_create": TEMPLATE_BODY,
    "templates_update": TEMPLATE_BODY,
    "views_create": {"name": "mine that wait", "query": "state=waiting&user=me"},
    "tokens_create": {"name": "nightly", "scope": "submit", "days": 90, "business": "ads"},
    "me_password": {"old_password": "…", "new_password": "…"},
    "businesses_members_update": {"role": "lead"},
    "reservations_create": RESERVATION_BODY,
    "reservations_update": RESERVATION_BODY,
    "what_ifs_ask": what_if_shapes.EXAMPLE_BODY,
    "what_ifs_call_off": {},
    "what_ifs_apply": what_if_shapes.EXAMPLE_REASON,
    **{f"tasks_{verb}": {} for verb in VERBS},
    **{f"tasks_bulk_{verb}": CHOICE for verb in VERBS},
    **{f"hosts_{verb}": WHY for verb in HOST_VERBS},
}
ANSWERS: dict[str, Any] = {
    "tasks_submit": TASK,
    "tasks_list": {"results": [TASK], "next": "https://taiji.example.org/api/v1/tasks/?cursor=7"},
    "tasks_preview": VERDICT,
    "tasks_submit_many": {
        "results": [
            {"status": 201, "task": TASK, "errors": []},
            {"status": 400, "task": None, "errors": [ERROR]},
        ]
    },
    "tasks_events": {"results": [EVENT], "last": 15, "over": False},
    "tasks_stop": STOPPED,
    "tasks_hold": HELD,
    "tasks_release": TASK,
    "tasks_free": STOPPED,
    "tasks_retry": TASK | {"id": 8, "origin": 7, "url": "https://taiji.example.org/tasks/8/"},
    **{f"tasks_bulk_{verb}": MANY_MOVED for verb in VERBS},
    "free_cards": [
        {
            "region": "SZ",
            "gpu_type": "P40",
            "low": 9,
            "high": 16,
            "largest_block": 8,
            "as_of": "2030-01-31T08:00:00Z",
        }
    ],
    "templates_create": TEMPLATE,
    "templates_one": TEMPLATE,
    "templates_update": TEMPLATE,
    "templates_list": {"results": [TEMPLATE], "next": None},
    "views_create": {"id": 2, "name": "mine that wait", "query": "state=waiting&user=me"},
    "tokens_create": TOKEN | {"token": "x7Qk…"},
    "tokens_list": {"results": [TOKEN], "next": None},
    "businesses_members": {"results": [{"user": "ann", "role": "lead"}], "next": None},
    "businesses_members_update": {"user": "ann", "role": "lead"},
    "what_ifs_list": {"results": [what_if_shapes.EXAMPLE], "next": None},
    "what_ifs_ask": what_if_shapes.EXAMPLE_OPEN,
    "what_ifs_one": what_if_shapes.EXAMPLE_ONE,
    "what_ifs_apply": what_if_shapes.EXAMPLE_MADE,
    "what_ifs_call_off": what_if_shapes.EXAMPLE_OVER,
    "audit_list": {"results": [AUDIT_ENTRY], "next": None},
    "businesses_usage_days": {
        "results": [
            {
                "day": "2030-01-31",
                "high": {"card_hours": 192.0, "attempts": 12},
                "elastic": {"card_hours": 61.25, "attempts": 30},
            }
        ],
        "next": "https://taiji.example.org/api/v1/businesses/1/usage/?days=90&cursor=2030-02-01",
    },
    "reservations_list": {"results": [RESERVATION], "next": None},
    "reservations_one": RESERVATION,
    "reservations_create": RESERVATION,
    "reservations_update": RESERVATION,
    "me": {
        "user": "ann",
        "operator": False,
        "auditor": False,
        "businesses": [{"business_flag": "ads", "role": "lead"}],
        "token": {"name": "laptop", "scope": "submit", "expires_at": None},
    },
    "businesses": {
        "results": [
            {"id": 1, "business_flag": "ads", "name": "Advertisements", "default_gpu_types": ["P40"]}
        ],
        "next": None,
    },
    "quotas": {
        "results": [
            {
                "id": 1,
                "business": "ads",
                "gpu_type": "P40",
                "region": None,
                "cards": 16,
                "used": 4,
                "elastic_cards": None,
                "elastic_used": 2,
                "user_elastic_cards": None,
            }
        ],
        "next": None,
    },
}
