"""Every address that changes something leaves a line that says who did what from where."""

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import URLPattern

from cluster.models import Host
from jobs.api.urls import urlpatterns as api
from jobs.models import Attempt, Task
from jobs.portal.deed_words import ENDINGS, WORDS
from jobs.what_ifs import WhatIf
from quotas.audit import AuditEntry
from tests.access.people import METHODS, House
from tests.access.table import TABLE
from tests.agent.packing import code
from tests.portal.submitting import GOOD
from tests.world import World

API = "api/v1/"
PASSWORD = "correct-horse-battery"
# Routes and beginnings of routes that leave no line, and why.
EXEMPT = {
    "POST api/v1/tasks/preview/": "a dry run changes nothing",
    "POST tasks/new/preview/": "a dry run changes nothing",
    "POST tasks/new/fill/": "it fills a form, which nobody has sent yet",
    "POST i18n/setlang/": "a language is a cookie of the browser",
    "POST kubernetes/admission/mpijobs/": "an API server asks; what people do is noted with the task that it becomes",
    "POST api/agent/": "hosts speak for themselves: what happens to them stands among their events",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Deed:
    """What is done at an address: by whom, with what, and what the line calls it."""

    said: str
    by: str = "owner"
    send: dict[str, Any] = field(default_factory=dict)
    state: str = ""  # of a task that is made for it
    verb: str = ""  # in the place of the address's
    more: Callable[[House], dict[str, Any]] = lambda _house: {}  # to send, of the rows that are there


DOCUMENT = {"business_flag": "ads", "start_cmd": "true"}
ARCHIVE = code(start_sh="true")
RESERVATION = {"business": "ads", "gpu_type": "P40", "cards": 1, "region": "SZ"}
STATES = {"stop": "running", "hold": "queued", "release": "held", "free": "keeping", "retry": "failed"}
HOSTS = {"cordon": "ready", "uncordon": "cordoned", "drain": "ready", "remove": "ready", "restore": "removed"}
WHY = {"reason": "the fan is loud"}


def ids(house: House) -> dict[str, Any]:
    """Return a choice of the one task."""
    return {"ids": [house.numbers["tasks"]]}


def task_deed(verb: str) -> str:
    """Return what a verb on a task is called."""
    return "task.submitted" if verb == "retry" else f"task.{verb}"


DEEDS: dict[str, Deed] = {
    "POST account/logout/": Deed(said="logout.everywhere"),
    "POST account/password/": Deed(
        said="password.changed",
        send={
            "old_password": PASSWORD,
            "new_password1": f"another-{PASSWORD}",
            "new_password2": f"another-{PASSWORD}",
        },
    ),
    "POST api/v1/me/password/": Deed(
        said="password.changed",
        send={"old_password": PASSWORD, "new_password": f"another-{PASSWORD}"},
    ),
    "POST account/tokens/": Deed(said="token.made", send={"name": "x", "scope": "read", "days": "30"}),
    "POST account/tokens/<int:pk>/revoke/": Deed(said="token.revoked"),
    "POST cluster/what-if/new/": Deed(
        said="whatif.asked",
        by="operator",
        send={"days": 3, "quota_0_cards": 24},
        more=lambda house: {
            "quota_0_business": house.numbers["businesses"],
            "quota_0_gpu_type": house.task.gpu_types[0],
        },
    ),
    "POST cluster/what-if/<int:pk>/call-off/": Deed(said="whatif.called_off", by="operator"),
    "POST cluster/what-if/<int:pk>/apply/": Deed(said="whatif.applied", by="operator", send=WHY),
    "POST hosts/<int:pk>/<slug:verb>/": Deed(
        said="host.cordon", by="operator", send=WHY | {"seen": "ready"}, verb="cordon"
    ),
    "POST login/": Deed(said="login", send={"username": "owner", "password": PASSWORD}),
    "POST logout/": Deed(said="logout"),
    "POST tasks/<int:pk>/<slug:verb>/": Deed(said="task.stop", verb="stop"),
    "POST tasks/bulk/": Deed(
        said="task.stop",
        send={"verb": "stop", "confirmed": "1"},
        more=lambda house: {"ids": str(house.task.pk)},
    ),
    "POST tasks/new/": Deed(said="task.submitted", send=GOOD),
    "POST tasks/views/": Deed(said="view.saved", send={"name": "x", "query": "state=open"}),
    "POST tasks/views/<int:pk>/remove/": Deed(said="view.removed"),
    "POST templates/<int:pk>/remove/": Deed(said="template.removed"),
    "POST api/v1/tasks/": Deed(said="task.submitted", send=DOCUMENT),
    "POST api/v1/tasks/bulk/": Deed(said="task.submitted", send={"tasks": [DOCUMENT]}),
    "PUT api/v1/uploads/<str:digest>/": Deed(said="upload.sent"),
    "POST api/v1/templates/": Deed(said="template.saved", send={"name": "x", "config": {"GPUName": "P40"}}),
    "PUT api/v1/templates/<int:pk>/": Deed(
        said="template.saved", send={"name": "x", "config": {"GPUName": "P40"}}
    ),
    "DELETE api/v1/templates/<int:pk>/": Deed(said="template.removed"),
    "POST api/v1/views/": Deed(said="view.saved", send={"name": "x", "query": "state=open"}),
    "DELETE api/v1/views/<int:pk>/": Deed(said="view.removed"),
    "POST api/v1/tokens/": Deed(said="token.made", send={"name": "x", "scope": "read"}),
    "DELETE api/v1/tokens/<int:pk>/": Deed(said="token.revoked"),
    "PUT api/v1/businesses/<int:pk>/members/<str:user>/": Deed(
        said="member.changed", by="operator", send={"role": "lead"}
    ),
    "DELETE api/v1/businesses/<int:pk>/members/<str:user>/": Deed(said="member.removed", by="operator"),
    "POST api/v1/reservations/": Deed(said="reservation.added", by="operator", send=RESERVATION),
    "PUT api/v1/reservations/<int:pk>/": Deed(said="reservation.changed", by="operator", send=RESERVATION),
    "DELETE api/v1/reservations/<int:pk>/": Deed(said="reservation.removed", by="operator"),
    "POST api/v1/what-ifs/": Deed(said="whatif.asked", by="operator", send={"policy": {"min_run_s": 120}}),
    "POST api/v1/what-ifs/<int:pk>/call-off/": Deed(said="whatif.called_off", by="operator"),
    "POST api/v1/what-ifs/<int:pk>/apply/": Deed(said="whatif.applied", by="operator", send=WHY),
    **{
        f"POST api/v1/tasks/<int:pk>/{verb}/": Deed(said=task_deed(verb), state=state)
        for verb, state in STATES.items()
    },
    **{
        f"POST api/v1/tasks/bulk/{verb}/": Deed(said=task_deed(verb), state=state, more=ids)
        for verb, state in STATES.items()
    },
    **{
        f"POST api/v1/hosts/<int:pk>/{verb}/": Deed(said=f"host.{verb}", by="operator", send=WHY, state=state)
        for verb, state in HOSTS.items()
    },
}


def unsafe() -> list[str]:
    """Return every method of every address that may change something, but for the admin's."""
    pages = [
        f"{method.upper()} {route}"
        for route, row in TABLE.items()
        if not route.startswith(API)
        for method in METHODS[1:]
        if method in row
    ]
    calls = []
    for pattern in api:
        assert isinstance(pattern, URLPattern)
        view = getattr(pattern.callback, "cls", None)
        calls += [f"{m.upper()} {API}{pattern.pattern}" for m in METHODS[1:] if view and hasattr(view, m)]
    return [*pages, *calls]


def test_every_address_that_changes_something_is_tried_here_or_says_why_it_leaves_no_line() -> None:
    open_ones = [one for one in unsafe() if one not in DEEDS and not one.startswith(tuple(EXEMPT))]
    assert open_ones == []
    assert set(DEEDS) - set(unsafe()) == set(), "these addresses are gone"


def prepare(house: House, deed: Deed, route: str) -> None:
    """Bring about the state that the deed needs."""
    house.numbers["tasks"] = house.task.pk
    if deed.said == "whatif.applied":
        WhatIf.objects.update(state="done", result={})
    if not deed.state:
        return
    if "hosts/" in route:
        Host.objects.update(state=deed.state)
    elif deed.state == "keeping":
        Task.objects.filter(pk=house.task.pk).update(state="keeping")
        Attempt.objects.update(outcome="succeeded", outcome_code="succeeded")
    elif deed.state != "running":
        other = Task.objects.create(
            **{
                name: getattr(house.task, name)
                for name in ("business", "user", "config", "wanted_class", "host_num", "host_gpu_num")
            },
            task_flag="other",
            gpu_types=house.task.gpu_types,
            state=deed.state,
        )
        house.numbers["tasks"] = other.pk


@pytest.mark.parametrize("address", sorted(DEEDS))
def test_a_deed_leaves_a_line_with_who_what_and_where_from(address: str, world: World) -> None:
    house, deed = House(world), DEEDS[address]
    method, _space, route = address.partition(" ")
    prepare(house, deed, route)
    client: Any = Client()
    if PASSWORD in deed.send.values():
        owner = User.objects.get(username="owner")
        owner.set_password(PASSWORD)
        owner.save()
    if route != "login/":
        client.force_login(User.objects.get(username=deed.by))
    house.more |= {"digest": f"sha256:{hashlib.sha256(ARCHIVE).hexdigest()}"}
    if deed.verb:
        route = route.replace("<slug:verb>", deed.verb)
    send: Any = deed.send | deed.more(house)
    how: dict[str, Any] = {"REMOTE_ADDR": "10.1.2.3"}
    path = house.path(route)
    if "uploads/" in route:
        send, how["content_type"], path = ARCHIVE, "application/gzip", f"{path}?business=ads"
    elif route.startswith(API):
        send, how["content_type"] = json.dumps(send), "application/json"
    answer = getattr(client, method.lower())(path, send, **how)
    assert answer.status_code in {200, 201, 204, 302}, answer.content.decode()[:500]
    lines = list(AuditEntry.objects.filter(address="10.1.2.3").values_list("actor", "deed"))
    # What is applied writes a line for each thing that it changes besides.
    assert (deed.by, deed.said) in lines, (answer.status_code, answer.content.decode()[:300])
    assert deed.said in WORDS or deed.said.rpartition(".")[2] in ENDINGS, (
        "the page of the audit has words for it"
    )


def test_a_template_that_is_saved_from_the_form_leaves_a_line_too(world: World) -> None:
    House(world)
    client = Client()
    client.force_login(User.objects.get(username="owner"))
    client.post("/tasks/new/", GOOD | {"do": "template", "save_name": "night", "save_for": "me"})
    assert AuditEntry.objects.get(deed="template.saved").actor == "owner"
