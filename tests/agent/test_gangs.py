"""A member of a gang starts its command when it is told that all are ready, and not before."""

import signal
import time

from tests.agent.conftest import Machine, marked, new_id, spec

GANG = {
    "wait_for_go": True,
    "hosts": [
        {"name": "a", "address": "127.0.0.2", "cards": 1},
        {"name": "b", "address": "127.0.0.3", "cards": 1},
    ],
}


def test_a_member_that_is_ready_says_so_and_starts_when_all_are(host: Machine) -> None:
    platform, instance = host.platform, new_id()
    platform.want(instance, spec("echo up; sleep 5", **GANG))
    platform.phase(instance, "ready")
    time.sleep(0.3)
    assert instance not in platform.logs
    platform.go(instance)
    platform.phase(instance, "running")
    platform.log_has(instance, b"up\n")
    platform.drop(instance)


def test_a_member_that_is_stopped_while_it_waits_never_starts(host: Machine) -> None:
    platform, instance = host.platform, new_id()
    platform.want(instance, spec("echo never", exit_command="echo never", **GANG))
    platform.phase(instance, "ready")
    platform.stop(instance)
    gone = platform.phase(instance, "gone")
    assert (gone["exit_code"], gone["by_itself"], gone["detail"]) == (
        None,
        False,
        "It was stopped before it started.",
    )
    assert (marked(instance), instance in platform.logs) == ([], False)


def test_the_word_to_start_that_comes_after_a_new_agent_is_heeded(machine: Machine) -> None:
    platform, instance = machine.platform, new_id()
    machine.start()
    platform.want(instance, spec("echo once; sleep 5", **GANG))
    platform.phase(instance, "ready")
    machine.end(signal.SIGKILL)
    platform.go(instance)
    machine.start()
    platform.phase(instance, "running")
    assert platform.log_has(instance, b"once\n") == b"once\n"
    platform.drop(instance)


def test_an_idle_member_keeps_its_place_and_waits_for_nobody(host: Machine) -> None:
    platform, instance = host.platform, new_id()
    platform.want(instance, spec(None, rank=1, **GANG))
    platform.phase(instance, "running")
    platform.stop(instance)
    platform.phase(instance, "gone")


def test_the_word_to_start_means_nothing_to_one_that_does_not_wait(host: Machine) -> None:
    platform, instance = host.platform, new_id()
    platform.want(instance, spec("trap 'echo hit' USR1; echo up; while :; do sleep 0.05; done"))
    platform.log_has(instance, b"up\n")
    platform.go(instance)
    time.sleep(0.3)
    platform.phase(instance, "running")
    assert platform.logs[instance] == b"up\n"
    platform.drop(instance)
