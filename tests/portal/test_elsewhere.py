"""A task that runs an MPIJob which its owner brought: what its pages say, and what they do not offer."""

import pytest
from django.test import Client

from tests.world import World

JOB = {"namespace": "research", "name": "train", "uid": "u-1"}


@pytest.mark.parametrize(("state", "verbs"), [("queued", {"hold", "stop"}), ("failed", set())])
def test_it_may_be_steered_but_neither_run_again_nor_copied(
    state: str, verbs: set[str], world: World, ann: Client
) -> None:
    task = world.task(state=state, needs="mpijob", config={"start_cmd": "x", "mpijob": JOB})
    page = ann.get(f"/tasks/{task.pk}/").content.decode()
    for verb in ("hold", "stop", "retry"):
        assert (f'action="/tasks/{task.pk}/{verb}/"' in page) is (verb in verbs), verb
    assert f"clone={task.pk}" not in page
    assert "Runs the MPIJob research/train of its cluster" in page


def test_who_asks_for_a_copy_all_the_same_is_told_where_it_can_be_made(world: World, ann: Client) -> None:
    task = world.task(state="failed", needs="mpijob", config={"start_cmd": "x", "mpijob": JOB})
    for answer in (
        ann.get(f"/tasks/new/?clone={task.pk}", follow=True),
        ann.post(f"/tasks/{task.pk}/retry/", follow=True),
    ):
        assert answer.redirect_chain[-1][0] == f"/tasks/{task.pk}/"
        assert "then kubectl apply it once more" in answer.content.decode()
    ann.post("/i18n/setlang/", {"language": "zh-hans"})
    said = ann.get(f"/tasks/new/?clone={task.pk}", follow=True).content.decode()
    assert "先 kubectl delete，再 kubectl apply" in said
