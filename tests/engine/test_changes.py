"""What makes a pass plan anew: every change of what a plan is made from, and time."""

import threading
from collections.abc import Callable
from datetime import timedelta

import pytest
from django.db import connection, transaction
from django.utils import timezone

from cluster import inventory, sync
from cluster.models import Card, CardLease, GpuType, Host, Instance
from cluster.reports import CardReport, Report
from jobs import lifecycle, services
from jobs.engine import changes, lease, passes
from jobs.models import Attempt, Change, Claim, PassLease, Policy, Task
from jobs.scheduling import types
from jobs.scheduling.decide import decide
from jobs.states import State
from quotas.models import Business, Quota, Reservation
from tests.engine.quiet import planned, settle
from tests.world import World

pytestmark = pytest.mark.django_db


@pytest.fixture
def quiet(world: World) -> World:
    """Return a world where nothing is left to do: one task runs, one is held, two wait for cards."""
    world.business("ads", P40=16)
    world.business("nlp", P40=0)
    world.host("h1", cards=2)
    running = world.task("ads", cards=2)
    passes.run()
    world.host_says(running, "running")
    waiting = [world.task("nlp", "ben", wanted_class="elastic") for _ in range(2)]
    services.hold(world.task("nlp", "ben", wanted_class="elastic"), waiting[0].user)
    settle()
    assert running_task().state == "running"
    return world


def running_task() -> Task:
    return Task.objects.earliest("pk")


def waiting_task() -> Task:
    return Task.objects.filter(state="queued").earliest("pk")


def held_task() -> Task:
    return Task.objects.get(state="held")


def report_of(host: Host, *, broken: bool = False) -> Report:
    """Return what the host's agent says of its cards, all as they are but for the first."""
    cards = tuple(
        CardReport(
            index=card.index,
            uuid=card.uuid,
            gpu_type=card.gpu_type.name,
            memory_mib=card.memory_mib,
            state="broken" if broken and card.index == 0 else card.state,
            reason=card.state_reason,
        )
        for card in host.cards.select_related("gpu_type").order_by("index")
    )
    return Report(
        boot="b", seq=host.agent_seq + 1, clock=timezone.now().timestamp(), version="1",
        address=host.address, offers=("process",), trouble="", cards=cards, instances=(), have="", wait_s=0.0,
    )  # fmt: skip


CHANGES: dict[str, Callable[[World], object]] = {
    "a submit": lambda world: world.task("ads"),
    "a stop of a waiting task": lambda world: services.stop(waiting_task(), waiting_task().user),
    "a stop of a running task": lambda world: services.stop(running_task(), running_task().user),
    "a hold": lambda world: services.hold(waiting_task(), waiting_task().user),
    "a release": lambda world: services.release(held_task(), held_task().user),
    "a report that a task is over": lambda world: world.host_says(running_task(), "gone"),
    "a report that a card is broken": lambda world: sync.take(
        Host.objects.get(), report_of(Host.objects.get(), broken=True), timezone.now()
    ),
    "an edited priority": lambda world: Task.objects.filter(pk=waiting_task().pk).update(priority=2),
    "an attempt turned high": lambda world: Attempt.objects.update(task_class="high"),
    "a new host": lambda world: world.host("h2"),
    "a cordoned host": lambda world: Host.objects.update(state="cordoned"),
    "a host that another kind of instance came to": lambda world: Host.objects.update(offers=["container"]),
    "a host that fell silent": lambda world: Host.objects.update(
        last_seen_at=timezone.now() - timedelta(hours=1)
    ),
    "a host that registered": lambda world: inventory.register("h3", "SZ", "h3.test"),
    "a host renamed": lambda world: Host.objects.update(name="h9"),
    "a new card": lambda world: Card.objects.create(
        host=Host.objects.get(), index=9, gpu_type=world.gpu_type()
    ),
    "a card mended or broken": lambda world: Card.objects.filter(index=0).update(state="external"),
    "a card given back": lambda world: CardLease.objects.update(released_at=timezone.now()),
    "a type renamed": lambda world: GpuType.objects.update(name="P41"),
    "a business renamed": lambda world: Business.objects.filter(flag="nlp").update(flag="llm"),
    "a new quota": lambda world: world.business("new", P40=1),
    "an edited quota": lambda world: Quota.objects.update(cards=3),
    "a quota of the admin": lambda world: Quota.objects.earliest("pk").save(),
    "a deleted quota": lambda world: Quota.objects.earliest("pk").delete(),
    "a reservation": lambda world: Reservation.objects.create(
        business=world.business("nlp"), gpu_type=world.gpu_type(), cards=1
    ),
    "a policy": lambda world: Policy.objects.update_or_create(pk=1, defaults={"values": {"slice_s": 60}}),
    "a claim": lambda world: Claim.objects.create(
        task=waiting_task(), gpu_type=world.gpu_type(), hosts={}, made_at=timezone.now()
    ),
    "a change past all models": lambda world: raw("UPDATE quotas_quota SET cards = 1"),
}


def raw(statement: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(statement)


@pytest.mark.parametrize("change", list(CHANGES))
def test_a_change_makes_the_next_pass_plan_anew(quiet: World, change: str) -> None:
    CHANGES[change](quiet)
    assert planned()


def test_a_changed_reservation_makes_the_next_pass_plan_anew(quiet: World) -> None:
    kept = Reservation.objects.create(business=quiet.business("nlp"), gpu_type=quiet.gpu_type(), cards=1)
    settle()
    Reservation.objects.filter(pk=kept.pk).update(cards=2)
    assert planned()
    settle()
    kept.delete()
    assert planned()


def test_where_nothing_changes_a_pass_plans_nothing(quiet: World) -> None:
    assert not planned()
    assert not planned()


def test_what_hosts_say_at_every_report_is_no_change(quiet: World) -> None:
    host = Host.objects.get()
    sync.take(host, report_of(host), timezone.now())
    settle()  # it spoke for the first time
    for _ in range(2):
        Host.objects.update(last_seen_at=timezone.now() - timedelta(seconds=30))
        host = Host.objects.get()
        sync.take(host, report_of(host), timezone.now())
        Instance.objects.update(log_bytes=17)
        assert Host.objects.get().agent_seq == host.agent_seq + 1
        assert not planned()


def test_a_reason_that_a_pass_writes_is_no_change(quiet: World) -> None:
    Task.objects.filter(pk=waiting_task().pk).update(reason_code="behind", reason_args={"head": 7})
    assert not planned()


def test_time_alone_makes_a_pass_plan_anew_when_the_plan_said_so(quiet: World) -> None:
    soon = timezone.now() + timedelta(seconds=20)
    quiet.task("ads", ready_at=soon)
    settle()
    due_at = lease.due_at()
    assert due_at is not None
    assert abs(due_at - soon) < timedelta(milliseconds=5)
    PassLease.objects.update(due_at=timezone.now())
    assert planned()


def test_a_plan_is_made_now_and_then_even_if_nothing_is_known_to_have_changed(quiet: World) -> None:
    due_at = lease.due_at()
    assert due_at is not None
    assert due_at <= timezone.now() + timedelta(seconds=passes.PLAN_EVERY_S)


def test_a_clock_that_was_ahead_does_not_keep_passes_from_planning(quiet: World) -> None:
    PassLease.objects.update(due_at=timezone.now() + timedelta(hours=1))
    assert planned()


def test_a_change_that_comes_while_a_plan_is_made_is_seen_by_the_next_pass(
    quiet: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def slow(snapshot: types.Snapshot, policy: types.Policy) -> types.Plan:
        Quota.objects.update(cards=5)
        return decide(snapshot, policy)

    monkeypatch.setattr("jobs.engine.passes.decide", slow)
    Quota.objects.update(cards=4)
    assert planned()
    monkeypatch.undo()
    assert planned()
    assert not planned()


def test_a_pass_that_was_broken_off_leaves_the_plan_due(
    quiet: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(snapshot: types.Snapshot, policy: types.Policy) -> types.Plan:
        raise MemoryError

    monkeypatch.setattr("jobs.engine.passes.decide", broken)
    quiet.task("ads")
    with pytest.raises(MemoryError):
        passes.run()
    assert not Change.objects.exists()
    monkeypatch.undo()
    assert planned()


def test_a_plan_that_could_not_be_written_whole_is_made_again_at_once(
    quiet: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    quiet.host("h2", cards=1)
    monkeypatch.setattr("jobs.engine.specs.members", lambda *_arguments: 1 / 0)
    assert planned()  # it may not even begin
    assert planned()
    monkeypatch.undo()
    assert planned()
    assert waiting_states() == ["queued", "starting"]


def waiting_states() -> list[str]:
    rows = Task.objects.filter(business__flag="nlp").exclude(state="held")
    return sorted(rows.values_list("state", flat=True))


def test_a_refused_move_marks_nothing_that_a_pass_would_go_on_for(quiet: World) -> None:
    with transaction.atomic():
        assert not lifecycle.move([held_task().pk], State.QUEUED, State.HELD, code="hold")
    settle()


@pytest.mark.django_db(transaction=True)
def test_a_change_that_is_not_committed_yet_is_seen_once_it_is() -> None:
    if connection.vendor == "sqlite":
        return  # one writer at a time: a pass waits until the change is committed
    world = World()
    world.business("ads", P40=16)
    world.host("h1")
    settle()
    written, go_on = threading.Event(), threading.Event()

    def submit() -> None:
        with transaction.atomic():
            world.task("ads")
            written.set()
            go_on.wait(60)
        connection.close()

    writer = threading.Thread(target=submit)
    writer.start()
    try:
        assert written.wait(60)
        assert not planned()
    finally:
        go_on.set()
        writer.join()
    assert planned()
    assert Task.objects.get().state == "starting"


def test_the_triggers_come_back_after_they_were_taken_away(quiet: World) -> None:
    changes.unwatch()
    Quota.objects.update(cards=2)
    assert not planned()
    changes.watch()
    changes.watch()
    Quota.objects.update(cards=1)
    assert planned()


def test_a_pass_that_lost_its_lease_leaves_the_marks_to_its_successor(quiet: World) -> None:
    stale = lease.take("one that stalls", 0)
    assert stale is not None
    lease.let_go(stale)
    holder = lease.take("another", 0)
    assert holder is not None
    Quota.objects.update(cards=5)
    with pytest.raises(lease.StaleHolder):
        changes.take(stale)
    assert changes.take(holder)
