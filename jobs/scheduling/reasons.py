"""The closed list of reasons why a task waits: a code, a sentence, and the numbers in it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

SENTENCES: dict[str, str] = {
    "hold": "held by its owner",
    "dependency": "waits for the tasks it depends on",
    "not_before": "is not to start before {at}",
    "backoff": "was stopped before and is started again from {at} on",
    "no_quota": "{business} has no quota of {types}",
    "quota": "asks {cards} {type}; {business} holds {used} of its {limit} with high tasks",
    "quota_over": "{business} holds {used} {type} with high tasks, its quota is {limit}: over by {over}",
    "quota_region": "asks {cards} {type}; {business} may take {left} more, but not enough in one region",
    "quota_kept": "asks {cards} {types}; what {business} may still take is kept for its task {head}, which waited "
    "longer",
    "elastic_cap": "asks {cards} {types}; {business} or its user may take {left} more with elastic tasks",
    "cap_kept": "asks {cards} {types}; what {business} may still take with elastic tasks is kept for its task {head}, "
    "which waited longer",
    "too_large": "asks {host_num} × {per_host} {types}; no usable host even after eviction: {hosts} have so "
    "many cards",
    "no_host": "asks {host_num} × {per_host} {types}; no usable host even after eviction: {hosts} have so many "
    "cards, and {out} more that are large enough take no starts",
    "no_container": "asks {host_num} × {per_host} {types} and names an image; {hosts} hosts that can run containers "
    "have so many cards",
    "no_process": "asks {host_num} × {per_host} {types} and names no image; {hosts} hosts that run plain processes "
    "have so many cards",
    "no_ceph": "asks {host_num} × {per_host} {types} and private ceph; {hosts} hosts that can mount it have so many "
    "cards",
    "no_mpijob": "asks {host_num} × {per_host} {types} as an MPIJob of a cluster; {hosts} hosts whose controller runs "
    "MPIJobs have so many cards",
    "storage_away": "asks {host_num} × {per_host} {types}; {hosts} hosts that can run it have so many cards, and "
    "{away} more can start nothing until their storage or container engine is back",
    "no_cards": "asks {per_host} {types} on one host; {free} are free, the largest host has {largest}",
    "no_cards_gang": "asks {host_num} hosts with {per_host} {types} each; {free} are free, {fitting} hosts "
    "have enough",
    "no_room": "asks {per_host} {types} on one host; {free} are free and {elastic} held by elastic tasks, "
    "the largest host has {largest} of them",
    "no_room_gang": "asks {host_num} hosts with {per_host} {types} each; {free} are free and {elastic} held "
    "by elastic tasks, {fitting} hosts have enough of them",
    "held_for": "asks {cards} {types}; {held} free cards are held for other tasks, whose victims are leaving",
    "reserved": "asks {cards} {types}; {bound} are reserved for other businesses",
    "refused": "asks {host_num} × {per_host} cards: the whole cluster could never hold it",
    "time_limit": "was stopped at its time limit",
    "evict_delay": "waits until {at} for cards to come free before others are evicted for it",
    "leaving": "its {cards} cards are found: {missing} of them come free when the tasks there are gone",
    "behind": "waits behind task {head}, the first in line",
    "kept_for_head": "the cards it could use are kept for task {head}, the first in line: it would have to "
    "end before {head} can start",
}
# What the end of no task takes away: hosts or a quota have to come, or the task has to ask for something else.
NOT_BY_ENDS = frozenset(
    {"no_quota", "no_host", "too_large", "no_container", "no_process", "no_ceph", "no_mpijob", "storage_away"}
)
TIMES = frozenset({"at"})  # arguments that are times in seconds: pages show them in the reader's zone

Advice = Literal["wait", "change", "ask"]  # nothing to do; the task could be changed; somebody could be asked
_ADVICE: dict[str, tuple[Advice, str]] = {
    "hold": ("change", "release it"),
    "dependency": ("wait", ""),
    "not_before": ("wait", ""),
    "backoff": ("wait", ""),
    "no_quota": ("ask", "ask for a quota, or submit it as an elastic task"),
    "quota": ("change", "submit it as elastic or auto, ask fewer cards, or stop a task of the business"),
    "quota_over": ("ask", "the quota was lowered: ask for more, or wait until tasks of the business end"),
    "quota_region": ("change", "ask fewer cards, or name a region with quota left"),
    "quota_kept": ("change", "submit it as elastic or auto, or wait until that task has started"),
    "elastic_cap": ("wait", "the cap frees as elastic tasks of the business or the user end"),
    "cap_kept": ("wait", ""),
    "too_large": ("change", "ask fewer cards on one host, or name more GPU types"),
    "no_host": ("ask", "ask operators when these hosts come back, or name more GPU types"),
    "no_container": ("ask", "ask operators for a container engine on more hosts, or name more GPU types"),
    "no_process": ("change", "name a container image"),
    "no_ceph": ("ask", "ask operators for a ceph client on more hosts, or name more GPU types"),
    "no_mpijob": ("ask", "ask operators whether the cluster's controller still runs with --mpijobs"),
    "storage_away": ("ask", "ask operators when the storage of these hosts is back"),
    "no_cards": ("change", "wait until cards come free, ask fewer cards on one host, or name more GPU types"),
    "no_cards_gang": ("change", "wait until cards come free, ask fewer hosts, or name more GPU types"),
    "no_room": ("change", "wait until cards come free, ask fewer cards on one host, or name more GPU types"),
    "no_room_gang": ("change", "wait until cards come free, ask fewer hosts, or name more GPU types"),
    "held_for": ("wait", ""),
    "reserved": ("change", "give it a time limit that ends before the reservation begins"),
    "refused": ("change", "ask fewer cards on one host, fewer hosts, or another GPU type"),
    "time_limit": ("change", "give it a longer time limit"),
    "evict_delay": ("wait", ""),
    "leaving": ("wait", ""),
    "behind": ("wait", ""),
    "kept_for_head": ("change", "give it a time limit that ends before the first in line can start"),
}


@dataclass(frozen=True, slots=True)
class Reason:
    """One reason of the list with its numbers; tasks of one shape share one object."""

    code: str  # a key of SENTENCES
    args: Mapping[str, int | float | str] = field(default_factory=dict)

    @property
    def sentence(self) -> str:
        """Return the English sentence; pages translate the template by its code."""
        return SENTENCES[self.code].format(**self.args)

    @property
    def advice(self) -> tuple[Advice, str]:
        """Return what its owner can do: wait, change the task or ask somebody, and how."""
        return _ADVICE[self.code]
