"""Many rows in one statement: what is written is what was given, on either database."""

from datetime import UTC, datetime

import pytest
from django.contrib.auth.models import User

from cluster import rows
from cluster.models import Card, CardMinute, GpuType, Host, Region
from tests.world import World

pytestmark = pytest.mark.django_db

NAMES = ("card", "minute", "xids", "use_mean")
WORDS = ["it's", 'a "quote"', "back\\slash", "{braces}", "% of %s", "卡型", "two\nlines", "", "null"]


def test_texts_lists_nulls_and_dates_are_written_as_they_are(world: World) -> None:
    at = datetime(2030, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)
    region = world.region()
    given = [(f"h{n}", word, [word, n], at if n % 2 else None) for n, word in enumerate(WORDS)]
    rows.insert(
        Host,
        given,
        *("name", "address", "offers", "lost_since"),
        **{"region": region.pk, "state": "ready", "state_reason": "", "state_changed_at": at},
        **{
            "token_hash": "",
            "trouble": "",
            "agent_version": "",
            "agent_boot": "",
            "clock_offset_s": 0.5,
            "agent_seq": 2**40,
            "cleared_faults": [],
        },
    )
    found = Host.objects.order_by("pk").values_list("name", "address", "offers", "lost_since")
    assert list(found) == given
    assert set(Host.objects.values_list("region", "state_changed_at", "agent_seq")) == {
        (region.pk, at, 2**40)
    }


def test_rows_that_are_inserted_are_known_by_the_keys_that_they_got() -> None:
    given = [(word, [word, n]) for n, word in enumerate(WORDS)]
    keys = rows.insert_keyed(GpuType, given, "name", "name", "aliases")
    assert {key: (name, [name, WORDS.index(name)]) for name, key in keys.items()} == {
        row.pk: (row.name, row.aliases) for row in GpuType.objects.all()
    }
    assert set(keys) == set(WORDS)


def test_rows_that_are_found_get_the_same_values_and_say_what_they_are_of(world: World) -> None:
    hosts = [world.host(f"h{n}", cards=2) for n in range(3)]
    of_two = Card.objects.filter(host__in=hosts[:2], index=0)
    asked = rows.update_locked(of_two, "host", state="broken", state_reason="it's hot")
    assert sorted(asked) == [hosts[0].pk, hosts[1].pk]
    broken = Card.objects.filter(state="broken", state_reason="it's hot")
    assert sorted(broken.values_list("host", "index")) == [(hosts[0].pk, 0), (hosts[1].pk, 0)]
    assert rows.update_locked(Card.objects.filter(index=9), "host", state="broken") == []


def test_each_row_gets_its_own_values_where_it_is_as_asked(world: World) -> None:
    hosts = [world.host(f"h{n}") for n in range(len(WORDS))]
    Host.objects.filter(pk=hosts[0].pk).update(state="removed")
    values = {host.pk: (word, {"word": word}) for host, word in zip(hosts, WORDS, strict=True)}
    changed = rows.update_each(Host, values, "state_reason", "offers", where={"state": ["ready", "cordoned"]})
    assert changed == {host.pk for host in hosts[1:]}
    found = dict(Host.objects.filter(pk__in=changed).values_list("pk", "offers"))
    assert found == {host.pk: {"word": word} for host, word in zip(hosts[1:], WORDS[1:], strict=True)}
    assert Host.objects.get(pk=hosts[0].pk).state_reason == ""


def test_all_rows_get_the_same_values_where_they_are_as_asked(world: World) -> None:
    hosts = [world.host(f"h{n}") for n in range(3)]
    Host.objects.filter(pk=hosts[2].pk).update(state="cordoned")
    keys = [host.pk for host in hosts]
    changed = rows.update(Host, keys, {"state": ["ready"]}, offers=["a'b"], lost_since=None, state="draining")
    assert changed == set(keys[:2])
    assert list(Host.objects.filter(state="draining").values_list("offers", flat=True)) == [["a'b"]] * 2


def test_what_is_there_already_stays_and_the_rest_is_inserted(world: World) -> None:
    host = world.host("h1")
    card = Card.objects.get(host=host, index=0)
    rows.insert_new(CardMinute, [(card.pk, 7, "", 10), (card.pk, 8, "79", None)], *NAMES)
    rows.insert_new(CardMinute, [(card.pk, 8, "", 99), (card.pk, 9, "", 30), (card.pk, 9, "", 31)], *NAMES)
    found = CardMinute.objects.order_by("minute").values_list("minute", "xids", "use_mean")
    assert list(found) == [(7, "", 10), (8, "79", None), (9, "", 30)]


def test_nothing_given_changes_nothing(world: World) -> None:
    rows.insert(GpuType, [], "name", aliases=[])
    assert rows.update_each(GpuType, {}, "name") == set()
    assert rows.update(GpuType, [], {}, name="x") == set()
    assert not GpuType.objects.exists()


def test_many_keys_are_one_parameter(world: World) -> None:
    regions = Region.objects.bulk_create(Region(name=f"r{n}") for n in range(3))
    keys = [region.pk for region in regions[:2]] + list(range(10**6, 10**6 + 40_000))
    assert set(Region.objects.filter(pk__in=rows.among(keys))) == set(regions[:2])
    assert not User.objects.filter(pk__in=rows.among([])).exists()


def test_rows_that_are_inserted_in_order_get_keys_in_their_order() -> None:
    names = [f"type {number}" for number in range(200, 0, -1)]
    keys = rows.insert_in_order(GpuType, [(name, [name]) for name in names], "name", "aliases")
    assert [GpuType.objects.get(pk=key).name for key in keys[:3]] == names[:3]
    assert list(GpuType.objects.filter(pk__in=keys).order_by("pk").values_list("name", flat=True)) == names
    assert rows.insert_in_order(GpuType, [], "name", "aliases") == []
