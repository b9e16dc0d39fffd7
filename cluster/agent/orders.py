"""Read what the platform wants of this host; a fault in one order harms no other."""

import re
import uuid
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from cluster.agent.container_spec import ContainerSpec, finite, read_container

GRACE_S_AT_MOST = 30.0


class BadSpec(Exception):
    """An instance cannot be started as ordered; the message says why in one sentence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """One host of a gang."""

    address: str
    cards: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Spec:
    """What to run, as protocol.py describes it."""

    command: str | None
    exit_command: str
    grace_s: float
    env: dict[str, str]
    cards: tuple[int, ...]
    storage: str
    task_dir: str
    hosts: tuple[Member, ...]
    rank: int
    master_port: int
    wait_for_go: bool  # the command is started only when the platform says that the whole gang is ready
    code: dict[str, Any] | None
    data: tuple[dict[str, str], ...]
    prepare_s: float | None  # how long code and data may take
    container: ContainerSpec | None  # None: a plain process
    limits: dict[str, float]  # of a plain process: memory_mib, cpus, pids; absent or 0: none


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """An instance that should run, or should end; its spec is read when it is started."""

    id: str
    run: bool
    go: bool
    spec: object


@dataclass(frozen=True, slots=True, kw_only=True)
class Desired:
    """The full list of what this host should run."""

    version: str
    orders: dict[str, Order]
    forget: frozenset[str]
    notice: str  # what operators should know of this agent; "" is nothing
    now: float  # the platform's seconds since the epoch
    cleared: frozenset[str]  # faults of cards that are no more, by the word of an operator

    def wanted(self) -> dict[str, bool]:
        """Return whether each listed instance should run, by id."""
        return {order.id: order.run for order in self.orders.values()}


def read_desired(answer: object) -> Desired:
    """Return the platform's answer to a sync; raises ValueError where it is not one."""
    try:
        fields: dict[str, Any] = dict(answer)  # type: ignore[call-overload]  # anything but an object raises here
        orders = [
            Order(
                id=_id(item["id"]), run=item["run"] is True, go=item.get("go") is True, spec=item.get("spec")
            )
            for item in fields["instances"]
        ]
        return Desired(
            version=str(fields["version"]),
            orders={order.id: order for order in orders},
            forget=frozenset(_id(item) for item in fields["forget"]),
            notice=str(fields.get("notice") or ""),
            now=finite(fields["now"]),
            cleared=frozenset(str(fault) for fault in fields.get("cleared") or ()),
        )
    except (KeyError, TypeError, AttributeError, OverflowError) as error:
        raise ValueError(f"not a list of what to run: {error!r}") from error


def _id(value: object) -> str:
    # Ids name folders: only the plain form of a UUID may, never a path.
    return str(uuid.UUID(str(value)))


def read_spec(document: object) -> Spec:
    """Return the spec of an instance; raises BadSpec with what is wrong with it."""
    if not isinstance(document, dict):
        raise BadSpec("The order has no spec.")
    try:
        return Spec(
            command=_command(document["command"]),
            exit_command=_text(document.get("exit_command") or "", "exit_command"),
            grace_s=min(max(finite(document.get("grace_s", GRACE_S_AT_MOST)), 0.0), GRACE_S_AT_MOST),
            env=_env(document.get("env") or {}),
            cards=tuple(int(index) for index in document["cards"]),
            storage=_below(document["storage"], "storage"),
            task_dir=_below(document["task_dir"], "task_dir"),
            hosts=tuple(
                Member(address=_text(host["address"], "address"), cards=int(host["cards"]))
                for host in document["hosts"]
            ),
            rank=int(document["rank"]),
            master_port=int(document["master_port"]),
            wait_for_go=document.get("wait_for_go") is True,
            code=_code(document.get("code")),
            data=tuple(_mount(item) for item in document.get("data") or ()),
            prepare_s=finite(document["prepare_s"]) if document.get("prepare_s") else None,
            container=read_container(document.get("container")),
            limits=_limits(document.get("limits") or {}),
        )
    except KeyError as error:
        raise BadSpec(f"The order's spec lacks {error.args[0]}.") from error
    except (TypeError, ValueError, AttributeError, OverflowError) as error:
        raise BadSpec(f"The order's spec cannot be read: {error}.") from error


def agreed_commit(order: Order) -> str:
    """Return the commit that the first member of a gang chose for one that follows it; blank: not yet."""
    code = order.spec.get("code") if isinstance(order.spec, dict) else None
    return str(code.get("commit") or "") if isinstance(code, dict) and code.get("follow") else ""


def _code(value: Any) -> dict[str, Any] | None:
    """Return where the code comes from, as protocol.py has it."""
    if value is None:
        return None
    if value["kind"] == "upload":
        digest, files, size = str(value["digest"]), int(value["files"]), int(value["bytes"])
        if not re.fullmatch("[0-9a-f]{64}", digest):  # it names a file
            raise BadSpec("The order's code has no digest.")
        return {"kind": "upload", "digest": digest, "files": files, "bytes": size}
    names = ("url", "branch", "commit", "token")
    code: dict[str, Any] = {name: _text(value.get(name) or "", f"code's {name}") for name in names}
    if value["kind"] != "git" or not re.fullmatch("[0-9a-f]{0,64}", code["commit"]):
        raise BadSpec("The order's code is of a kind that this agent does not know.")
    if not code["url"].startswith(("http://", "https://")):
        raise BadSpec("The order's code has an address that is not fetched from.")
    most = {name: int(value.get(name) or 0) for name in ("files", "bytes")}
    return {"kind": "git", "follow": value.get("follow") is True, **code, **most}


def _mount(value: Any) -> dict[str, str]:
    """Return what is to be mounted, as protocol.py has it."""
    if value["kind"] != "ceph":
        raise BadSpec("The order's data is of a kind that this agent does not know.")
    found = {name: _text(value[name], f"data's {name}") for name in ("addr", "name", "secret", "src", "dst")}
    if not (found["src"].startswith("/") and found["dst"].startswith("/")) or found["addr"].startswith("-"):
        raise BadSpec("The order's data lacks a whole path.")
    return found


def _limits(value: dict[str, Any]) -> dict[str, float]:
    """Return what plain processes may use, as protocol.py has it; 0: no limit."""
    return {name: max(finite(value.get(name) or 0), 0.0) for name in ("memory_mib", "cpus", "pids")}


def _command(value: object) -> str | None:
    return None if value is None else _text(value, "command")


def _text(value: object, field: str) -> str:
    if not isinstance(value, str) or "\0" in value:
        raise BadSpec(f"The order's {field} is not a text that a process can be given.")
    return value


def _env(variables: dict[object, object]) -> dict[str, str]:
    for name, value in variables.items():
        if not isinstance(name, str) or not name or "=" in name or "\0" in name:
            raise BadSpec(f"The environment has a name that no variable can have: {name!r}.")
        if not isinstance(value, str) or "\0" in value:
            # The value itself may be a secret, so it is never named.
            raise BadSpec(f"The environment's {name} has a value that no variable can have.")
    return {str(name): str(value) for name, value in variables.items()}


def _below(value: object, field: str) -> str:
    path = PurePosixPath(_text(value, field))
    if path.is_absolute() or not path.parts or ".." in path.parts:
        raise BadSpec(f"The order's {field} does not stay below the storage: {value!r}.")
    return str(path)
