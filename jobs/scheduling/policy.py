"""Read the policy's named keys from values or text, and refuse what no policy can mean."""

from collections.abc import Mapping
from dataclasses import fields

from jobs.scheduling.types import Policy

CHOICES: dict[str, tuple[str, ...]] = {
    "high_order": ("priority", "fifo", "shortest_first"),
    "elastic_order": ("fair_share", "fifo", "shortest_first", "round_robin"),
    "head_of_line": ("reserve", "skip", "strict"),
    "placement": ("best_fit", "spread"),
    "victim_order": ("longest_run", "shortest_run", "least_lost_work"),
}
WHOLE = ("max_evictions_per_hour", "quarantine_after")
MOST = {"exit_grace_s": 30.0}
POSITIVE = ("fair_half_life_s", "slice_s")  # a zero would divide by it, or end a slice before it began
MOST_BACKOFF_S = 600.0
FAILED_AT_ONCE_S = 60.0  # an attempt that fails sooner than this speaks against its hosts
KEYS = tuple(field.name for field in fields(Policy))


def read(values: Mapping[str, object]) -> Policy:
    """Return the defaults with `values` (numbers may be text) in place; ValueError says what is wrong."""
    return Policy(**{key: check(key, value) for key, value in values.items()})  # type: ignore[arg-type]  # checked


def check(key: str, value: object) -> str | float | int:
    """Return the value of one key as the pass wants it; ValueError says what was wrong and what would do."""
    if key not in KEYS:
        raise ValueError(f"there is no policy key {key!r}; there are {', '.join(KEYS)}")
    if key in CHOICES:
        if value not in CHOICES[key]:
            raise ValueError(f"{key} is one of {', '.join(CHOICES[key])}, not {value!r}")
        return str(value)
    return _number(key, value)


def _number(key: str, value: object) -> float | int:
    least = "more than 0" if key in POSITIVE else "0 or more"
    most = MOST.get(key, float("inf"))
    try:
        number = float(str(value))
    except ValueError:
        raise ValueError(f"{key} is a number, {least}, not {value!r}") from None
    if isinstance(value, bool) or not 0 <= number <= most or number == float("inf"):
        raise ValueError(
            f"{key} is a number, {least}{f', {most:g} at most' if key in MOST else ''}, not {value!r}"
        )
    if key in POSITIVE and number == 0:
        raise ValueError(f"{key} is a number, {least}, not {value!r}")
    if key not in WHOLE:
        return number
    if number != int(number):
        raise ValueError(f"{key} is a whole number, not {value!r}")
    return int(number)


def backoff_s(base_s: float, ends: int) -> float:
    """Return the seconds to wait before the next start; they double with each earlier end of the same kind."""
    return min(MOST_BACKOFF_S, base_s * 2.0 ** min(ends, 30))
