"""What an agent would say, in the fewest words: reports, cards, instances, and an agent to say them."""

import json
import uuid
from typing import Any

from django.test import AsyncClient, Client

from cluster import inventory
from cluster.executors import agents
from cluster.executors.base import NewInstance
from cluster.models import Card, Host, Instance

BOOT = "11111111-1111-4111-8111-111111111111"


def card(index: int, gpu_type: str = "P40", **more: object) -> dict[str, Any]:
    """Return a card that is well, as the builders of the world make it."""
    return {
        "index": index,
        "uuid": "",
        "gpu_type": gpu_type,
        "memory_mib": 0,
        "state": "ok",
        "reason": "",
        **more,
    }


def instance(pk: object, phase: str = "running", **more: object) -> dict[str, Any]:
    """Return an instance in this phase."""
    facts = {"exit_code": None, "exit_signal": None, "by_itself": None, "detail": "", "log_bytes": 0}
    return {"id": str(pk), "phase": phase, **facts, **more}


def report(seq: int = 1, cards: int = 8, **more: object) -> dict[str, Any]:
    """Return a report of a host with so many cards, and nothing on it."""
    return {
        "protocol": 1,
        "version": "0.1.0",
        "boot": BOOT,
        "seq": seq,
        "clock": 0.0,
        "address": "h1.test",
        "offers": ["process"],
        "cards": [card(index) for index in range(cards)],
        "instances": [],
        "have": "",
        "wait_s": 0,
        **more,
    }


def token(host: Host) -> str:
    """Give the host a token and return it."""
    secret = f"token-of-{host.name}"
    Host.objects.filter(pk=host.pk).update(token_hash=inventory.digest(secret))
    return secret


def launch(host: Host, gang: int = 1, rank: int = 0, cards: int = 0, **more: Any) -> uuid.UUID:
    """Want an instance on the host with its first so many cards, and return its id."""
    spec = {"label": f"gang {gang}", "command": "sleep 9", "env": {"A": "1"}}
    ids = Card.objects.filter(host=host).order_by("index").values_list("pk", flat=True)[:cards]
    new = {"secrets": {}, "spec": spec, "label": f"gang {gang}", "card_ids": tuple(ids), **more}
    return agents.launch([NewInstance(host_id=host.pk, gang=gang, rank=rank, **new)])[0]


def row(pk: uuid.UUID) -> Instance:
    """Return the instance as it is in the database now."""
    return Instance.objects.get(pk=pk)


class Agent:
    """The agent of one host: it syncs, and keeps what it was answered."""

    def __init__(self, host: Host) -> None:
        """Speak for the host."""
        self.host = host
        self.headers = {"authorization": f"Bearer {token(host)}"}
        self.cards = host.cards.count()
        self.seq = 0

    def report(self, **more: object) -> dict[str, Any]:
        """Return the next report."""
        self.seq += 1
        return report(**{"seq": self.seq, "cards": self.cards, **more})  # type: ignore[arg-type]

    async def async_sync(self, status: int = 200, **more: object) -> dict[str, Any]:
        """Send the next report, check the status, and return the answer."""
        response = await AsyncClient().post(
            "/api/agent/sync/", json.dumps(self.report(**more)), "application/json", headers=self.headers
        )
        assert response.status_code == status, response.content
        return dict(response.json())

    def sync(self, status: int = 200, **more: object) -> dict[str, Any]:
        """Do the same from code that is not asynchronous."""
        response = Client().post(
            "/api/agent/sync/", json.dumps(self.report(**more)), "application/json", headers=self.headers
        )
        assert response.status_code == status, response.content
        return dict(response.json())
