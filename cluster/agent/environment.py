"""The environment that the process of an instance gets."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from cluster.agent import mps
from cluster.agent.cards import Card
from cluster.agent.orders import BadSpec, Spec
from cluster.agent.processes import MARK
from cluster.agent.steps import PATH

# What a process may inherit of the agent's environment: never its secrets, nor the settings of its Python.
INHERITED = (
    "HOME",
    "LANG",
    "LANGUAGE",
    "LD_LIBRARY_PATH",
    "LOGNAME",
    "PATH",
    "SHELL",
    "TMPDIR",
    "TZ",
    "USER",
)


def environment(
    instance: str,
    spec: Spec,
    *,
    cards: Sequence[Card],
    storage: Path,
    hostfile: Path,
    host: Mapping[str, str] | None,
) -> dict[str, str]:
    """Return the whole environment of an instance: the host's few variables, the task's, then the platform's.

    `cards` are the host's, `host` the agent's own environment, None for a container, which has its image's.
    Raises BadSpec where a card is not there.
    """
    inherited = {} if host is None else {"PATH": PATH, **_of_host(host)}
    held = _held(spec, cards)
    # A program is told a card once, however many shares of it it has.
    visible = ",".join(dict.fromkeys(card.uuid or str(card.index) for card in held))
    members = str(len(spec.hosts))
    return {
        **inherited,
        **spec.env,
        **mps.environment(held),
        "CUDA_VISIBLE_DEVICES": visible,
        "NVIDIA_VISIBLE_DEVICES": visible or "void",
        "TAIJI_CARDS": str(len(spec.cards)),
        "TAIJI_STORAGE": str(storage / spec.storage),
        "TAIJI_TASK_DIR": str(storage / spec.storage / spec.task_dir),
        "TAIJI_HOSTFILE": str(hostfile),
        "RANK": str(spec.rank),
        "NODE_RANK": str(spec.rank),
        "WORLD_SIZE": members,
        "NNODES": members,
        "LOCAL_RANK": "0",
        "LOCAL_WORLD_SIZE": "1",
        "MASTER_ADDR": spec.hosts[0].address if spec.hosts else "",
        "MASTER_PORT": str(spec.master_port),
        MARK: instance,
    }


def hostfile_text(spec: Spec) -> str:
    """Return the host file of a gang in the form that mpirun reads."""
    return "".join(f"{member.address} slots={member.cards}\n" for member in spec.hosts)


def _of_host(host: Mapping[str, str]) -> dict[str, str]:
    return {name: host[name] for name in host if name in INHERITED or name.startswith("LC_")}


def _held(spec: Spec, cards: Sequence[Card]) -> list[Card]:
    by_index = {card.index: card for card in cards}
    missing = [str(index) for index in spec.cards if index not in by_index]
    if missing:
        raise BadSpec(f"This host has no card {', '.join(missing)}.")
    return [by_index[index] for index in spec.cards]
