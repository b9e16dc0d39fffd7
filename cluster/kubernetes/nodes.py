"""What a node says of the host that it is: its cards, whether it is well, and what keeps tasks from it; pure."""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cluster.agent.gpu_names import gpu_type, slice_type
from cluster.kubernetes import names
from cluster.kubernetes.options import Options

Node = Mapping[str, Any]
GPU = "nvidia.com/gpu"
MIG = "nvidia.com/mig-"
PRODUCT, MEMORY = "nvidia.com/gpu.product", "nvidia.com/gpu.memory"  # labels of GPU feature discovery
SHARED = re.compile(r"-SHARED$|-MIG-.*$")  # what it adds to the product
KEPT_AWAY = frozenset({"NoSchedule", "NoExecute"})
CORDON_TAINT = "node.kubernetes.io/unschedulable"  # that the cluster adds to a cordoned node
FIRST_OF_KIND = 256  # numbers of cards of one resource lie together, so that each keeps its own


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownCard:
    """A card as its row has it."""

    index: int
    uuid: str
    state: str
    leased: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class CardSeen:
    """A card as the node has it: the plugin counts them, so which of several it is, is ours to say."""

    index: int
    uuid: str  # the resource and a number
    gpu_type: str
    memory_mib: int
    state: str
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSeen:
    """A node as a host."""

    name: str
    address: str
    ready: bool
    closed: str  # why no task is to start there, in one sentence; blank: nothing keeps it away
    trouble: str  # what operators should know; blank: nothing
    resources: Mapping[str, tuple[int, int]]  # name → how many there are, how many of them work
    types: Mapping[str, str]  # name → type
    memory_mib: int


def seen(node: Node, options: Options) -> NodeSeen:
    """Return what a node says; one without cards is none of ours, unless it had some."""
    status = node.get("status") or {}
    resources = _resources(status)
    labels = names.labels_of(node)
    types = {name: _type(name, labels, options) for name in resources}
    nameless = sorted(name for name, found in types.items() if not found)
    return NodeSeen(
        name=node["metadata"]["name"],
        address=_address(status),
        ready=_is_ready(status),
        closed=_closed(node, options),
        trouble=_nameless(nameless) if nameless else "",
        resources={name: numbers for name, numbers in resources.items() if types[name]},
        types={name: found for name, found in types.items() if found},
        memory_mib=_number(labels.get(MEMORY, "0")),
    )


def cards(node: NodeSeen, outside: Mapping[str, int], known: Sequence[KnownCard]) -> list[CardSeen]:
    """Return the cards of a node, of which others than us use so many of each resource.

    Those that our tasks have are the last to be called broken or used by others: which one a pod got only the
    plugin knows, and a task that runs has one that works.
    """
    found: list[CardSeen] = []
    rows = {card.uuid: card for card in known}
    taken = {card.index for card in known}
    for place, name in enumerate(sorted(node.resources)):
        total, working = node.resources[name]
        ids = _kept(name, total, rows)
        order = sorted(ids, key=lambda pk: _last_to_go(rows.get(pk)))
        broken = set(order[: total - working])
        usable = [pk for pk in order if pk not in broken]
        others = set(usable[: min(outside.get(name, 0), len(usable))])
        numbers = _numbers(ids, rows, taken, place * FIRST_OF_KIND)
        found += [_card(pk, numbers[pk], node, name, broken, others) for pk in ids]
    return sorted(found, key=lambda card: card.index)


def resource_of(uuid: str) -> str:
    """Return the resource that a card of a node is one of."""
    return uuid.rpartition("/")[0]


def outside_use(pods: Iterable[Mapping[str, Any]]) -> dict[str, Counter[str]]:
    """Return how many cards the pods use, by node and resource."""
    found: dict[str, Counter[str]] = {}
    for pod in pods:
        if used := use(pod):
            found.setdefault(pod["spec"]["nodeName"], Counter()).update(used)
    return found


def use(pod: Mapping[str, Any]) -> Counter[str]:
    """Return how many cards of each resource a pod holds: its containers' together, or one initial container's."""
    together: Counter[str] = Counter()
    for container in pod["spec"].get("containers") or ():
        together.update(_asked(container))
    for container in pod["spec"].get("initContainers") or ():
        together |= _asked(container)
    return together


def _asked(container: Mapping[str, Any]) -> Counter[str]:
    resources = container.get("resources") or {}
    asked = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
    return Counter({name: _number(number) for name, number in asked.items() if _is_card(name)})


def _is_card(name: str) -> bool:
    return name == GPU or name.startswith(MIG)


def _resources(status: Mapping[str, Any]) -> dict[str, tuple[int, int]]:
    capacity, working = status.get("capacity") or {}, status.get("allocatable") or {}
    found = {name: (_number(number), _number(working.get(name, 0))) for name, number in capacity.items()}
    return {
        name: (total, min(works, total)) for name, (total, works) in found.items() if _is_card(name) and total
    }


def _type(resource: str, labels: Mapping[str, str], options: Options) -> str:
    """Return what we call these cards: our own label, what the operator maps, else by the product's name."""
    product = labels.get(names.GPU_TYPE) or labels.get(PRODUCT, "")
    whole = options.gpu_types.get(product) or labels.get(names.GPU_TYPE, "")
    if not whole and product:
        whole = gpu_type(SHARED.sub("", product).replace("-", " "))
    if resource == GPU or not whole:
        return whole
    return options.gpu_types.get(resource) or slice_type(whole, resource.removeprefix(MIG))


def _nameless(resources: Iterable[str]) -> str:
    return (
        f"The type of its cards is not known ({', '.join(resources)}): the node has neither the label {PRODUCT} of "
        f"GPU feature discovery nor {names.GPU_TYPE}."
    )


def _closed(node: Node, options: Options) -> str:
    spec = node.get("spec") or {}
    if spec.get("unschedulable"):
        return "The node is cordoned in its cluster."
    for taint in spec.get("taints") or ():
        key = taint["key"]
        if taint["effect"] in KEPT_AWAY and key not in {CORDON_TAINT, *options.tolerations}:
            return f"The node has the taint {key}:{taint['effect']}."
    return ""


def _is_ready(status: Mapping[str, Any]) -> bool:
    conditions = status.get("conditions") or ()
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def _address(status: Mapping[str, Any]) -> str:
    found = {each["type"]: each["address"] for each in status.get("addresses") or ()}
    return str(found.get("InternalIP") or found.get("Hostname") or "")


def _last_to_go(card: KnownCard | None) -> tuple[bool, bool, int]:
    """Order cards by how ready we are to give them up: free ones first, those that are out already before all."""
    if card is None:
        return False, True, 0
    return card.leased, card.state == "ok", -card.index


def _kept(resource: str, total: int, rows: Mapping[str, KnownCard]) -> list[str]:
    """Return the cards that are there: where they became fewer, those that tasks have stay longest."""
    ids = {f"{resource}/{number}" for number in range(total)}
    ids |= {pk for pk in rows if resource_of(pk) == resource}
    order = sorted(ids, key=lambda pk: (_last_to_go(rows.get(pk)), pk), reverse=True)
    return sorted(order[:total])


def _numbers(
    ids: Sequence[str], rows: Mapping[str, KnownCard], taken: Collection[int], first: int
) -> dict[str, int]:
    """Return each card's number: the one that it has, else the next free one from `first` on."""
    used, found = set(taken), {}
    for pk in ids:
        if pk in rows:
            found[pk] = rows[pk].index
            continue
        number = first
        while number in used:
            number += 1
        used.add(number)
        found[pk] = number
    return found


def _card(
    pk: str, index: int, node: NodeSeen, resource: str, broken: Collection[str], others: Collection[str]
) -> CardSeen:
    state, reason = "ok", ""
    if pk in broken:
        state, reason = "broken", f"The device plugin says that one of the node's {resource} does not work."
    elif pk in others:
        state, reason = "external", "used by a pod that is no task's"
    return CardSeen(
        index=index,
        uuid=pk,
        gpu_type=node.types[resource],
        memory_mib=node.memory_mib if resource == GPU else 0,
        state=state,
        reason=reason,
    )


def _number(text: object) -> int:
    """Return a whole number as the API writes it; 0 for anything else."""
    found = str(text)
    return int(found) if found.isascii() and found.isdigit() else 0
