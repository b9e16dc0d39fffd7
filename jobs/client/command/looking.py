"""`taiji list`, `show`, `why`, `logs`, `free`, `quota` and `hosts`."""

import sys
from itertools import islice
from typing import Annotated, Any

import typer

from jobs.client.answers import Attempt, TaskDetail
from jobs.client.command import account, codes
from jobs.client.command.following import follow
from jobs.client.command.naming import naming
from jobs.client.command.screen import ago, facts, line, moment, place_of, range_of, show_json, state, table
from jobs.client.command.words import say

TASK = typer.Argument(help="The number of the task.", metavar="TASK")
JSON = typer.Option("--json", help="Print JSON, for scripts.")


def add_looking(app: typer.Typer) -> None:
    """Add them to the command."""
    app.command("list")(list_tasks)
    app.command("show")(show)
    app.command("why")(why)
    app.command("logs")(logs)
    app.command("free")(free)
    app.command("quota")(quota)
    app.command("hosts")(hosts)


def list_tasks(
    states: Annotated[
        str | None, typer.Option("--state", "-s", help="States behind commas; also open, over, waiting.")
    ] = None,
    business: Annotated[
        str | None, typer.Option("--business", "-b", help="Businesses behind commas.")
    ] = None,
    user: Annotated[str | None, typer.Option("--user", "-u", help="A user's name, or me.")] = None,
    task_class: Annotated[str | None, typer.Option("--class", "-c", help="high, elastic, auto.")] = None,
    gpu_type: Annotated[str | None, typer.Option("--type", "-t", help="GPU types behind commas.")] = None,
    words: Annotated[str | None, typer.Option("--search", "-q", help="A part of the name.")] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="So many at most.")] = 50,
    fields: Annotated[
        str | None, typer.Option("--fields", help="With --json: only these fields, behind commas.")
    ] = None,
    as_json: Annotated[bool, JSON] = False,
) -> None:
    """List tasks, the newest first."""
    with account.find().platform() as platform:
        found = platform.tasks(
            state=states,
            business=business,
            user=user,
            q=words,
            gpu_type=gpu_type,
            limit=min(limit, 500),
            fields=fields if as_json else None,
            **{"class": task_class},
        )
        tasks = list(islice(found, limit))
    if as_json:
        show_json(tasks)
        return
    table(
        ("ID", "NAME", "STATE", "CLASS", "CARDS", "TYPE", "BUSINESS", "USER", "AGE", "REASON"),
        [
            (
                task["id"],
                task["task_flag"],
                state(task["state"]),
                task["class"],
                _cards(task["host_num"], task["host_gpu_num"]),
                ",".join(task["gpu_types"]),
                task["business"],
                task["user"],
                ago(task["submitted_at"]),
                task["reason"]["message"] if task["reason"] else "",
            )
            for task in tasks
        ],
        spare=("BUSINESS", "USER", "TYPE", "CLASS"),
    )


def show(task_id: Annotated[int, TASK], as_json: Annotated[bool, JSON] = False) -> None:
    """Show a task: its state, its place in line, its attempts with their hosts and ends."""
    with account.find().platform() as platform, naming(task_id):
        task = platform.task(task_id)
    if as_json:
        show_json(task)
        return
    facts(
        [
            ("task", f"{task['id']}  {task['task_flag']}"),
            ("state", state(task["state"])),
            *_waiting(task),
            ("class", task["class"]),
            ("cards", f"{_cards(task['host_num'], task['host_gpu_num'])} {' or '.join(task['gpu_types'])}"),
            ("region", task["region"]),
            ("business", task["business"]),
            ("user", task["user"]),
            ("submitted", moment(task["submitted_at"])),
            ("ended", moment(task["ended_at"])),
            ("evictions", task["evictions"] or None),
            ("copy of", task["origin"]),
            ("page", task["url"]),
        ]
    )
    for attempt in task["attempts"]:
        line("")
        facts(_attempt(attempt))


def why(task_id: Annotated[int, TASK]) -> None:
    """Say in a few lines why a task waits, or how its last attempt ended and what can be done."""
    with account.find().platform() as platform, naming(task_id):
        task = platform.task(task_id)
    facts([("state", state(task["state"])), *_waiting(task), *_end(task)])


def logs(
    task_id: Annotated[int, TASK],
    following: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on until the task is over, and exit with its code.")
    ] = False,
    attempt: Annotated[int | None, typer.Option("--attempt", "-a", help="By default the last.")] = None,
    rank: Annotated[int, typer.Option("--rank", "-r", min=0, help="The member of a gang.")] = 0,
) -> None:
    """Write the log of a task to stdout, as the bytes that it is."""
    if following and attempt is not None:
        raise typer.BadParameter("--follow goes through the attempts as they come: leave --attempt out")
    with account.find().platform() as platform, naming(task_id):
        if following:
            raise typer.Exit(codes.of_task(follow(platform, task_id, rank=rank)))
        offset = 0
        while True:
            part = platform.log(task_id, attempt=attempt, rank=rank, offset=offset)
            sys.stdout.buffer.write(part.data)
            offset += len(part.data)
            if not part.data or offset >= part.end:
                break
    sys.stdout.buffer.flush()


def free(as_json: Annotated[bool, JSON] = False) -> None:
    """Show the free cards by region and GPU type."""
    with account.find().platform() as platform:
        found = platform.free_cards()
    if as_json:
        show_json(found)
        return
    rows = [(row["region"], row["gpu_type"], range_of(row), row["largest_block"]) for row in found]
    table(("REGION", "TYPE", "FREE", "MOST ON ONE HOST"), rows)


def quota(as_json: Annotated[bool, JSON] = False) -> None:
    """Show the quotas of your businesses and what is used of them."""
    with account.find().platform() as platform:
        found = platform.quotas()
    if as_json:
        show_json(found)
        return
    table(
        ("BUSINESS", "TYPE", "REGION", "USED", "QUOTA", "ELASTIC", "ELASTIC CAP"),
        [
            (
                row["business"],
                row["gpu_type"],
                row["region"] or say("all"),
                row["used"],
                _cap(row["cards"], row["used"]),
                row["elastic_used"],
                "" if row["elastic_cards"] is None else row["elastic_cards"],
            )
            for row in found
        ],
    )


def hosts(as_json: Annotated[bool, JSON] = False) -> None:
    """Show the hosts and what of their cards is in use."""
    with account.find().platform() as platform:
        found = list(platform.hosts())
    if as_json:
        show_json(found)
        return
    table(
        ("HOST", "REGION", "STATE", "TYPE", "IN USE", "CARDS", "NOT OK", "SEEN", "REMARK"),
        [
            (
                host["name"],
                host["region"],
                host["state"],
                ",".join(sorted({card["gpu_type"] for card in host["cards"]})),
                sum(card["in_use"] for card in host["cards"]),
                len(host["cards"]),
                sum(card["state"] != "ok" for card in host["cards"]) or "",
                ago(host["last_seen_at"]),
                host["reason"] or host["trouble"],
            )
            for host in found
        ],
    )


def _cap(cards: int, used: int) -> str:
    over = {"cards": cards, "over": used - cards}
    return say("%(cards)s (over by %(over)s)") % over if used > cards else str(cards)


def _cards(hosts: int, cards: int) -> str:
    return str(cards) if hosts == 1 else f"{hosts}×{cards}"


def _waiting(task: TaskDetail) -> list[tuple[str, Any]]:
    place = task["place"]
    return [
        ("why", task["reason"]["message"] if task["reason"] else None),
        ("place in line", place_of(place["position"], place["of"]) if place else None),
        ("starts about", moment(task["estimated_start"])),
        ("estimate", task["estimate_basis"]["message"] if task["estimate_basis"] else None),
    ]


def _end(task: TaskDetail) -> list[tuple[str, Any]]:
    ended = [attempt for attempt in task["attempts"] if attempt["ended_at"] or attempt["evicted_for"]]
    if not ended:
        return []
    last = ended[-1]
    return [
        ("last attempt", last["message"] or last["outcome"]),
        *_eviction(last),
        ("lost", last["lost_work"]),
        ("advice", last["advice"]),
    ]


def _eviction(attempt: Attempt) -> list[tuple[str, Any]]:
    """Return for whom it was evicted, and by which rule, where its end does not say so itself."""
    if attempt["code"] == "evicted":
        return []
    causer = attempt["evicted_for"]
    return [
        ("evicted for", _causer(attempt) if causer else None),
        ("because", attempt["evict_rule_said"]),
    ]


def _causer(attempt: Attempt) -> str:
    words = {"task": attempt["evicted_for"], "business": attempt["evicted_for_business"]}
    return say("task %(task)s of %(business)s") % words


def _attempt(attempt: Attempt) -> list[tuple[str, Any]]:
    return [
        ("attempt", f"{attempt['attempt']}  {attempt['class']}  {attempt['cards']} {attempt['gpu_type']}"),
        ("cards given", moment(attempt["started_at"])),
        ("all ran", moment(attempt["running_at"])),
        ("ended", moment(attempt["ended_at"])),
        ("outcome", attempt["outcome"]),
        ("why", attempt["message"]),
        *_eviction(attempt),
        ("lost", attempt["lost_work"]),
        ("advice", attempt["advice"]),
        ("commit", attempt["commit"]),
        *(
            (
                say("rank %(rank)s") % {"rank": row["rank"]},
                f"{row['host']}  cards {row['cards']}  {row['phase']}",
            )
            for row in attempt["hosts"]
        ),
    ]
