"""Fill page.md with figures: every one of them comes from the simulations that it was given."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from jobs.scheduling.reasons import Reason
from tests.sharing import classes, walls
from tests.sharing.outcome import HOUR_S, Outcome, Waits, more_waited

TEMPLATE = Path(__file__).with_name("page.md")


def text(
    work: walls.Comparison,
    plain: walls.Comparison,
    faster: Mapping[float, walls.Comparison],
    two: classes.Comparison,
) -> str:
    """Return the page."""
    figures = {
        **_of_walls(work),
        **_of_longer(work),
        **_of_plain(plain),
        **_of_pace(work, faster),
        **_of_classes(two),
        **_of_waits(two),
    }
    return TEMPLATE.read_text().format(**figures)


def _of_walls(work: walls.Comparison) -> dict[str, Any]:
    return {
        "table": _by_business(work),
        "walls_mean": work.walls.waits().mean,
        "shared_mean": work.shared.waits().mean,
        "walls_use": work.walls.use,
        "shared_use": work.shared.use,
        "sooner": work.walls.makespan - work.shared.makespan,
        "evictions": work.shared.evictions,
        "lost": work.shared.lost,
        "held": work.shared.held,
        "lost_share": work.shared.lost / work.shared.held,
        "jobs": len(work.shared.jobs),
        "reserve": work.shared.simulators[0].policy.reserve_after_s / 60,
        "aging": work.shared.simulators[0].policy.aging_s / 3600,
    }


def _of_longer(work: walls.Comparison) -> dict[str, Any]:
    longer = work.longer
    return {
        "longer": len(longer),
        "worst": longer[0].waited / HOUR_S,
        "worst_wall": work.walls.jobs[longer[0].name].waited / HOUR_S,
        "no_quota": sum(map(work.short_of_quota, longer)),
        "reasons": _by_reason(work),
    }


def _of_plain(plain: walls.Comparison) -> dict[str, Any]:
    longer = plain.longer
    return {
        "plain": _by_business(plain),
        "plain_longer": len(longer),
        "plain_worst": more_waited(longer[0], plain.walls) / HOUR_S,
    }


def _of_pace(work: walls.Comparison, faster: Mapping[float, walls.Comparison]) -> dict[str, Any]:
    full = faster[max(faster)]
    longer = full.longer
    gang = longer[0]
    return {
        "faster": _by_pace({1.0: work, **faster}),
        "full_longer": len(longer),
        "full_quota": sum(map(full.short_of_quota, longer)),
        "gang": gang.name,
        "gang_size": f"{gang.host_num} × {gang.host_gpu_num}",
        "gang_wait": gang.waited / HOUR_S,
        "gang_wall": full.walls.jobs[gang.name].waited / HOUR_S,
        "gang_overtaken": full.overtaken_by(gang),
    }


def _of_classes(two: classes.Comparison) -> dict[str, Any]:
    counts = sorted(len(two.shared.jobs[name].evicted_at) for name in two.names["best"])
    return {
        "strict_demand": two.demand["strict"],
        "best_demand": two.demand["best"],
        "worlds": _by_world(two),
        "delay": classes.DELAY_S / 60,
        "shared_use2": two.shared.use,
        "passing_use": two.passing.use,
        "evictions2": two.shared.evictions,
        "lost2": two.shared.lost,
        "lost_share2": two.shared.lost / two.shared.held,
        "mean_ev": sum(counts) / len(counts),
        "p95_ev": counts[len(counts) * 95 // 100],
        "most_ev": counts[-1],
    }


def _of_waits(two: classes.Comparison) -> dict[str, Any]:
    strict, best = two.names["strict"], two.names["best"]
    mean = two.shared.waits(best).mean
    return {
        "shared_strict": two.shared.waits(strict).mean,
        "alone_strict": two.alone.waits().mean,
        "p50": two.shared.waits(strict).p50 * HOUR_S,
        "longer_jobs": len(two.longer),
        "longer_h": two.apart(two.longer),
        "shorter_jobs": len(two.shorter),
        "shorter_h": two.apart(two.shorter),
        "best_less": 1 - mean / two.fifo.waits(best).mean,
        "best_more": mean / two.passing.waits(best).mean,
    }


def _by_reason(work: walls.Comparison) -> str:
    """Return a table of the reasons, each with the sentence that the first of its jobs got."""
    given: dict[str, list[str]] = defaultdict(list)
    for job, reason in work.reasons():
        names = {key: work.shared.simulators[0].jobs[int(value)].name for key, value in _heads(reason)}
        given[reason.code].append(f"{job.name}: {Reason(reason.code, {**reason.args, **names}).sentence}")
    return _table(
        ["reason", "jobs", "the first of them"], [[f"`{c}`", len(s), s[0]] for c, s in sorted(given.items())]
    )


def _heads(reason: Reason) -> list[tuple[str, Any]]:
    return [(key, value) for key, value in reason.args.items() if key == "head"]


def _by_business(work: walls.Comparison) -> str:
    rows = []
    for business, names in work.names.items():
        behind, shared = work.walls.waits(names), work.shared.waits(names)
        rows.append([business, work.cards[business], behind.jobs, *_two(behind), *_two(shared)])
    head = ["business", "cards", "jobs", "walls: mean", "p95", "worst", "quotas: mean", "p95", "worst"]
    return _table(head, rows)


def _two(waits: Waits) -> list[str]:
    return [f"{waits.mean:.2f}", f"{waits.p95:.2f}", f"{waits.most:.1f}"]


def _by_pace(works: dict[float, walls.Comparison]) -> str:
    rows = []
    for pace, work in works.items():
        means = [f"{o.waits().mean:.2f}" for o in (work.walls, work.shared)]
        worse = len(work.longer)
        rows.append(
            [f"{pace:g}", *means, f"{worse:,} ({worse / len(work.shared.jobs):.1%})", *_price(work.shared)]
        )
    head = [
        "pace",
        "walls: mean",
        "quotas: mean",
        "jobs that wait longer",
        "evictions",
        "card-hours lost",
        "use",
    ]
    return _table(head, rows)


def _price(outcome: Outcome) -> list[str]:
    return [f"{outcome.evictions:,}", f"{outcome.lost:,.0f}", f"{outcome.use:.1%}"]


def _by_world(two: classes.Comparison) -> str:
    worlds = {
        "one line, stopped": two.fifo,
        "one line, passed over": two.passing,
        "`strict` jobs alone": two.alone,
        "**high and elastic**": two.shared,
        "the same, evicting late": two.delayed,
    }
    rows = []
    for name, outcome in worlds.items():
        strict = outcome.waits(two.names["strict"])
        others = ["–"] * 3 if outcome is two.alone else _two(outcome.waits(two.names["best"]))
        rows.append([name, *_two(strict), *others, *_price(outcome)])
    head = [
        "",
        "`strict`: mean",
        "p95",
        "worst",
        "`best`: mean",
        "p95",
        "worst",
        "evictions",
        "card-hours lost",
        "use",
    ]
    return _table(head, rows)


def _table(head: list[str], rows: Iterable[Iterable[object]]) -> str:
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    return "\n".join(f"| {' | '.join(map(str, line))} |" for line in lines)
