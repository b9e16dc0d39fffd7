"""Instances are wanted, stopped, observed, and give back their cards."""

import threading
import time
from collections.abc import Callable
from datetime import timedelta

import pytest
from django.db import IntegrityError, connection, transaction
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries

from cluster import vault
from cluster.executors import agents
from cluster.executors.base import Executor, NewInstance
from cluster.models import Card, CardLease, Instance
from tests.cluster import words
from tests.patience import WITHIN_S
from tests.world import World


def test_the_agents_module_is_an_executor() -> None:
    executor: Executor = agents  # mypy compares the signatures
    assert executor.observe.__doc__


def test_a_launch_writes_rows_and_leases_and_keeps_secrets_sealed(world: World) -> None:
    host = world.host("h1", 4)
    pk = words.launch(host, gang=5, cards=2, secrets={"KEY": "hunter2"})
    instance = words.row(pk)
    assert (instance.host, instance.gang, instance.phase, instance.wanted) == (host, 5, "pending", True)
    assert "hunter2" not in instance.secrets
    assert vault.unseal(instance.secrets) == {"KEY": "hunter2"}
    leased = CardLease.objects.filter(instance=pk, released_at__isnull=True)
    assert list(leased.order_by("card__index").values_list("card__index", flat=True)) == [0, 1]


def test_a_card_that_is_leased_already_refuses_the_whole_launch(world: World) -> None:
    host = world.host("h1", 2)
    words.launch(host, gang=1, cards=1)
    with pytest.raises(IntegrityError), transaction.atomic():
        words.launch(host, gang=2, cards=2)
    assert not Instance.objects.filter(gang=2).exists()
    assert CardLease.objects.count() == 1


def test_a_launch_of_many_is_a_fixed_number_of_statements(
    world: World, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    hosts = [world.host(f"h{number}", 4) for number in range(10)]
    cards = {host.pk: tuple(host.cards.values_list("pk", flat=True)) for host in hosts}
    new = [
        NewInstance(host_id=host, gang=1, rank=rank, label="", spec={}, secrets={}, card_ids=ids)
        for rank, (host, ids) in enumerate(cards.items())
    ]
    with django_assert_num_queries(2):
        agents.launch(new)
    assert CardLease.objects.count() == 40


def test_a_stop_is_asked_once_and_spares_the_gone_and_the_others(world: World) -> None:
    host = world.host("h1", 4)
    stopped, gone, other = words.launch(host, 1, 0), words.launch(host, 1, 1), words.launch(host, 2)
    Instance.objects.filter(pk=gone).update(phase="gone")
    assert agents.stop([1]) == 1
    first = words.row(stopped)
    assert (first.wanted, first.stop_asked_at is not None) == (False, True)
    assert agents.stop([1]) == 0
    assert words.row(stopped).stop_asked_at == first.stop_asked_at
    assert (words.row(gone).wanted, words.row(other).wanted) == (True, True)


def test_cards_come_back_only_from_members_that_are_gone(world: World) -> None:
    hosts = world.host("h1", 2), world.host("h2", 2)
    gone, _running = words.launch(hosts[0], 1, 0, cards=2), words.launch(hosts[1], 1, 1, cards=2)
    assert agents.release([1]) == 0
    Instance.objects.filter(pk=gone).update(phase="gone")
    assert agents.release([1]) == 2
    assert agents.release([1]) == 0
    assert Card.objects.filter(leases__released_at__isnull=True).count() == 2


def test_a_release_holds_even_where_the_clock_went_backwards(world: World) -> None:
    pk = words.launch(world.host("h1", 1), 1, cards=1)
    ahead = timezone.now() + timedelta(hours=1)
    CardLease.objects.update(leased_at=ahead)
    Instance.objects.filter(pk=pk).update(phase="gone")
    assert agents.release([1]) == 1
    assert CardLease.objects.get().released_at == ahead


def test_what_is_observed_comes_by_gang_and_rank_in_one_query(
    world: World, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    host = world.host("h1", 0)
    words.launch(host, 2, 1)
    second = words.launch(host, 2, 0)
    words.launch(host, 1)
    words.launch(host, 3)
    Instance.objects.filter(pk=second).update(phase="gone", exit_code=3, ended_by_itself=False, detail="x")
    with django_assert_num_queries(1):
        seen = agents.observe([1, 2])
    assert [(one.gang, one.rank) for one in seen] == [(1, 0), (2, 0), (2, 1)]
    assert (seen[1].phase, seen[1].exit_code, seen[1].by_itself, seen[1].detail) == ("gone", 3, False, "x")
    assert (seen[0].id, seen[0].host_id, seen[0].host_name) == (seen[0].id, host.pk, "h1")


def test_the_cards_that_failed_under_what_failed_by_itself_are_named(
    world: World, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    failed, fine = (
        words.launch(world.host(name, 3), 1, rank, cards=3) for rank, name in enumerate(("h1", "h2"))
    )
    Card.objects.filter(index=1).update(state="broken", state_reason="XID 79")
    Card.objects.filter(index=2).update(state="missing")
    Instance.objects.filter(pk=failed).update(phase="gone", exit_signal=6, ended_by_itself=True)
    Instance.objects.filter(pk=fine).update(phase="gone", exit_code=0, ended_by_itself=True)
    with django_assert_num_queries(2):
        seen = agents.observe([1])
    assert [one.broken_cards for one in seen] == ["card 1: XID 79; card 2: missing", ""]


def test_giving_up_a_host_leaves_its_gangs_members_elsewhere_alone(world: World) -> None:
    away, there = world.host("away", 0), world.host("there", 0)
    given_up, alive = words.launch(away, 1, 0), words.launch(there, 1, 1)
    assert agents.abandon([away.pk], "host lost") == 1
    assert (words.row(given_up).phase, words.row(given_up).detail) == ("gone", "host lost")
    assert words.row(alive).phase == "pending"


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    "write",
    [lambda host: agents.stop([1]), lambda host: agents.abandon([host], "host lost")],
    ids=["stop", "abandon"],
)
def test_who_waits_for_the_first_instance_holds_none_of_the_later_ones(write: Callable[[int], int]) -> None:
    if connection.vendor == "sqlite":
        return  # one writer at a time: nobody holds a row that another waits for
    host = World().host("h1", 0)
    for rank in range(8):
        words.launch(host, 1, rank)
    first, *later = Instance.objects.order_by("pk")

    def meanwhile() -> None:
        try:
            write(host.pk)
        finally:
            connection.close()

    thread = threading.Thread(target=meanwhile)
    with transaction.atomic():
        Instance.objects.select_for_update().get(pk=first.pk)
        thread.start()
        _until_somebody_waits()
        for one in later:
            Instance.objects.select_for_update(nowait=True).get(pk=one.pk)
    thread.join()
    assert not Instance.objects.filter(wanted=True).exists()


def _until_somebody_waits() -> None:
    until = time.monotonic() + WITHIN_S
    with connection.cursor() as cursor:
        while time.monotonic() < until:
            cursor.execute("SELECT count(*) FROM pg_locks WHERE NOT granted")
            if cursor.fetchone()[0]:
                return
            time.sleep(0.01)
    raise AssertionError("nobody waits for a lock")
