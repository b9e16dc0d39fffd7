"""Evictions with real processes: cards change hands only when the old process is gone, and each once."""

import time

import pytest

from cluster.models import Host
from jobs.models import Task
from tests.agent.conftest import marked
from tests.life.house import House

# Writes down, again and again, that it still holds its card.
NOW = "read now _ </proc/uptime; echo $now"
HOLDS = f'cd "$TAIJI_TASK_DIR"; while :; do {NOW} > held.new; mv held.new held; sleep 0.01; done'


@pytest.fixture
def house(either: House) -> House:
    """Return a house with one host of two cards, a short grace and hardly any backoff."""
    either.policy(pull_up_backoff_s=0.1, exit_grace_s=1.5)
    either.host("h1", 2)
    return either


def last_held(house: House, task: Task) -> float:
    return float((house.storage / f"business-{task.business_id}/task-{task.pk}/held").read_text())


@pytest.mark.parametrize(
    ("command", "exit_command"),
    [(f"echo up; {HOLDS}", "sleep 1"), (f"trap '' TERM; echo up; {HOLDS}", "")],
    ids=["whose exit command takes its time", "that ignores TERM until KILL"],
)
def test_a_high_task_starts_only_when_the_last_process_of_its_victim_is_gone(
    house: House, command: str, exit_command: str
) -> None:
    victim = house.submit(command, host_gpu_num=2, exit_cmd=exit_command, is_elasticity=True)
    house.printed(victim, "up")
    house.reach(victim, "running")
    high = house.submit(NOW, host_gpu_num=2)
    house.reach(high, "succeeded")
    assert float(house.printed(high, "\n")) > last_held(house, victim)
    house.reach(victim, "evicted")
    assert marked(str(house.member(victim).pk)) == []


def test_a_victim_comes_back_only_when_its_old_process_is_gone_and_its_stop_harms_no_new_one(
    house: House,
) -> None:
    house.host("h2", 2)
    task = house.submit(f"echo up; {HOLDS}", is_elasticity=True, enable_evicted_pulled_up=True)
    house.reach(task, "running")
    old = house.member(task)
    host = next(one for one in house.hosts if one.name == old.host.name)
    host.pause()  # the order to stop is on its way for as long as this lasts
    Host.objects.filter(name=host.name).update(state="draining")
    house.reach(task, "evicting")
    time.sleep(0.5)  # some passes, and another host is free
    house.reach(task, "evicting")
    assert (task.attempts.count(), bool(marked(str(old.pk)))) == (1, True)
    host.go_on()
    house.until(lambda: task.attempts.count() == 2)
    house.reach(task, "running")
    assert marked(str(old.pk)) == []
    new = house.member(task)
    assert new.host.name != host.name
    time.sleep(0.5)
    house.reach(task, "running")
    assert marked(str(new.pk))


def test_a_victim_that_ended_well_before_the_order_reached_it_has_succeeded(house: House) -> None:
    command = 'echo up; while ! test -e "$TAIJI_TASK_DIR/enough"; do sleep 0.01; done'
    victim = house.submit(command, host_gpu_num=2, is_elasticity=True, enable_evicted_pulled_up=True)
    house.printed(victim, "up")
    house.reach(victim, "running")
    house.hosts[0].pause()
    high = house.submit("echo high", host_gpu_num=2)
    house.reach(victim, "evicting")
    (house.storage / f"business-{victim.business_id}/task-{victim.pk}/enough").touch()
    house.until(lambda: not marked(str(house.member(victim).pk)))
    house.hosts[0].go_on()
    house.reach(high, "succeeded")
    house.reach(victim, "succeeded")
    assert victim.attempts.get().outcome == "succeeded"
