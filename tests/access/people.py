"""One person of each role, one row of each kind, and every address of the product, asked by each of them."""

import copy
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

from django.contrib.auth.models import User
from django.db import transaction
from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver
from django.utils import timezone

from cluster.models import HostEvent
from jobs.engine import what_ifs
from jobs.models import Policy, SavedView, Template
from jobs.simulation.what_if import Change
from quotas.models import ApiToken, PlatformRole, Reservation
from tests.portal.conftest import run
from tests.world import World

ROLES = ("nobody", "outsider", "stranger", "member", "owner", "lead", "auditor", "operator")
METHODS = ("get", "post", "put", "patch", "delete")
QUERIES = {"search/": "?q=x"}  # what an address needs to be asked at all
# What somebody gets: in, sent away to log in, hidden (it does not exist), forbidden, no such method.
IN, AWAY, HIDDEN, FORBIDDEN, NO_METHOD, BROKEN = "i", "a", "h", "f", "m", "!"


def routes() -> list[str]:
    """Return the route of every address, as the resolver has it."""
    return sorted(set(_routes(get_resolver().url_patterns, "")))


def _routes(patterns: Any, before: str) -> Iterator[str]:
    for pattern in patterns:
        route = before + str(pattern.pattern)
        if isinstance(pattern, URLResolver):
            yield from _routes(pattern.url_patterns, route)
        elif isinstance(pattern, URLPattern):
            yield route


class House:
    """A world in which there is one of everything."""

    def __init__(self, world: World) -> None:
        world.business("ads", P40=16)
        self.task = world.task("ads", "owner")
        world.user("member", "ads")
        world.user("lead", "ads", role="lead")
        world.user("stranger", "speech")
        world.user("outsider")
        PlatformRole.objects.create(user=world.user("auditor"), role="auditor")
        PlatformRole.objects.create(user=world.user("operator"), role="operator")
        host = world.host("h1")
        run(self.task, host)
        HostEvent.objects.create(host=host, at=timezone.now(), code="registered")
        Policy.objects.create(pk=1)  # the admin's page makes it at the first look
        owner = User.objects.get(username="owner")
        ads = world.business("ads")
        asked = what_ifs.ask(User.objects.get(username="operator"), 1, Change(policy={"min_run_s": 60}))
        token = ApiToken.objects.create(user=owner, name="ci", digest="1", business=ads)
        view = SavedView.objects.create(user=owner, name="v", query="state=open")
        self.numbers: dict[str, int] = {
            "cluster/what-if": asked.pk,
            "what-ifs": asked.pk,
            "tasks": self.task.pk,
            "tasks/views": view.pk,
            "views": view.pk,
            "templates": Template.objects.create(name="t", business=ads, user=owner, config={}).pk,
            "account/tokens": token.pk,
            "tokens": token.pk,
            "reservations": Reservation.objects.create(business=ads, gpu_type=world.gpu_type(), cards=2).pk,
            "hosts": host.pk,
            "businesses": ads.pk,
        }
        self.more: dict[str, str] = {"user": "member", "verb": "hold", "digest": "sha256:" + "0" * 64}
        self.clients = {role: _client(role) for role in ROLES}

    def path(self, route: str) -> str:
        """Return the address of a route, about the rows that are there."""
        plain = route.removeprefix("api/v1/").removeprefix("^")
        numbers = [
            self.numbers[name] for name in sorted(self.numbers, key=len) if plain.startswith(f"{name}/")
        ]
        verb = "cordon" if plain.startswith("hosts/") else self.more["verb"]
        values = {**self.more, "verb": verb, "pk": str(numbers[-1] if numbers else 1)}

        def filled(part: "re.Match[str]") -> str:
            name = part[1].rpartition(":")[2]
            return values.get(name, "1")

        return "/" + re.sub(r"<([^>]+)>", filled, route)

    def ask(self, role: str, method: str, path: str) -> str:
        """Return what somebody of this role gets; nothing of it stays."""
        return kind_of(self.answer(role, method, path))

    def answer(self, role: str, method: str, path: str, *, then: Callable[[], object] | None = None) -> Any:
        """Return the answer to somebody of this role; look at what was done by `then`, for nothing of it stays."""
        client = copy.deepcopy(self.clients[role])
        answer: Any = None
        with suppress(_Undone), transaction.atomic():
            body = {} if method == "get" else {"data": "{}", "content_type": "application/json"}
            answer = getattr(client, method)(path + QUERIES.get(path.rpartition("/log/")[2], ""), **body)
            if then is not None and answer.status_code < 400:  # what is refused does nothing
                then()
            raise _Undone
        return answer


class _Undone(Exception):
    pass


def _client(role: str) -> Client:
    client = Client(raise_request_exception=False)
    if role != "nobody":
        client.force_login(User.objects.get(username=role))
    return client


def kind_of(answer: Any) -> str:
    """Return in one letter what an answer means."""
    status = answer.status_code
    if status == 401 or (status == 302 and answer["Location"].startswith("/login/")):
        return AWAY
    known = {403: FORBIDDEN, 404: HIDDEN, 405: NO_METHOD}
    return known.get(status) or (BROKEN if status >= 500 else IN)
