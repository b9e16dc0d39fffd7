"""What a call of the platform can fail with."""

from collections.abc import Sequence
from dataclasses import dataclass

import httpx


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that is wrong: `field` is a dotted path into the document, blank for the whole request."""

    field: str
    code: str
    message: str


class CallFailed(Exception):
    """A call came to nothing; the message says why."""


class Unreachable(CallFailed):
    """The platform gave no answer, or none that a platform gives."""


class Refused(CallFailed):
    """The platform answered that it will not: `status` is HTTP's, `faults` say why, all of them together."""

    def __init__(self, status: int, faults: Sequence[Fault], retry_after_s: float | None = None) -> None:
        super().__init__(
            "\n".join(f"{fault.field}: {fault.message}" if fault.field else fault.message for fault in faults)
        )
        self.status = status
        self.faults = tuple(faults)
        self.retry_after_s = retry_after_s


def refusal(answer: httpx.Response) -> CallFailed:
    """Return what to raise for an answer that is no good one."""
    try:
        faults = [
            Fault(str(row["field"]), str(row["code"]), str(row["message"])) for row in answer.json()["errors"]
        ]
    except (ValueError, KeyError, TypeError):
        said = f"{answer.status_code} {answer.reason_phrase}"
        return Unreachable(
            f"{answer.request.url.copy_with(query=None)} answers {said}, and not as a Taiji platform does: "
            "is the address right?"
        )
    wait = answer.headers.get("Retry-After", "")
    return Refused(answer.status_code, faults, float(wait) if wait.isdecimal() else None)
