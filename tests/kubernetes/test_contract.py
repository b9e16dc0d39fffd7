"""What every executor keeps, whoever speaks for the host: the same orders on a host with an agent and on a cluster."""

import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from django.db import IntegrityError, transaction

from cluster import logs
from cluster.executors import agents
from cluster.executors.base import NewInstance, Observed
from cluster.models import Card, CardLease, Host, Instance
from tests.kubernetes.agent_site import AgentSite
from tests.kubernetes.sites import CUT, TWICE, UNHEARD, ClusterSite, Site, host, until
from tests.patience import WITHIN_S

ONE = "echo one >>$TAIJI_STORAGE/starts"
UNTIL_TOLD = "until [ -e $TAIJI_STORAGE/told ]; do sleep 0.02; done"


@pytest.fixture(params=["agent", pytest.param("kubernetes", marks=pytest.mark.kubernetes)])
def site(
    request: pytest.FixtureRequest, db: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Site]:
    made: Site
    if request.param == "agent":
        made = AgentSite(tmp_path / "host")
    else:
        made = ClusterSite(request.getfixturevalue("kube"), monkeypatch)
    yield made
    agents.stop(range(1, 20))
    until(made, lambda: not Instance.objects.exclude(phase="gone").exists())
    made.close()


def launch(
    on: Host, command: str | None, gang: int = 1, rank: int = 0, cards: int = 1, **more: Any
) -> uuid.UUID:
    """Want a command on the host, on the first of its cards that are free."""
    free = Card.objects.filter(host=on).exclude(leases__released_at__isnull=True, leases__isnull=False)
    ids = list(free.order_by("index").values_list("pk", "index")[:cards])
    secrets = more.pop("secrets", {})
    spec = {
        "label": f"gang {gang}",
        "command": command,
        "exit_command": "",
        "grace_s": 3.0,
        "env": {},
        "cards": [index for _, index in ids],
        "storage": "ads",
        "task_dir": "task-1",
        "hosts": [{"name": "h1", "address": "127.0.0.1", "cards": cards}] * more.pop("members", 1),
        "rank": rank,
        "master_port": 20001,
        **more,
    }
    cards_of = tuple(pk for pk, _ in ids)
    new = NewInstance(
        host_id=on.pk, gang=gang, rank=rank, label="", spec=spec, secrets=secrets, card_ids=cards_of
    )
    return agents.launch([new])[0]


def seen(gang: int = 1) -> list[Observed]:
    """Return what is known of the gang."""
    return agents.observe([gang])


def phase(site: Site, wanted: str, gang: int = 1) -> list[Observed]:
    """Wait until all of the gang are in a phase, and return what is known."""
    until(site, lambda: {one.phase for one in seen(gang)} == {wanted})
    return seen(gang)


def starts(site: Site) -> int:
    """Return how many commands were started."""
    file = site.storage / "ads" / "starts"
    return len(file.read_text().split()) if file.exists() else 0


def tell(site: Site) -> None:
    """Let go what runs until it is told to."""
    (site.storage / "ads" / "told").touch()


def log_of(site: Site, pk: uuid.UUID, text: bytes) -> bytes:
    """Return the log of an instance once `text` is in it."""
    until(site, lambda: text in logs.read(pk, 0, 10**6)[0])
    return logs.read(pk, 0, 10**6)[0]


def test_what_is_wanted_runs_once_and_its_end_is_told(site: Site) -> None:
    pk = launch(host(site), f"{ONE}; echo hello; exit 3")
    [gone] = phase(site, "gone")
    assert (gone.exit_code, gone.exit_signal, gone.by_itself) == (3, None, True)
    assert gone.running_at is not None
    assert log_of(site, pk, b"hello") == b"hello\n"
    assert starts(site) == 1
    assert (agents.release([1]), agents.release([1])) == (1, 0)


def test_a_card_is_never_given_twice_and_who_has_it_hears_nothing_of_that(site: Site) -> None:
    on = host(site)
    launch(on, f"{ONE}; sleep 60", cards=8)
    phase(site, "running")
    card = Card.objects.order_by("index")[0].pk
    new = NewInstance(host_id=on.pk, gang=2, rank=0, label="", spec={}, secrets={}, card_ids=(card,))
    with pytest.raises(IntegrityError), transaction.atomic():
        agents.launch([new])
    assert not Instance.objects.filter(gang=2).exists()
    phase(site, "running")
    assert starts(site) == 1


def test_a_stop_is_asked_for_once_and_asking_again_changes_nothing(site: Site) -> None:
    launch(host(site), "sleep 60")
    phase(site, "running")
    assert (agents.stop([1]), agents.stop([1])) == (1, 0)
    [gone] = phase(site, "gone")
    assert gone.by_itself is False
    assert agents.stop([1]) == 0
    assert agents.release([1]) == 1


def test_what_is_stopped_before_it_came_to_the_host_never_runs(site: Site) -> None:
    launch(host(site), ONE)
    agents.stop([1])
    [gone] = phase(site, "gone")
    assert (gone.exit_code, gone.running_at, gone.by_itself) == (None, None, False)
    assert gone.detail == "It was stopped before it started."
    for _ in range(10):
        site.step()
    assert starts(site) == 0


def test_cards_stay_with_a_process_until_it_is_gone(site: Site) -> None:
    launch(host(site), "trap '' TERM; sleep 60 & wait; sleep 60", cards=8, grace_s=1.0)
    phase(site, "running")
    agents.stop([1])
    phase(site, "ending")
    assert agents.release([1]) == 0
    phase(site, "gone")
    assert agents.release([1]) == 8


def test_the_exit_command_runs_beside_the_command_before_that_is_told(site: Site) -> None:
    launch(
        host(site), "trap 'exit 0' TERM; sleep 60 & wait", exit_command="echo saved >$TAIJI_TASK_DIR/saved"
    )
    phase(site, "running")
    agents.stop([1])
    phase(site, "gone")
    assert (site.storage / "ads" / "task-1" / "saved").read_text() == "saved\n"


def test_secrets_reach_the_process_and_nothing_that_is_kept(site: Site) -> None:
    pk = launch(host(site), "echo $KEY | tr a-z A-Z", secrets={"KEY": "hunter two"})
    phase(site, "gone")
    assert log_of(site, pk, b"HUNTER TWO\n")


@pytest.mark.parametrize(
    "status",
    [
        pytest.param(401, id="not known"),
        pytest.param(429, id="throttled"),
        pytest.param(500, id="not well"),
        pytest.param(CUT, id="line cut"),
        pytest.param(UNHEARD, id="done and not heard"),
        pytest.param(TWICE, id="done twice and 409"),
    ],
)
def test_calls_that_fail_for_a_while_lose_nothing_and_double_nothing(site: Site, status: int) -> None:
    on = host(site)
    site.fail(status, 2)
    pk = launch(on, f"{ONE}; echo hello; sleep 60")
    phase(site, "running")
    before = site.failed()
    assert before > 0
    site.fail(status, 2)
    agents.stop([1])
    [gone] = phase(site, "gone")
    assert site.failed() > before
    assert gone.by_itself is False
    assert log_of(site, pk, b"hello") == b"hello\n"
    assert (starts(site), agents.release([1])) == (1, 1)


def test_news_whose_line_is_cut_again_and_again_are_neither_missed_nor_doubled(site: Site) -> None:
    on = host(site)
    site.cut()
    launch(on, f"{ONE}; {UNTIL_TOLD}; exit 4")
    launch(on, f"{ONE}; sleep 60", gang=2)
    phase(site, "running")
    phase(site, "running", gang=2)
    site.cut()
    tell(site)
    agents.stop([2])
    site.step()
    site.cut()
    [ended], [stopped] = phase(site, "gone"), phase(site, "gone", gang=2)
    assert (ended.exit_code, ended.by_itself, stopped.by_itself) == (4, True, False)
    assert (starts(site), agents.release([1, 2])) == (2, 2)


def test_where_the_place_in_the_news_is_lost_all_is_told_anew_and_nothing_done_anew(site: Site) -> None:
    """On a cluster that is 410; what stands in its place for an agent is said in its `forget_place`."""
    on = host(site)
    launch(on, f"{ONE}; {UNTIL_TOLD}; exit 4")
    launch(on, f"{ONE}; sleep 60", gang=2)
    phase(site, "running")
    phase(site, "running", gang=2)
    before = site.places_lost()
    site.forget_place()
    tell(site)
    agents.stop([2])
    launch(on, f"{ONE}; exit 5", gang=3)
    [ended], [stopped], [new] = (phase(site, "gone", gang) for gang in (1, 2, 3))
    assert (ended.exit_code, stopped.by_itself, new.exit_code) == (4, False, 5)
    assert site.places_lost() > before
    assert (starts(site), agents.release([1, 2, 3])) == (3, 3)


def test_what_is_refused_for_good_is_gone_with_the_reason_and_disturbs_nothing_else(site: Site) -> None:
    """On a cluster that is 422; what stands in its place for an agent is said in its `refuse`."""
    on = host(site)
    launch(on, f"{ONE}; sleep 60")
    phase(site, "running")
    more = site.refuse()
    launch(on, ONE, gang=2, cards=7, **more)
    [refused] = phase(site, "gone", gang=2)
    assert refused.detail in {
        "The cluster does not take the pod: injected by the test",
        "The environment has a name that no variable can have: 'A=B'.",
    }
    assert (refused.exit_code, refused.running_at, refused.by_itself) == (None, None, True)
    assert agents.release([2]) == 7
    launch(on, f"{ONE}; exit 5", gang=3, cards=7)
    [after] = phase(site, "gone", gang=3)
    assert (after.exit_code, seen()[0].phase, starts(site)) == (5, "running", 2)


def test_who_is_killed_between_a_start_and_telling_of_it_is_followed_by_one_who_knows_it(site: Site) -> None:
    on = host(site)
    site.unheard(lambda: launch(on, f"{ONE}; {UNTIL_TOLD}; exit 4"))
    unstepped(lambda: starts(site))
    assert seen()[0].phase == "pending"
    site.restart()
    phase(site, "running")
    tell(site)
    [gone] = phase(site, "gone")
    assert (gone.exit_code, gone.by_itself, starts(site), agents.release([1])) == (4, True, 1, 1)


def test_who_is_killed_between_an_end_and_telling_of_it_is_followed_by_one_who_knows_it(site: Site) -> None:
    launch(host(site), f"{ONE}; trap 'echo >$TAIJI_STORAGE/ended; exit 6' TERM; sleep 60 & wait")
    phase(site, "running")
    site.unheard(lambda: agents.stop([1]))
    unstepped((site.storage / "ads" / "ended").exists)
    assert (seen()[0].phase, agents.release([1])) == ("running", 0)
    site.restart()
    [gone] = phase(site, "gone")
    assert (gone.exit_code, gone.by_itself, starts(site), agents.release([1])) == (6, False, 1, 1)


def unstepped(met: Callable[[], object]) -> None:
    """Wait until `met` is true while nobody speaks with the platform."""
    deadline = time.monotonic() + WITHIN_S
    while not met():
        assert time.monotonic() < deadline, "not within its time"
        time.sleep(0.02)


@pytest.mark.parametrize("when", ["before", "at the start", "while it runs", "at the end"])
def test_who_is_killed_at_any_moment_starts_nothing_twice_and_misses_no_end(site: Site, when: str) -> None:
    on = host(site)
    if when == "before":
        site.restart()
    launch(on, f"{ONE}; sleep 1; exit 4")
    if when == "at the start":
        until(site, lambda: seen()[0].phase != "pending" or starts(site))
        site.restart()
    if when in {"while it runs", "at the end"}:
        phase(site, "running")
        if when == "at the end":  # nobody looks while it ends
            time.sleep(1.5)
        site.restart()
    [gone] = phase(site, "gone")
    assert (gone.exit_code, gone.by_itself) == (4, True)
    assert starts(site) == 1


def test_the_members_of_a_gang_start_when_all_are_ready(site: Site) -> None:
    on = host(site)
    gang = {"members": 2, "wait_for_go": True}
    launch(on, ONE, rank=0, **gang)
    launch(on, f"{ONE}; sleep 60", rank=1, cards=0, **gang)
    until(site, lambda: starts(site) == 2)
    until(site, lambda: seen()[0].phase == "gone" and seen()[1].phase == "running")
    assert agents.stop([1]) == 1


def test_a_member_that_never_comes_keeps_the_others_from_starting(site: Site) -> None:
    on = host(site)
    launch(on, ONE, rank=0, members=2, wait_for_go=True)
    late = launch(on, ONE, rank=1, cards=0, members=2, wait_for_go=True)
    Instance.objects.filter(pk=late).update(host=elsewhere())
    until(site, lambda: seen()[0].phase == "ready")
    for _ in range(20):
        site.step()
    assert starts(site) == 0
    agents.stop([1])
    Instance.objects.filter(pk=late).update(phase="gone")
    [first, _] = phase(site, "gone")
    assert first.by_itself is False


def elsewhere() -> Host:
    """Return a host that nobody speaks for."""
    region = Host.objects.get().region
    return Host.objects.create(name="away", region=region)


def test_what_runs_and_is_nobodys_any_more_is_ended_before_anything_starts(site: Site) -> None:
    on = host(site)
    lost = launch(on, f"{ONE}; trap '' TERM; sleep 60 & wait; sleep 60", cards=8, grace_s=1.0)
    phase(site, "running")
    CardLease.objects.all().delete()
    Instance.objects.filter(pk=lost).delete()
    launch(on, "test $(wc -l <$TAIJI_STORAGE/starts) = 1", gang=2, cards=8)
    [gone] = phase(site, "gone", gang=2)
    assert gone.exit_code == 0
    assert gone.running_at is not None


def test_what_is_nobodys_is_ended_though_nothing_else_is_to_start(site: Site) -> None:
    lost = launch(host(site), "trap 'echo >$TAIJI_STORAGE/ended; exit' TERM; sleep 60 & wait")
    phase(site, "running")
    CardLease.objects.all().delete()
    Instance.objects.filter(pk=lost).delete()
    until(site, (site.storage / "ads" / "ended").exists)


def test_a_host_that_is_given_up_has_no_instance_and_ends_what_it_still_runs(site: Site) -> None:
    on = host(site)
    launch(on, "sleep 60")
    phase(site, "running")
    Host.objects.filter(pk=on.pk).update(lost_since="2026-01-01T00:00:00Z")
    assert agents.abandon([on.pk], "host lost") == 1
    [gone] = seen()
    assert (gone.phase, gone.detail, gone.exit_code) == ("gone", "host lost", None)
    until(site, lambda: Host.objects.get(pk=on.pk).lost_since is None)
    launch(on, "true", gang=2)
    [after] = phase(site, "gone", gang=2)
    assert after.exit_code == 0
