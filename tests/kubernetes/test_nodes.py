"""What a node says, as a host: its cards by count, and what keeps tasks from it."""

from typing import Any

import pytest

from cluster.kubernetes import nodes
from cluster.kubernetes.nodes import KnownCard, NodeSeen
from cluster.kubernetes.options import Options

OPTIONS = Options(region="SZ", namespace="tasks", storage_claim="storage", tolerations=(nodes.GPU,))
GPU, MIG = "nvidia.com/gpu", "nvidia.com/mig-1g.10gb"


def node(**more: Any) -> dict[str, Any]:
    """Return a node that is well and has 8 cards."""
    found: dict[str, Any] = {
        "metadata": {"name": "gpu-1", "labels": {"nvidia.com/gpu.product": "Tesla-P40"}},
        "spec": {},
        "status": {
            "capacity": {GPU: "8", "cpu": "64"},
            "allocatable": {GPU: "8", "cpu": "64"},
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }
    for path, value in more.items():
        first, _, second = path.partition("__")
        if second:
            found[first][second] = value
        else:
            found[first] = value
    return found


def seen(**more: Any) -> NodeSeen:
    """Return what such a node says."""
    return nodes.seen(node(**more), OPTIONS)


def states(found: list[nodes.CardSeen]) -> dict[int, str]:
    """Return the states of cards by number, of those that are not well."""
    return {card.index: card.state for card in found if card.state != "ok"}


@pytest.mark.parametrize(
    ("labels", "gpu_types", "name"),
    [
        ({"nvidia.com/gpu.product": "Tesla-P40"}, {}, "P40"),
        ({"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB"}, {}, "A100-SXM4-80GB"),
        ({"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3-SHARED"}, {}, "H100-80GB-HBM3"),
        ({"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB"}, {"NVIDIA-A100-SXM4-80GB": "A100"}, "A100"),
        ({"nvidia.com/gpu.product": "Tesla-P40", "taiji.io/gpu-type": "P40-old"}, {}, "P40-old"),
    ],
)
def test_cards_are_called_by_our_label_a_map_or_the_product(
    labels: dict[str, str], gpu_types: dict[str, str], name: str
) -> None:
    options = Options(region="SZ", namespace="tasks", storage_claim="storage", gpu_types=gpu_types)
    found = nodes.seen(node(metadata__labels=labels), options)
    assert (found.types, found.trouble) == ({GPU: name}, "")


def test_cards_whose_type_nothing_says_are_not_offered_and_the_host_says_why() -> None:
    found = seen(metadata__labels={})
    assert found.resources == {}
    assert "nvidia.com/gpu.product" in found.trouble


def test_slices_are_types_of_their_own_beside_whole_cards() -> None:
    room = {GPU: "2", MIG: "7"}
    found = seen(
        metadata__labels={"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB"},
        status__capacity=room,
        status__allocatable=room,
    )
    cards = nodes.cards(found, {}, [])
    assert [card.gpu_type for card in cards] == ["A100-SXM4-80GB"] * 2 + ["A100-1g.10gb"] * 7
    assert len({card.index for card in cards}) == 9
    assert {nodes.resource_of(card.uuid) for card in cards} == {GPU, MIG}


def known(*leased: int, cards: int = 8, **out: str) -> list[KnownCard]:
    """Return the rows of so many cards; `out` is the state of some, by `card_3`."""
    return [
        KnownCard(
            index=index, uuid=f"{GPU}/{index}", state=out.get(f"card_{index}", "ok"), leased=index in leased
        )
        for index in range(cards)
    ]


def test_cards_that_the_plugin_took_out_are_not_those_that_tasks_have() -> None:
    found = nodes.cards(seen(status__allocatable={GPU: "6"}), {}, known(4, 5, 6, 7))
    assert states(found) == {2: "broken", 3: "broken"}
    again = nodes.cards(
        seen(status__allocatable={GPU: "6"}), {}, known(4, 5, 6, 7, card_2="broken", card_3="broken")
    )
    assert states(again) == {2: "broken", 3: "broken"}


def test_the_same_cards_stay_out_once_others_are_free() -> None:
    rows = known(card_2="broken", card_3="broken")
    assert states(nodes.cards(seen(status__allocatable={GPU: "6"}), {}, rows)) == {2: "broken", 3: "broken"}


def test_where_cards_vanish_those_that_tasks_have_stay_longest() -> None:
    room = {GPU: "6"}
    found = nodes.cards(seen(status__capacity=room, status__allocatable=room), {}, known(6, 7))
    assert [card.index for card in found] == [0, 1, 2, 3, 6, 7]


def test_cards_that_other_pods_use_are_used_from_outside() -> None:
    found = nodes.cards(seen(), {GPU: 3}, known(5, 6, 7))
    assert sorted(states(found).values()) == ["external"] * 3
    assert not {5, 6, 7} & states(found).keys()


def test_more_use_than_there_are_cards_is_no_error() -> None:
    found = nodes.cards(seen(status__allocatable={GPU: "6"}), {GPU: 40}, known())
    assert sorted(states(found).values()) == ["broken"] * 2 + ["external"] * 6


def test_a_pod_uses_what_its_containers_ask_together_or_one_that_prepares() -> None:
    limits = [{"resources": {"limits": {GPU: number, "cpu": "1"}}} for number in ("1", "2")]
    first = [{"resources": {"limits": {GPU: "4"}}}]
    assert nodes.use({"spec": {"containers": limits}}) == {GPU: 3}
    assert nodes.use({"spec": {"containers": limits, "initContainers": first}}) == {GPU: 4}
    assert not nodes.use({"spec": {"containers": [{}]}})


@pytest.mark.parametrize(
    ("spec", "closed"),
    [
        ({}, ""),
        ({"unschedulable": True}, "The node is cordoned in its cluster."),
        ({"taints": [{"key": "team", "effect": "NoSchedule"}]}, "The node has the taint team:NoSchedule."),
        ({"taints": [{"key": "team", "effect": "PreferNoSchedule"}]}, ""),
        ({"taints": [{"key": GPU, "effect": "NoSchedule"}]}, ""),
        (
            {"taints": [{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]},
            "The node has the taint node.kubernetes.io/not-ready:NoSchedule.",
        ),
    ],
)
def test_what_keeps_pods_away_closes_the_host(spec: dict[str, Any], closed: str) -> None:
    assert seen(spec=spec).closed == closed


def test_a_node_is_ready_only_where_it_says_so() -> None:
    assert seen().ready
    for conditions in ([], [{"type": "Ready", "status": "Unknown"}], [{"type": "Ready", "status": "False"}]):
        assert not seen(status__conditions=conditions).ready
