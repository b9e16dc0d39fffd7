"""Write what each host has to run for a start: one spec per member of the gang."""

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from cryptography.fernet import InvalidToken
from django.conf import settings

from cluster import rows, vault
from cluster.executors.base import NewInstance
from cluster.models import Card, Host
from cluster.registries import credentials
from jobs.engine.source_specs import NOTHING, Sources
from jobs.scheduling.types import Start

log = logging.getLogger(__name__)
# Run instead of a task whose secrets are lost: an error here would end every pass, for all tasks, and the task
# itself would fail without them in a way nobody understands.
UNREADABLE = (
    "echo 'The secrets of this task cannot be read with the keys that the platform has now: "
    "submit it again with their values.' >&2; exit 78"
)
FIRST_PORT, PORTS = 20000, 10000  # MASTER_PORT lies in this range, below the usual ephemeral ports


@dataclass(frozen=True, slots=True)
class Startable:
    """What a start has to know of its task, and the number that its attempt will have."""

    pk: int
    business_id: int
    task_flag: str
    config: Mapping[str, Any]
    secrets: str  # sealed
    attempt_number: int


@dataclass(frozen=True, slots=True)
class Places:
    """The hosts and cards that some starts name."""

    hosts: dict[int, tuple[str, str]]  # id → name, address
    cards: dict[tuple[int, int], int]  # (host, number) → card id
    grace_s: float  # from the exit command's start to KILL, by the policy in force


def places(starts: Iterable[Start], grace_s: float) -> Places:
    """Look up the hosts and cards of `starts` in two queries."""
    ids = {host for start in starts for host in start.numbers}
    hosts = Host.objects.filter(pk__in=rows.among(ids)).order_by().values_list("id", "name", "address")
    cards = Card.objects.filter(host__in=rows.among(ids)).order_by().values_list("host_id", "index", "id")
    return Places(
        hosts={pk: (name, address or name) for pk, name, address in hosts},
        cards={(host, index): pk for host, index, pk in cards},
        grace_s=grace_s,
    )


def members(
    task: Startable, attempt_id: int, start: Start, where: Places, sources: Sources = NOTHING
) -> list[NewInstance]:
    """Return the instances of one start, in the order of rank."""
    secrets = _secrets(task)
    if secrets is None or sources.secrets is None:
        secrets, sources = None, NOTHING
    else:
        secrets |= sources.secrets | _registry(task.config)
    shared = _shared(task, attempt_id, start, where)
    return [
        NewInstance(
            host_id=host,
            gang=attempt_id,
            rank=rank,
            label=f"{shared['label']} [{rank}]",
            spec={
                **shared,
                **sources.of_rank(rank, len(start.numbers)),
                "rank": rank,
                "cards": list(numbers),
                "command": UNREADABLE if secrets is None else _command(task, rank),
            },
            secrets=secrets or {},
            card_ids=tuple(where.cards[host, index] for index in numbers),
        )
        for rank, (host, numbers) in enumerate(start.numbers.items())
    ]


def _secrets(task: Startable) -> dict[str, str] | None:
    """Return the secret variables of a task; None where the present keys cannot read them."""
    try:
        found = vault.unseal(task.secrets)
    except InvalidToken:
        log.error("the secrets of task %s cannot be read with the present keys", task.pk)
        return None
    return {path.removeprefix("env."): value for path, value in found.items() if path.startswith("env.")}


def _shared(task: Startable, attempt_id: int, start: Start, where: Places) -> dict[str, Any]:
    document = task.config
    return {
        "label": f"{task.pk} {task.task_flag} #{task.attempt_number}",
        "exit_command": document.get("exit_cmd", ""),
        "grace_s": where.grace_s,
        "env": plain_env(document.get("env", {})),
        "storage": f"business-{task.business_id}",
        "task_dir": f"task-{task.pk}",
        "master_port": FIRST_PORT + attempt_id % PORTS,
        # Alone there is nobody to wait for; the launcher of an MPIJob waits for the workers itself.
        "wait_for_go": len(start.numbers) > 1 and "mpijob" not in document,
        **({"mpijob": document["mpijob"]} if "mpijob" in document else {}),
        "container": _container(document),
        "limits": _limits(document),
        "hosts": [
            {"name": where.hosts[host][0], "address": where.hosts[host][1], "cards": len(numbers)}
            for host, numbers in start.numbers.items()
        ],
    }


def _container(document: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the container of a task that names an image, with the limits of this installation."""
    image = document.get("image_full_name")
    if not image:
        return None
    others = {name: value for name, value in settings.CONTAINER.items() if not name.endswith("_per_card")}
    return {"image": image, **others, **_limits(document)}


def _limits(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a member may use of its host, in a container or as plain processes; 0: no limit."""
    limits: dict[str, Any] = dict(settings.CONTAINER)
    cards = int(document.get("host_gpu_num", 1))
    per_card = {name: limits[f"{name}_per_card"] * cards for name in ("memory_mib", "cpus")}
    return {**per_card, "pids": limits["pids"]}


def _registry(document: Mapping[str, Any]) -> dict[str, str]:
    """Return the secrets for the registry of a task's image, by where they go in its spec."""
    found = credentials(document["image_full_name"]) if document.get("image_full_name") else {}
    return {f"container.registry.{name}": value for name, value in found.items()}


def _command(task: Startable, rank: int) -> str | None:
    """Return what a member runs: the first always the start command, the others only where all are to."""
    runs = rank == 0 or task.config.get("exec_start_in_all_mpi_pods", False)
    return str(task.config.get("start_cmd", "")) if runs else None


def plain_env(env: Mapping[str, Any]) -> dict[str, str]:
    """Return the variables of a document that are not secret."""
    return {name: value for name, value in env.items() if isinstance(value, str)}
