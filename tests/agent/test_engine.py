"""Which engine a host has, what an order says of its container, and what the guide says of the options."""

import argparse
import re
from pathlib import Path
from typing import Any

import pytest

from cluster.agent import engine
from cluster.agent.container_spec import device_nodes, read_container
from cluster.agent.engine import EngineAway, EngineFault, candidates, is_choice, open_engine, tagged
from cluster.agent.offers import Offers
from cluster.agent.options import arguments
from cluster.agent.orders import BadSpec, read_spec
from tests.agent.conftest import ROOT, spec

PODMAN, DOCKER = "podman:/run/podman/podman.sock", "docker:/var/run/docker.sock"


@pytest.mark.parametrize(
    ("choice", "uid", "found"),
    [
        ("auto", 0, [PODMAN, DOCKER]),
        ("none", 0, []),
        ("podman", 0, [PODMAN]),
        ("docker", 1000, [DOCKER]),
        ("podman", 1000, ["podman:/run/user/1000/podman/podman.sock"]),
        ("docker:/x/y.sock", 0, ["docker:/x/y.sock"]),
    ],
)
def test_the_operators_choice_says_where_to_look(choice: str, uid: int, found: list[str]) -> None:
    assert is_choice(choice)
    assert candidates(choice, {}, uid) == found


def test_an_ordinary_users_podman_listens_in_his_run_folder() -> None:
    assert candidates("podman", {"XDG_RUNTIME_DIR": "/r"}, 7) == ["podman:/r/podman/podman.sock"]


@pytest.mark.parametrize("kind", ["podman", "docker"])
def test_an_engine_that_does_not_answer_is_away(kind: str, tmp_path: Path) -> None:
    with pytest.raises(EngineAway):
        open_engine(f"{kind}:{tmp_path}/none.sock").ping()


def test_a_client_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(engine.MODULES, "podman", "cluster.agent.no_such_module")
    with pytest.raises(EngineFault, match=r"is not installed \(pip install 'taiji-agent\[podman\]'\)"):
        open_engine(PODMAN)


def test_a_host_with_no_engine_offers_plain_processes(tmp_path: Path) -> None:
    offers = Offers(processes=True, engine=f"podman:{tmp_path}/none.sock")
    assert (offers.refresh(), offers.now, offers.engine) == (False, ("process",), None)
    nothing = Offers(processes=False, engine="none")
    assert (nothing.refresh(), nothing.now) == (False, ())


@pytest.mark.parametrize(
    ("image", "said"),
    [("a", False), ("h:5000/a", False), ("a:1", True), ("h:5000/a:1", True), (f"a@sha256:{'0' * 64}", True)],
)
def test_a_tag_or_a_digest_says_which_version_is_meant(image: str, said: bool) -> None:
    assert tagged(image) is said


def test_an_order_of_before_containers_is_one_of_plain_processes() -> None:
    assert read_spec(spec("true")).container is None


def test_what_an_order_does_not_say_of_its_container_is_no_limit() -> None:
    found = read_container({"image": "a:1"})
    assert found is not None
    assert (found.memory_mib, found.cpus, found.shm_mib, found.pids, found.read_only) == (0, 0.0, 0, 0, False)
    assert (found.network, found.user, found.registry, found.pull_timeout_s) == ("host", "", None, 600.0)


@pytest.mark.parametrize(
    ("container", "fault"),
    [
        ({}, "lacks image"),
        ({"image": "a", "network": "container:x"}, "'container:x' is not a network"),
        ({"image": "a", "user": "root"}, "'root' is not a UID:GID"),
        ({"image": "a", "memory_mib": "much"}, "cannot be read"),
        ({"image": "a", "registry": {"username": "u"}}, "lacks password"),
        ("a", "cannot be read"),
    ],
)
def test_a_container_that_cannot_be_made_is_refused(container: Any, fault: str) -> None:
    with pytest.raises(BadSpec, match=fault):
        read_spec(spec("true", container=container))


def test_a_card_is_looked_for_by_its_own_device(tmp_path: Path) -> None:
    for bus, uuid, minor in (("0000:01", "GPU-a", 0), ("0000:02", "GPU-b", 5)):
        (tmp_path / bus).mkdir()
        words = f"Model: \t\t NVIDIA H200\nGPU UUID: \t {uuid}\nDevice Minor: \t {minor}\n"
        (tmp_path / bus / "information").write_text(words)
    assert device_nodes(["GPU-b"], tmp_path) == ["/dev/nvidiactl", "/dev/nvidia5"]
    assert device_nodes(["MIG-c"], tmp_path) == ["/dev/nvidiactl"]
    assert device_nodes([], tmp_path) == []


def test_the_guide_names_every_option() -> None:
    guide = (ROOT / "docs/agent.md").read_text()
    groups = [a for a in arguments()._actions if isinstance(a, argparse._SubParsersAction)]
    for command in groups[0].choices.values():
        for action in command._actions:
            for option in action.option_strings:
                assert option in guide or option in {"-h", "--help"}, option
    for variable in re.findall(r"TAIJI_AGENT_\w+", guide):
        assert variable.removeprefix("TAIJI_AGENT_").lower() in {
            action.dest for action in groups[0].choices["run"]._actions
        }
