"""The options of `manage.py simulate`."""

from argparse import ArgumentParser
from pathlib import Path

from jobs.scheduling.policy import CHOICES, KEYS
from jobs.simulation.workload import CLASSES, MORE_OF_A_JOB

PAIRS = "KEY=VALUE"
DAYS = 7.0  # that --live looks back where --days does not say it
POLICY = ", ".join(f"{key}={'|'.join(CHOICES[key])}" if key in CHOICES else f"{key}=NUMBER" for key in KEYS)
# A simulated gang starts whole and at once, leaves after its own exit_s, and a host is lost when a scenario says so.
WITHOUT_EFFECT = ("start_deadline_s", "exit_grace_s", "lost_after_s")
FILES = {
    "--hosts": "columns host, region, gpu_type, gpu_num",
    "--jobs": "columns job_id, user, group (the business), submit_s, duration_s (seconds), host_num, host_gpu_num, "
    f"gpu_type, priority_class; where they are there also {', '.join(MORE_OF_A_JOB)}",
    "--quotas": "columns business, gpu_type, region, cards; without this file high tasks have no cap",
}


def add_recorded(parser: ArgumentParser) -> None:
    """Declare what recorded work needs."""
    group = parser.add_argument_group("recorded work (CSV, or CSV packed as .gz)")
    for name, words in FILES.items():
        group.add_argument(name, type=Path, metavar="FILE", help=words)
    group.add_argument(
        "--default-class",
        choices=CLASSES,
        help="the class of jobs whose priority_class is blank (default: elastic)",
    )
    group.add_argument(
        "--class-map",
        metavar="THEIRS=CLASS,…",
        help=f"what the file's words for classes mean ({', '.join(CLASSES)}), such as strict=high,best=elastic",
    )
    group.add_argument(
        "--time-limits",
        metavar="none|FACTOR",
        help="give each job a limit of so many times its duration, such as 1.5 (default: none)",
    )
    words = "what holds for each job without such a column, such as pull_up=true checkpoint_s=1800 exit_s=30"
    group.add_argument("--every-job", metavar=PAIRS, nargs="+", action="extend", default=[], help=words)


def add_invented(parser: ArgumentParser) -> None:
    """Declare invented work."""
    group = parser.add_argument_group("invented work")
    group.add_argument(
        "--scenario", type=Path, metavar="FILE", help="YAML with hosts, quotas, policy, until and events"
    )


def add_live(parser: ArgumentParser) -> None:
    """Declare what ran here."""
    group = parser.add_argument_group("what ran here")
    group.add_argument(
        "--live",
        action="store_true",
        help="replay this installation's own tasks under today's policy and, beside it, with what --policy changes",
    )
    words = f"how far --live looks back, such as 0.5 (default: {DAYS:g})"
    group.add_argument("--days", type=float, help=words)


def add_always(parser: ArgumentParser) -> None:
    """Declare what goes with each form."""
    group = parser.add_argument_group("with each form")
    words = (
        f"keys of the policy; the others keep their defaults, with --live today's values: {POLICY}. "
        f"{', '.join(WITHOUT_EFFECT)} are about real processes and hosts and change nothing here"
    )
    group.add_argument("--policy", metavar=PAIRS, nargs="+", action="extend", default=[], help=words)
    group.add_argument("--json", type=Path, metavar="FILE", help="write tasks, evictions and figures there")
    group.add_argument(
        "--plot",
        type=Path,
        metavar="FILE",
        help="draw cards in use, waiting tasks and evictions over time, as .svg or .png; needs matplotlib "
        "(requirements-plot.txt)",
    )
