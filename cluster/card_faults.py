"""Cards that go out and come back, told as events of their host; faults that operators take for cured."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from django.db import transaction

from cluster import clock, hints, host_events
from cluster.models import Card, Host, HostEvent
from cluster.reports import CardReport

# What is told of a card that has this state now, by code of host_events.py.
CODES = {
    Card.State.OK: "card_back",
    Card.State.BROKEN: "card_broken",
    Card.State.EXTERNAL: "card_external",
    Card.State.MISSING: "card_missing",
}
# Short work from outside takes a card and gives it back all the time: both are told once in so long.
FLIPS = frozenset({Card.State.OK.value, Card.State.EXTERNAL.value})
FLIPS_IN = timedelta(minutes=1)


def note(host_id: int, changed: Sequence[CardReport]) -> None:
    """Write an event for the cards of a host that change their state, before the rows do; two statements.

    Cards that change alike share one: a driver that hangs takes all of them. New ones that are well are none.
    Where cards are used from outside by turns, further statements see whether that was told lately.
    """
    if not changed:
        return
    before = dict(Card.objects.filter(host=host_id).values_list("index", "state"))
    alike: dict[tuple[str, str, bool], list[int]] = defaultdict(list)
    for card in changed:
        was = before.get(card.index, Card.State.OK)
        if card.state != was:
            alike[card.state, card.reason, {card.state, was} == FLIPS].append(card.index)
    now = clock.now()
    events = []
    for (state, reason, is_flip), indexes in alike.items():
        code, cards = CODES[Card.State(state)], _named(indexes)
        if is_flip and _was_told(host_id, code, cards, now - FLIPS_IN):
            host_events.note_once(host_id, "card_flips", {"cards": cards}, now)
        else:
            args = {"cards": cards, "reason": reason}
            events.append(HostEvent(host_id=host_id, at=now, code=code, args=args))
    HostEvent.objects.bulk_create(events)


def _was_told(host_id: int, code: str, cards: str, since: datetime) -> bool:
    return HostEvent.objects.filter(host=host_id, code=code, at__gt=since, args__cards=cards).exists()


def clear(card_ids: Iterable[int], actor_id: int | None, reason: str = "") -> int:
    """Take the faults of these cards for cured; their agents then offer them again, and report what is new.

    Returns how many cards that was: one without a fault, or whose fault lasts as long as it is seen, is none.
    """
    faulty: dict[int, list[tuple[int, str, str]]] = defaultdict(list)
    found = Card.objects.filter(pk__in=card_ids).exclude(fault="").order_by("host", "index")
    for host, index, fault, why in found.values_list("host", "index", "fault", "state_reason"):
        faulty[host].append((index, fault, why))
    for host_id, cards in faulty.items():
        with transaction.atomic():
            _clear(host_id, [fault for _, fault, _ in cards])
            reasons = "; ".join(sorted({why for _, _, why in cards}))
            args = {"cards": _named(index for index, _, _ in cards), "reason": reasons}
            host_events.note(host_id, "card_cleared", args=args, reason=reason, actor_id=actor_id)
            hints.publish(hints.host_topic(host_id))
    return sum(len(cards) for cards in faulty.values())


def _clear(host_id: int, faults: Sequence[str]) -> None:
    """Add to what a host's agent is told, without the faults that it reports no more."""
    host = Host.objects.select_for_update().get(pk=host_id)
    reported = set(Card.objects.filter(host=host_id).exclude(fault="").values_list("fault", flat=True))
    host.cleared_faults = sorted((reported & set(host.cleared_faults)) | set(faults))
    host.save(update_fields=["cleared_faults"])


def _named(indexes: Iterable[int]) -> str:
    return ", ".join(str(index) for index in indexes)
