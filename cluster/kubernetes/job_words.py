"""What an MPIJob says of its task: a condition of ours beside those of its operator, and events; pure."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from cluster.kubernetes import names
from cluster.models import BroughtJob, BroughtNews

JSON = dict[str, Any]
Job = Mapping[str, Any]
ADMITTED = f"{names.GROUP}/Admitted"  # the type of our condition: True while its task has cards
HOLDS_CARDS = frozenset({"starting", "running", "keeping"})
MANAGER = "taiji"  # who owns that condition, in the words of server-side apply
MESSAGE_AT_MOST = 1000
OPERATOR_FIRST_S = 30.0  # its operator takes a job without any condition for a new one, and is left to say so


def condition_of(job: Job) -> Mapping[str, Any]:
    """Return our condition as it stands on a job; empty: none yet."""
    conditions = (job.get("status") or {}).get("conditions") or ()
    return next((each for each in conditions if each["type"] == ADMITTED), {})


def is_told(job: Job, row: BroughtJob) -> bool:
    """Say whether a job's condition says what the row does."""
    return _said(row).items() <= condition_of(job).items()


def says_its_state(job: Job, row: BroughtJob) -> bool:
    """Say whether it only remains to say anew why."""
    return bool(condition_of(job).get("reason") == _said(row)["reason"])


def may_be_told(job: Job, now: datetime) -> bool:
    """Say whether the operator had its first word, or its time for that."""
    made = job["metadata"].get("creationTimestamp")
    is_old = made is None or (now - datetime.fromisoformat(made)).total_seconds() > OPERATOR_FIRST_S
    return is_old or bool((job.get("status") or {}).get("conditions"))


def told(job: Job, row: BroughtJob, now: datetime) -> JSON:
    """Return what is applied to the status of a job: our condition alone, all else stays its operator's."""
    metadata, before, said, at = job["metadata"], condition_of(job), _said(row), _moment(now)
    changed = at if before.get("status") != said["status"] else before.get("lastTransitionTime", at)
    return {
        "apiVersion": names.JOB_API,
        "kind": names.JOB_KIND,
        "metadata": {name: metadata[name] for name in ("name", "namespace", "uid")},
        "status": {
            "conditions": [
                {"type": ADMITTED, **said, "lastUpdateTime": at, "lastTransitionTime": changed},
            ]
        },
    }


def event(job: Job, news: BroughtNews) -> JSON:
    """Return an event on the job, whose name follows from the row's: said once, however often it is tried."""
    metadata, at = job["metadata"], _moment(news.at)
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {
            "name": f"{metadata['name'][:200]}.{metadata['uid'][:8]}.{news.pk}",
            "namespace": metadata["namespace"],
        },
        "involvedObject": {
            "apiVersion": names.JOB_API,
            "kind": names.JOB_KIND,
            **{name: metadata[name] for name in ("name", "namespace", "uid")},
        },
        "type": "Warning" if news.warning else "Normal",
        "reason": news.reason,
        "message": news.message[:MESSAGE_AT_MOST],
        "source": {"component": MANAGER},
        "firstTimestamp": at,
        "lastTimestamp": at,
        "count": 1,
    }


def _said(row: BroughtJob) -> dict[str, str]:
    return {
        "status": "True" if row.state in HOLDS_CARDS else "False",
        "reason": row.state.title(),
        "message": row.sentence[:MESSAGE_AT_MOST],
    }


def _moment(at: datetime) -> str:
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
