"""Which member of a gang a failure is put down to."""

from typing import Any

import pytest

from cluster.models import Instance
from tests.engine.started import after_pass, start
from tests.world import World

pytestmark = pytest.mark.django_db

WAITED = {"exit_code": None, "cause": "waited", "detail": "The first member did not say in time."}
SLOW = {"exit_code": None, "cause": "code_away", "detail": "The code was not there within 840 s."}


@pytest.mark.parametrize("said", [{}, SLOW], ids=["first is still fetching", "first says so itself"])
def test_one_that_waited_in_vain_for_the_first_member_is_not_blamed_but_that_one(
    world: World, said: dict[str, Any]
) -> None:
    task = start(world, hosts=2, cards=1, retry_limit=1)
    Instance.objects.update(phase="starting")
    first = Instance.objects.get(rank=0)
    world.host_says(task, "gone", 1, **WAITED)
    if said:
        world.host_says(task, "gone", 0, **said)
    else:
        assert after_pass(task).state == "stopping"
        world.host_says(task, "gone", 0, exit_code=None, ended_by_itself=False, detail="Stopped.")
    assert after_pass(task).state == "queued"
    attempt = task.attempts.get()
    assert (attempt.outcome_code, attempt.outcome_args["rank"]) == ("code_failed", 0)
    assert attempt.outcome_args["host"] == first.host.name
    assert attempt.outcome_args["detail"] == (said or WAITED)["detail"]
    assert task.avoid_hosts == [first.host_id]


def test_a_first_member_that_was_slow_itself_leaves_the_one_that_waited_alone(world: World) -> None:
    task = start(world, hosts=2, cards=1, retry_limit=1)
    Instance.objects.update(phase="starting")
    world.host_says(task, "gone", 0, **SLOW)
    assert after_pass(task).state == "stopping"
    world.host_says(task, "gone", 1, **WAITED)
    assert after_pass(task).state == "queued"
    assert task.avoid_hosts == [Instance.objects.get(rank=0, gang=task.attempts.get().pk).host_id]
