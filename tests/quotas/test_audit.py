"""What is written about deeds, and that nobody changes it."""

from ipaddress import ip_network

import pytest
from django.db import DatabaseError, connection, transaction

from quotas import audit, origin
from quotas.audit import AuditEntry
from quotas.origin import Origin
from tests import emptying
from tests.world import World


def test_a_deed_is_written_with_who_what_and_where_from(world: World) -> None:
    task = world.task()
    with origin.coming(Origin(address="10.1.2.3", agent="curl/8", token_id=7)):
        audit.note("task.stop", by=world.user("ann"), on=task, reason="too long")
    entry = AuditEntry.objects.get()
    assert (entry.actor, entry.deed, entry.kind, entry.target_id) == (
        "ann",
        "task.stop",
        "task",
        str(task.pk),
    )
    assert (entry.address, entry.agent, entry.token_id) == ("10.1.2.3", "curl/8", 7)
    assert entry.args == {"reason": "too long"}


def test_what_is_rolled_back_was_not_done(world: World) -> None:
    def fails() -> None:
        with transaction.atomic():
            audit.note("task.stop", by=None)
            raise ValueError

    with pytest.raises(ValueError):  # noqa: PT011  # ours, of two lines above
        fails()
    assert not AuditEntry.objects.exists()


@pytest.mark.parametrize("change", ["UPDATE {} SET actor = 'somebody else'", "DELETE FROM {}"])
def test_the_database_refuses_to_change_what_was_written(world: World, change: str) -> None:
    audit.note("login", by=world.user("ann"))
    with (
        pytest.raises(DatabaseError, match="append-only"),
        transaction.atomic(),
        connection.cursor() as cursor,
    ):
        cursor.execute(change.format(AuditEntry._meta.db_table))
    assert AuditEntry.objects.get().actor == "ann"


def test_an_entry_is_not_written_over_by_one_of_its_number(world: World) -> None:
    audit.note("login", by=world.user("ann"))
    columns = ", ".join(str(field.column) for field in AuditEntry._meta.concrete_fields)
    table, changed = AuditEntry._meta.db_table, columns.replace(", actor,", ", 'bob',")
    over = " OR REPLACE" if connection.vendor == "sqlite" else ""
    with pytest.raises(DatabaseError), transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(f"INSERT{over} INTO {table} ({columns}) SELECT {changed} FROM {table}")
    assert AuditEntry.objects.get().actor == "ann"
    audit.note("logout", by=world.user("ann"))
    assert AuditEntry.objects.count() == 2


@pytest.mark.django_db(transaction=True)
def test_the_guard_is_there_again_after_it_was_lifted() -> None:
    emptying.lift_guard()
    audit.protect()
    audit.note("login", by=None, name="ann")
    with pytest.raises(DatabaseError, match="append-only"):
        AuditEntry.objects.all().delete()


def test_a_user_who_is_removed_stays_named(world: World) -> None:
    user = world.user("ann")
    audit.note("login", by=user)
    user.delete()
    assert AuditEntry.objects.get().actor == "ann"


@pytest.mark.parametrize(
    ("peer", "forwarded", "address"),
    [
        ("192.0.2.1", "", "192.0.2.1"),
        ("192.0.2.1", "198.51.100.7", "192.0.2.1"),  # whoever calls himself may claim anything
        ("10.0.0.5", "198.51.100.7", "198.51.100.7"),
        ("10.0.0.5", "203.0.113.9, 198.51.100.7", "198.51.100.7"),  # the first part is the caller's own claim
        ("10.0.0.5", "198.51.100.7, 10.0.0.6", "198.51.100.7"),
        ("10.0.0.5", "10.0.0.6", "10.0.0.6"),
        ("10.0.0.5", "nonsense", "10.0.0.5"),
        ("::ffff:192.0.2.1", "", "192.0.2.1"),
        ("2001:db8::1%eth0", "", "2001:db8::1"),
        ("", "198.51.100.7", ""),
    ],
)
def test_an_address_is_told_by_trusted_proxies_alone(peer: str, forwarded: str, address: str) -> None:
    assert origin.address_of(peer, forwarded, [ip_network("10.0.0.0/24")]) == address
