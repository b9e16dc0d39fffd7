"""What a simulation came to: its tasks, evictions and summary as plain data for JSON."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from jobs.scheduling.reasons import Reason
from jobs.simulation.job import Attempt, Job
from jobs.simulation.simulate import Simulator


def report(simulator: Simulator) -> dict[str, Any]:
    """Return everything that the simulator's JSON says."""
    jobs = [simulator.jobs[job_id] for job_id in sorted(simulator.jobs)]
    name = {job.id: job.name for job in jobs}
    businesses = simulator.setup.business_names
    return {
        "tasks": {job.name: _task(job, simulator.setup.host_names, name) for job in jobs},
        "evictions": [
            {"at_s": e.at, "task": name[e.job], "for": name.get(e.for_job or 0), "rule": e.rule}
            for e in simulator.evictions
        ],
        "summary": summary(simulator, jobs),
        "by_group": _split(simulator, jobs, lambda job: businesses[job.business]),
        "by_class": _split(simulator, jobs, lambda job: job.wanted),
    }


def _split(simulator: Simulator, jobs: Iterable[Job], key: Callable[[Job], str]) -> dict[str, Any]:
    parts: dict[str, list[Job]] = {}
    for job in jobs:
        parts.setdefault(key(job), []).append(job)
    return {part: summary(simulator, parts[part]) for part in sorted(parts)}


def _task(job: Job, hosts: Mapping[int, str], names: Mapping[int, str]) -> dict[str, Any]:
    return {
        "state": job.state,
        "class": job.task_class or job.wanted,
        "submit_s": job.submitted,
        "start_s": job.attempts[0].started if job.attempts else None,
        "end_s": job.ended,
        "evictions": len(job.evicted_at),
        "reason": _reason(job.reason, names) if job.reason else None,
        "attempts": [_attempt(attempt, hosts) for attempt in job.attempts],
    }


def _attempt(attempt: Attempt, hosts: Mapping[int, str]) -> dict[str, Any]:
    return {
        "start_s": attempt.started,
        "end_s": attempt.ended,
        "outcome": attempt.outcome,
        "cards": {hosts[host]: list(numbers) for host, numbers in attempt.cards.items()},
    }


def _reason(reason: Reason, names: Mapping[int, str]) -> dict[str, Any]:
    """Return the reason; where its sentence speaks of another task, by that one's name."""
    args = dict(reason.args)
    if "head" in args:
        args["head"] = names[int(args["head"])]
    return {"code": reason.code, "sentence": Reason(reason.code, args).sentence}


def summary(simulator: Simulator, jobs: Sequence[Job]) -> dict[str, Any]:
    """Return the figures of some jobs: averages over those that finished, use of all cards there are."""
    finished = [job for job in jobs if job.state == "succeeded"]
    waits = sorted(job.waited for job in finished)
    first = min((job.submitted for job in jobs), default=0.0)
    last = max((_last(job, simulator.now) for job in jobs), default=0.0)
    capacity = sum(row.total for row in simulator.setup.hosts) * (last - first)
    now = simulator.now
    runs = [
        (job.cards, run.started, now if run.ended is None else run.ended)
        for job in jobs
        for run in job.attempts
    ]
    used = sum(cards * (ended - started) for cards, started, ended in runs)
    passes = sorted(simulator.pass_s)
    return {
        "tasks": len(jobs),
        "finished": len(finished),
        "avg_jct_s": _mean([(job.ended or 0.0) - job.submitted for job in finished]),
        "avg_wait_s": _mean(waits),
        "p50_wait_s": percentile(waits, 50),
        "p95_wait_s": percentile(waits, 95),
        "makespan_s": last - first,
        "card_utilisation": used / capacity if capacity > 0 else 0.0,
        "evictions": sum(len(job.evicted_at) for job in jobs),
        "lost_card_s": sum(job.lost_card_s for job in jobs),
        "passes": len(passes),
        "pass_ms_p50": 1000 * (percentile(passes, 50) or 0.0),
        "pass_ms_p99": 1000 * (percentile(passes, 99) or 0.0),
    }


def _last(job: Job, now: float) -> float:
    """Return when the job last held a card, or was last waited for."""
    return now if job.ended is None else job.ended


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None


def percentile(ordered: Sequence[float], percent: float) -> float | None:
    """Return the percentile of ascending values, interpolated; None of none."""
    if not ordered:
        return None
    place = (len(ordered) - 1) * percent / 100
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)
