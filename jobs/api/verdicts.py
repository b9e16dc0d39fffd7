"""The verdict of a dry run as the API says it."""

from dataclasses import asdict
from typing import Any

from jobs.api.shapes import NUMBER, REASON, TEXT, TIME, list_of, maybe, record, words
from jobs.engine.verdict import Said, Verdict

FIGURE = {"type": "number"}
REASON_WITH_ADVICE = record(code=TEXT, message=TEXT, advice=TEXT)
WHERE = record(
    gpu_type=TEXT,
    region=TEXT,
    task_class=words(["high", "elastic"]),
    hosts=list_of(record(host=TEXT, cards=NUMBER)),
)
VICTIM = record(
    task=NUMBER,
    business=TEXT,
    user=maybe(TEXT),
    cards=NUMBER,
    lost_card_hours=FIGURE,
    comes_back={"type": "boolean"},
    rule=TEXT,
)
ALTERNATIVE = record(
    kind=words(["gpu_type", "region", "class", "fewer_hosts", "fewer_cards"]),
    change={"type": "object"},
    message=TEXT,
    verdict=words(["starts", "starts_after_evicting"]),
    where=WHERE,
    victims=NUMBER,
    lost_card_hours=FIGURE,
)
VERDICT = record(
    verdict=words(["starts", "starts_after_evicting", "queues", "never"]),
    where=maybe(WHERE),
    reason=maybe(REASON_WITH_ADVICE),
    faults=list_of(record(field=TEXT, code=TEXT, message=TEXT)),
    evicts=list_of(VICTIM),
    position=maybe(NUMBER),
    of=maybe(NUMBER),
    estimated_start=maybe(TIME),
    estimate_basis=maybe(REASON),
    alternatives=list_of(ALTERNATIVE),
)


def shown(verdict: Verdict) -> dict[str, Any]:
    """Return the verdict in the API's words."""
    return asdict(verdict) | {
        "reason": _said(verdict.reason, "advice"),
        "estimate_basis": _said(verdict.estimate_basis),
    }


def _said(said: Said | None, *more: str) -> dict[str, str] | None:
    return None if said is None else {name: getattr(said, name) for name in ("code", "message", *more)}
