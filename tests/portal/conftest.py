"""People at the portal, and tasks with a past for them to look at."""

from collections.abc import Callable, Iterator
from datetime import timedelta

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone, translation

from cluster.models import Card, CardLease, Host, Instance
from jobs.models import Attempt, Task, TaskEvent
from jobs.states import State
from tests.world import World

Login = Callable[[User], Client]


@pytest.fixture(autouse=True)
def _english_afterwards() -> Iterator[None]:
    """Leave no language behind: a request of the test client keeps its own for all that comes after."""
    yield
    translation.deactivate()


@pytest.fixture
def login() -> Login:
    """Return a function that gives a browser in which a user is logged in."""

    def enter(user: User) -> Client:
        client = Client()
        client.force_login(user)
        return client

    return enter


@pytest.fixture
def ann(world: World, login: Login) -> Client:
    """Return the browser of a member of `ads`, which has quota and a host to run on."""
    world.business("ads", P40=16)
    world.host("h1")
    return login(world.user("ann", "ads"))


@pytest.fixture
def colleague(world: World, ann: Client, login: Login) -> Client:
    """Return the browser of another member of `ads`."""
    return login(world.user("cid", "ads"))


@pytest.fixture
def outsider(world: World, ann: Client, login: Login) -> Client:
    """Return the browser of a member of another business."""
    return login(world.user("oz", "speech"))


@pytest.fixture
def operator(world: World, ann: Client, login: Login) -> Client:
    """Return the browser of an operator."""
    return login(world.operator())


def run(task: Task, *hosts: Host, outcome: str = "", **fields: object) -> Attempt:
    """Give `task` an attempt on the first cards of each host: running, or ended as `outcome`."""
    now = timezone.now()
    attempt = Attempt.objects.create(
        task=task,
        number=task.attempts.count() + 1,
        task_class=task.wanted_class if task.wanted_class != "auto" else "elastic",
        gpu_type_id=task.gpu_types[0],
        cards=task.host_num * task.host_gpu_num,
        created_at=now - timedelta(minutes=5),
        running_at=now - timedelta(minutes=4),
        ended_at=now if outcome else None,
        outcome=outcome,
        **fields,
    )
    for rank, host in enumerate(hosts):
        phase = Instance.Phase.GONE if outcome else Instance.Phase.RUNNING
        instance = Instance.objects.create(
            host=host, gang=attempt.pk, rank=rank, label="x", spec={}, phase=phase
        )
        for card in Card.objects.filter(host=host)[: task.host_gpu_num]:
            released = timezone.now() + timedelta(seconds=1) if outcome else None
            CardLease.objects.create(card=card, instance=instance, gang=instance.gang, released_at=released)
    if not outcome:
        Task.objects.filter(pk=task.pk).update(state=State.RUNNING)
        task.refresh_from_db()
    return attempt


def note(
    task: Task, code: str, new: str = "", *, actor: User | None = None, args: dict[str, object] | None = None
) -> None:
    """Write an event of `task` into its past."""
    TaskEvent.objects.create(
        task=task, at=timezone.now(), code=code, new_state=new, args=args or {}, actor=actor
    )


def text(browser: Client, task: Task, **headers: str) -> str:
    """Return the page of a task, its blanks and line ends as one blank each."""
    return " ".join(browser.get(f"/tasks/{task.pk}/", headers=headers).content.decode().split())
