"""The story of the product, with real processes: a task runs, is evicted, and comes back."""

import time
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.patience import WITHIN_S
from tests.system.product import Product, document

pytestmark = pytest.mark.system

# Counts in its own folder, goes on from there, and says what it does; its checkpoint is whole whenever it is killed.
COUNTING = """
cd "$TAIJI_TASK_DIR"
n=$(cat checkpoint 2>/dev/null || echo 0)
echo "$$ from $n on $CUDA_VISIBLE_DEVICES"
while :; do n=$((n + 1)); echo $n > checkpoint.new; mv checkpoint.new checkpoint; sleep 0.1; done
"""
LEAVING = 'echo "leaving at $(cat "$TAIJI_TASK_DIR/checkpoint")"'


class Story:
    """Tasks of one running product, by id."""

    def __init__(self, product: Product) -> None:
        """Tell the story of `product`."""
        self.product = product
        self.api = product.api

    def submit(self, command: str, **more: Any) -> int:
        """Submit a task and return its id."""
        answer = self.api.post("tasks/", json=document(command, **more))
        assert answer.status_code == 201, answer.text
        return int(answer.json()["id"])

    def stop_all(self) -> None:
        """Stop what has not ended, and wait until it has."""
        for task in self.open():
            self.api.post(f"tasks/{task}/stop/")
        self.wait(lambda: not self.open())

    def open(self) -> list[int]:
        """Return the tasks that have not ended."""
        return [task["id"] for task in self.api.get("tasks/", params={"state": "open"}).json()["results"]]

    def task(self, task: int) -> dict[str, Any]:
        """Return what the API says of a task."""
        return dict(self.api.get(f"tasks/{task}/").json())

    def states(self, *tasks: int) -> list[str]:
        """Return the states of tasks."""
        return [self.task(task)["state"] for task in tasks]

    def log(self, task: int, attempt: int = 1) -> str:
        """Return what an attempt printed."""
        answer = self.api.get(f"tasks/{task}/log/", params={"attempt": attempt, "rank": 0, "offset": 0})
        return answer.text if answer.status_code == 200 else ""

    def printed(self, task: int, text: str) -> None:
        """Wait for a text in the log: its last bytes come after the end is known."""
        self.wait(lambda: text in self.log(task))

    def wait(self, holds: Callable[[], bool], within_s: float = WITHIN_S) -> None:
        """Wait until something holds, and fail with the logs of the product where it does not."""
        deadline = time.monotonic() + within_s
        while not self._holds(holds):
            assert time.monotonic() < deadline, self.product.logs()
            time.sleep(0.05)

    def _holds(self, holds: Callable[[], bool]) -> bool:
        try:
            return holds()
        except (httpx.TransportError, KeyError, ValueError):
            return False  # the web server is on its way back

    def reach(self, state: str, *tasks: int, within_s: float = WITHIN_S) -> None:
        """Wait until all the tasks are in `state`."""
        self.wait(lambda: self.states(*tasks) == [state] * len(tasks), within_s)

    def processes(self, task: int) -> list[int]:
        """Return the processes that run the task's start command, by the folder in their environment."""
        mark = f"/task-{task}\0".encode()
        found = []
        for proc in Path("/proc").glob("[0-9]*"):
            try:
                environment, words = (proc / "environ").read_bytes(), (proc / "cmdline").read_bytes()
            except OSError:
                continue
            if (
                mark in environment
                and words.startswith(b"/bin/sh\0-c\0")
                and str(self.product.data).encode() in environment
            ):
                found.append(int(proc.name))
        return found


@pytest.fixture
def story(running: Product) -> Iterator[Story]:
    """Return the story of a product that the tests of this module share; each leaves it empty."""
    story = Story(running)
    yield story
    story.stop_all()


def test_elastic_tasks_make_room_for_a_high_one_and_come_back_from_their_checkpoints(story: Story) -> None:
    first = story.submit(COUNTING, cards=2, exit_cmd=LEAVING, enable_evicted_pulled_up=True)
    story.reach("running", first)
    second = story.submit(COUNTING, cards=2, exit_cmd=LEAVING)
    story.reach("running", second)
    others = [story.submit(COUNTING, cards=2, enable_evicted_pulled_up=True) for _ in range(2)]
    story.reach("running", *others)
    story.wait(lambda: "from 0" in story.log(first))

    high = story.submit("echo high on $CUDA_VISIBLE_DEVICES; sleep 2", cards=4, elastic=False)
    story.reach("succeeded", high)
    assert story.log(high).startswith("high on 0,1,2,3")
    # The fewest victims, the longest runners first; the rest was never touched.
    assert [story.task(task)["evictions"] for task in (first, second, *others)] == [1, 1, 0, 0]
    story.reach("evicted", second)
    story.reach("running", first)
    left_at = int(story.log(first).rsplit("leaving at ", 1)[1])
    story.wait(lambda: "from" in story.log(first, attempt=2))
    came_back_at = int(story.log(first, attempt=2).split("from ")[1].split()[0])
    assert came_back_at >= left_at > 0

    evicted = story.task(first)["attempts"][0]
    assert evicted["outcome"] == "evicted"
    for task in (first, *others):
        story.api.post(f"tasks/{task}/stop/")
    story.reach("stopped", first, *others)
    assert [story.processes(task) for task in (first, second, high, *others)] == [[]] * 5


def test_the_high_task_starts_within_three_seconds_of_the_last_victims_end(story: Story) -> None:
    victims = [story.submit("sleep 300", cards=4) for _ in range(2)]
    story.reach("running", *victims)
    high = story.submit("date +%s.%N; sleep 1", cards=6, elastic=False)
    story.reach("succeeded", high)
    story.reach("evicted", *victims)
    ended = max(
        datetime.fromisoformat(story.task(task)["attempts"][-1]["ended_at"]).timestamp() for task in victims
    )
    assert float(story.log(high).split()[0]) - ended < 3.0


def test_a_gang_over_two_hosts_of_a_type_is_refused_where_there_is_only_one(story: Story) -> None:
    answer = story.api.post("tasks/", json=document("true", host_num=2))
    assert answer.status_code == 400
    assert answer.json()["errors"][0]["field"] == "host_num"


def test_tasks_live_through_down_and_up(product: Product) -> None:
    product.up()
    story = Story(product)
    tasks = [story.submit(COUNTING, cards=2), story.submit(COUNTING, cards=2, elastic=False)]
    story.reach("running", *tasks)
    before = [story.processes(task) for task in tasks]
    assert all(len(pids) == 1 for pids in before)
    product.down()
    assert [story.processes(task) for task in tasks] == before
    product.up()
    story = Story(product)
    time.sleep(3)  # a pass and a sync or two
    assert story.states(*tasks) == ["running", "running"]
    assert [story.processes(task) for task in tasks] == before
    assert [len(story.task(task)["attempts"]) for task in tasks] == [1, 1]
    for task in tasks:
        story.api.post(f"tasks/{task}/stop/")
    story.reach("stopped", *tasks)


def test_a_task_that_ended_while_the_product_was_down_is_seen_to_have_succeeded(product: Product) -> None:
    product.up()
    story = Story(product)
    task = story.submit("echo begun; sleep 4; echo done", cards=1, enable_evicted_pulled_up=True)
    story.reach("running", task)
    product.down()
    time.sleep(5)
    product.up()
    story = Story(product)
    story.reach("succeeded", task)
    story.wait(lambda: story.log(task) == "begun\ndone\n")
    assert len(story.task(task)["attempts"]) == 1


def test_whatever_is_killed_no_task_is_lost_or_run_twice_and_no_card_is_given_away_twice(
    product: Product,
) -> None:
    product.up()
    story = Story(product)
    tasks = [story.submit(COUNTING, cards=2, enable_evicted_pulled_up=True) for _ in range(3)]
    tasks.append(story.submit(COUNTING, cards=2, elastic=False))
    story.reach("running", *tasks)
    before = [story.processes(task) for task in tasks]
    for name in ("agent-sim-p40", "web", "worker", "beat", "valkey"):
        killed = product.kill(name)
        story.wait(lambda name=name, killed=killed: product.pid(name) not in {0, killed})  # type: ignore[misc]
        story.wait(lambda: product.health() is not None)
    probe = story.submit("echo alive", cards=1)
    assert probe
    time.sleep(5)
    assert story.states(*tasks) == ["running"] * 4
    assert [story.processes(task) for task in tasks] == before
    held = [
        (host["host"], card)
        for task in tasks
        for host in story.task(task)["attempts"][-1]["hosts"]
        for card in host["cards"]
    ]
    assert len(held) == len(set(held)) == 8
    assert [len(story.task(task)["attempts"]) for task in tasks] == [1] * 4
    for task in tasks:
        story.api.post(f"tasks/{task}/stop/")
    story.reach("stopped", *tasks)
    story.reach("succeeded", probe)
