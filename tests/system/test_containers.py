"""Tasks in containers on the whole product: from a POST to what their hosts ran."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.agent import engines
from tests.agent.engines import IMAGE, Service
from tests.system.product import Product, document

pytestmark = pytest.mark.system
OVER = {"succeeded", "failed", "stopped"}


@pytest.fixture(scope="module")
def podman() -> Iterator[Service]:
    """Return a Podman."""
    with engines.service() as service:
        yield service


@pytest.fixture(scope="module")
def contained(podman: Service, tmp_path_factory: pytest.TempPathFactory, migrated: Path) -> Iterator[Product]:
    """Return a started product whose two hosts run containers."""
    folder = tmp_path_factory.mktemp("product") / "dä ta"
    simulated = "P40:2,P40:2"
    product = Product(folder, like=migrated, TAIJI_AGENT_ENGINE=podman.choice, TAIJI_SIMULATE=simulated)
    product.up()
    yield product
    product.clear_away()


def submitted(product: Product, command: str, **more: object) -> int:
    """Submit a task and return its id."""
    with product.api as api:
        answer = api.post("tasks/", json=document(command, **more))  # type: ignore[arg-type]  # cards among them
    assert answer.status_code == 201, answer.text
    return int(answer.json()["id"])


def over(product: Product, task: int, within_s: float = 60.0) -> dict[str, Any]:
    """Return what is said of a task once it is over."""
    deadline = time.monotonic() + within_s
    while True:
        with product.api as api:
            found: dict[str, Any] = api.get(f"tasks/{task}/").json()
        if found["state"] in OVER:
            return found
        assert time.monotonic() < deadline, (found, product.logs())
        time.sleep(0.2)


def log_of(product: Product, task: int, rank: int, text: str) -> str:
    """Return the log of a member once `text` is in it."""
    deadline = time.monotonic() + 20
    while True:
        with product.api as api:
            found = api.get(f"tasks/{task}/log/", params={"rank": rank}).text
        if text in found:
            return found
        assert time.monotonic() < deadline, found
        time.sleep(0.2)


def test_a_gang_runs_in_containers_and_shares_its_folder(contained: Product, podman: Service) -> None:
    command = (
        'echo "rank $RANK of $WORLD_SIZE"; touch "$TAIJI_TASK_DIR/$RANK"; ls /;'
        'until test -e "$TAIJI_TASK_DIR/1"; do sleep 0.1; done'
    )
    task = submitted(
        contained, command, cards=2, host_num=2, image_full_name=IMAGE, exec_start_in_all_mpi_pods=True
    )
    assert over(contained, task)["state"] == "succeeded", contained.logs()
    for rank in (0, 1):
        lines = log_of(contained, task, rank, "sys\n").splitlines()
        assert lines[0] == f"rank {rank} of 2"
        assert {"bin", "taiji"} <= set(lines)
        assert "home" not in lines  # not the host's root
    assert podman.containers() == []


def test_a_task_whose_image_nobody_has_fails_with_the_cause_and_gives_its_cards_back(
    contained: Product, podman: Service
) -> None:
    image = f"{podman.registry.address}/nobody/has:1"
    task = submitted(contained, "echo never", cards=2, image_full_name=image)
    found = over(contained, task)
    assert found["state"] == "failed"
    assert f"The image {image} cannot be had" in str(found["attempts"]), found
    with contained.api as api:
        assert [row["largest_block"] for row in api.get("free-cards/").json()] == [2]


def test_a_container_is_stopped_as_any_task(contained: Product, podman: Service) -> None:
    command = "trap 'echo saved; exit 0' TERM; echo up; while :; do sleep 0.1; done"
    task = submitted(contained, command, image_full_name=IMAGE, exit_cmd="echo leaving")
    log_of(contained, task, 0, "up")
    with contained.api as api:
        assert api.post(f"tasks/{task}/stop/").status_code == 200
    assert over(contained, task)["state"] == "stopped"
    assert "leaving\n" in log_of(contained, task, 0, "saved")
    assert podman.containers() == []


def test_what_is_in_the_data_folder_stays_unseen(contained: Product) -> None:
    folder = Path(contained.data)
    task = submitted(contained, f"ls '{folder}'; ls '{folder}/storage'", image_full_name=IMAGE)
    over(contained, task)
    seen = log_of(contained, task, 0, "business-")
    assert "secrets.json" not in seen
