"""Who holds the Lease of a cluster."""

import time
from collections.abc import Iterator

import pytest

from cluster.kubernetes import lease, names
from cluster.kubernetes.calls import Calls
from cluster.kubernetes.lease import Lease, NotHolder
from tests.kubernetes import schemas
from tests.kubernetes.conftest import connect
from tests.kubernetes.server import Server


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server()
    yield server
    server.close()


def leases(server: Server, *holders: str) -> list[Lease]:
    """Return what each of several processes has of one lease."""
    return [Lease(Calls(connect(server.url)), "taiji", "taiji-sz", holder) for holder in holders]


def test_the_first_has_it_and_nobody_else(server: Server) -> None:
    first, second = leases(server, "a", "b")
    with pytest.raises(NotHolder):
        first.check()
    assert (first.tend(), second.tend()) == (True, False)
    first.check()
    with pytest.raises(NotHolder):
        second.check()


@pytest.mark.parametrize(
    "region", ["bj", "SZ", "Bei_Jing", "北京", "a b", "-x-", "x" * 64, "x.y", "sz_", "é"]
)
def test_each_region_has_one_whatever_it_is_called(server: Server, region: str) -> None:
    assert Lease(Calls(connect(server.url)), "taiji", names.lease_name(region), "a").tend()


def test_no_two_regions_have_one_label_and_a_plain_one_is_its_own() -> None:
    regions = [
        "bj",
        "SZ",
        "Bei_Jing",
        "北京",
        "上海",
        "a b",
        "a-b",
        "a_b",
        "-x-",
        "x",
        "x" * 64,
        "x" * 63,
        "sz_",
        "é",
    ]
    assert len({names.region_label(region) for region in regions}) == len(regions)
    assert len({names.lease_name(region) for region in regions}) == len(regions)
    for region in ("bj", "SZ", "Bei_Jing", "a-b", "x" * 63):
        assert names.region_label(region) == region
    assert names.lease_name("SZ") == "taiji-sz"


def test_one_that_is_given_back_is_taken_at_once_and_not_taken_again_by_who_ended(server: Server) -> None:
    first, second = leases(server, "a", "b")
    first.tend()
    first.stop()
    assert not first.tend()
    assert second.tend()


def test_a_silent_holder_is_replaced_after_a_while_on_our_own_clock_and_stops_before(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = leases(server, "a", "b")
    first.tend()
    second.tend()
    began = time.monotonic()
    monkeypatch.setattr("cluster.kubernetes.lease.time.monotonic", lambda: began + lease.LASTS_S - 1)
    assert not second.tend()
    assert not first.is_held()
    monkeypatch.setattr("cluster.kubernetes.lease.time.monotonic", lambda: began + lease.LASTS_S + 1)
    assert second.tend()
    assert not first.tend()


def test_of_two_who_find_it_stale_at_once_one_gets_it(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone, one, other = leases(server, "a", "b", "c")
    gone.tend()
    one.tend(), other.tend()
    began = time.monotonic()
    monkeypatch.setattr("cluster.kubernetes.lease.time.monotonic", lambda: began + 2 * lease.LASTS_S)
    get = other._calls.get

    def late(path: str) -> dict[str, object]:
        found = get(path)
        assert one.tend()  # in between
        return found

    monkeypatch.setattr(other._calls, "get", late)
    assert not other.tend()


def test_a_server_that_is_away_takes_it_away_in_time(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    (only,) = leases(server, "a")
    only.tend()
    server.close()
    assert only.tend()  # still, for a while
    began = time.monotonic()
    monkeypatch.setattr("cluster.kubernetes.lease.time.monotonic", lambda: began + lease.STOPS_S + 1)
    assert not only.tend()
    server.open()


def test_it_is_written_as_a_real_api_server_knows_it(server: Server) -> None:
    (only,) = leases(server, "a")
    only.tend()
    only.tend()
    try:
        assert [schemas.faults(thing) for kind, thing in server.store.created if kind == "leases"] == [[]]
    except schemas.Absent as absent:
        pytest.skip(str(absent))
