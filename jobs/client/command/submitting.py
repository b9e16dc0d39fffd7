"""`taiji submit`, `preview` and `clone`."""

import json
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Annotated, Any

import typer

from jobs.client.answers import Submitted, Task, Verdict
from jobs.client.command import account, codes, documents
from jobs.client.command.following import follow, wait
from jobs.client.command.naming import naming
from jobs.client.command.screen import err, facts, line, moment, place_of, show_json
from jobs.client.command.words import say
from jobs.client.platform import Taiji

FILE = typer.Argument(
    help="The task's document, JSON or YAML, comments allowed; - reads stdin.", metavar="FILE"
)
JSON = typer.Option("--json", help="Print JSON, for scripts.")
WAIT = typer.Option("--wait", "-w", help="Wait until the task is over, and exit with its code.")
FOLLOW = typer.Option("--follow", "-f", help="Show its log until it is over; implies --wait.")
SET = typer.Option(
    "--set", metavar="FIELD=VALUE", help="Change a field of the document; VALUE as in YAML. Repeatable."
)
AT_ONCE = 1000  # documents of one call
VERDICTS = {
    "starts": "starts now",
    "starts_after_evicting": "starts after evicting",
    "queues": "queues",
    "never": "would never start",
}


def add_submitting(app: typer.Typer) -> None:
    """Add them to the command."""
    app.command("submit")(submit)
    app.command("submit-many")(submit_many)
    app.command("preview")(preview)
    app.command("clone")(clone)


def submit(
    file: Annotated[Path, FILE],
    wait_for: Annotated[bool, WAIT] = False,
    follow_log: Annotated[bool, FOLLOW] = False,
    changes: Annotated[list[str] | None, SET] = None,
    key: Annotated[
        str | None, typer.Option("--key", help="Submitting again with the same key returns the same task.")
    ] = None,
    as_json: Annotated[bool, JSON] = False,
) -> None:
    """Submit a task. Code in `model_local_file_path` is packed and uploaded first, unless the platform has it."""
    document = _changed(documents.read(file), changes)
    with _platform(document) as platform:
        document = documents.bring_code(platform, document, file.parent)
        task = platform.submit(document, key=key)
        _go_on(platform, task, wait_for=wait_for, follow_log=follow_log, as_json=as_json)


def submit_many(
    file: Annotated[
        Path, typer.Argument(help="A list of documents, JSON or YAML; - reads stdin.", metavar="FILE")
    ],
    as_json: Annotated[bool, JSON] = False,
) -> None:
    """Submit all tasks that a file lists, a thousand at a time; what is refused is told, and makes the exit code 65."""
    listed = documents.read_many(file)
    results: list[Submitted] = []
    with _platform(listed[0]) as platform:
        whole = [documents.bring_code(platform, document, file.parent) for document in listed]
        for start in range(0, len(whole), AT_ONCE):
            results += platform.submit_many(whole[start : start + AT_ONCE])
    for place, result in enumerate(results, 1):
        for fault in result["errors"]:
            where = say("document %(place)s") % {"place": place} + (
                f", {fault['field']}" if fault["field"] else ""
            )
            err.print(f"taiji: {where}: {fault['message']}", markup=False)
    if as_json:
        show_json(results)
    else:
        for task in filter(None, (result["task"] for result in results)):
            line(f"{task['id']}  {task['url']}")
    if any(result["errors"] for result in results):
        raise typer.Exit(codes.DATA)


def clone(
    task_id: Annotated[
        int, typer.Argument(help="The task to copy, with its secrets if it is yours.", metavar="TASK")
    ],
    changes: Annotated[list[str] | None, SET] = None,
    wait_for: Annotated[bool, WAIT] = False,
    follow_log: Annotated[bool, FOLLOW] = False,
    as_json: Annotated[bool, JSON] = False,
) -> None:
    """Submit a copy of a task, with some fields changed."""
    with account.find().platform() as platform:
        with naming(task_id):
            config = platform.task(task_id)["config"]
        document = _changed(config, changes)
        task = platform.submit(document, origin=task_id)
        _go_on(platform, task, wait_for=wait_for, follow_log=follow_log, as_json=as_json)


def preview(
    file: Annotated[Path, FILE],
    changes: Annotated[list[str] | None, SET] = None,
    as_json: Annotated[bool, JSON] = False,
) -> None:
    """Say what would become of a task, without submitting it: starts, evicts, queues or never. Exits 1 on never."""
    document = documents.without_folder(_changed(documents.read(file), changes), file.parent)
    with _platform(document) as platform:
        verdict = platform.preview(document, alternatives=True)
    if as_json:
        show_json(verdict)
    else:
        _show(verdict)
    if verdict["verdict"] == "never":
        raise typer.Exit(1)


def _platform(document: dict[str, Any]) -> AbstractContextManager[Taiji]:
    """Return the platform to call: a document may bring its own token, as the API takes it."""
    token = document.pop("Token", None)
    if isinstance(token, str) and token.strip():
        return account.find(token.strip()).platform()
    return account.find().platform()


def _changed(document: dict[str, Any], changes: list[str] | None) -> dict[str, Any]:
    for text in changes or ():
        field, sign, value = text.partition("=")
        if not (sign and field.strip()):
            raise typer.BadParameter(f"--set takes FIELD=VALUE, such as host_num=2, not {text!r}")
        document = document | {field.strip(): documents.value_of(field.strip(), value)}
    return document


def _go_on(platform: Taiji, task: Task, *, wait_for: bool, follow_log: bool, as_json: bool) -> None:
    """Show the new task; wait for it where that is wanted, and exit with its code."""
    if not (wait_for or follow_log):
        show_json(task) if as_json else line(f"{task['id']}  {task['url']}")
        return
    err.print(say("Task %(task)s: %(url)s") % {"task": task["id"], "url": task["url"]}, markup=False)
    over = follow(platform, task["id"]) if follow_log else wait(platform, task["id"])
    if as_json:
        show_json(over)
    raise typer.Exit(codes.of_task(over))


def _show(verdict: Verdict) -> None:
    line(say(VERDICTS.get(verdict["verdict"], verdict["verdict"])))
    where: dict[str, Any] = verdict["where"] or {}
    reason: dict[str, Any] = verdict["reason"] or {}
    basis = verdict["estimate_basis"]
    hosts = ", ".join(f"{host['host']}: {host['cards']}" for host in where.get("hosts", ()))
    facts(
        [
            ("where", " · ".join(filter(None, (where.get("gpu_type"), where.get("region"), hosts)))),
            ("class", where.get("task_class")),
            ("why", reason.get("message")),
            ("place in line", place_of(verdict["position"], verdict["of"])),
            ("starts about", moment(verdict["estimated_start"])),
            ("estimate", basis["message"] if basis else None),
            *(("evicts", _victim(victim)) for victim in verdict["evicts"]),
            *((fault["field"] or say("document"), fault["message"]) for fault in verdict["faults"]),
            *(("would start with", _way(other)) for other in verdict["alternatives"]),
        ]
    )


def _way(other: dict[str, Any]) -> str:
    """Return a change with which it would start: what that is in words, and whether somebody has to leave for it."""
    said = say(VERDICTS[other["verdict"]])
    if other["victims"]:
        evicts = say("evicts tasks: %(tasks)d, loses %(hours).1f card-hours")
        said = evicts % {"tasks": other["victims"], "hours": other["lost_card_hours"]}
    return f"{json.dumps(other['change'], ensure_ascii=False)}  {other['message']}: {said}"


def _victim(victim: dict[str, Any]) -> str:
    comes = say("task %(task)s of %(business)s, loses %(hours).1f card-hours, comes back")
    stays = say("task %(task)s of %(business)s, loses %(hours).1f card-hours, does not come back")
    words = {"task": victim["task"], "business": victim["business"], "hours": victim["lost_card_hours"]}
    return (comes if victim["comes_back"] else stays) % words
