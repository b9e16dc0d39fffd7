"""A task goes only where its kind of instance can run, whatever cards are elsewhere."""

import pytest

from tests.scheduling.build import decide_on, host, quota, task


@pytest.mark.parametrize(
    ("needs", "code"),
    [
        ("container", "no_container"),
        ("process", "no_process"),
        ("container_ceph", "no_ceph"),
        ("process_ceph", "no_ceph"),
        ("mpijob", "no_mpijob"),
    ],
)
def test_what_no_host_offers_is_the_reason(needs: str, code: str) -> None:
    plan = decide_on(host("h1").offers("other"), task("a").elastic().with_(needs=needs))
    assert plan.waits == {"a": code}
    assert plan.reason("a").args["hosts"] == 0


@pytest.mark.parametrize("needs", ["process", "container", "container_ceph", "mpijob"])
def test_hosts_whose_storage_is_away_are_the_reason_where_they_would_do(needs: str) -> None:
    rows = [host("h1").offers(needs), host("h2").offers(), host("h3").offers("other")]
    plan = decide_on(*rows, task("a").elastic().gang(2, 8).with_(needs=needs))
    assert plan.waits == {"a": "storage_away"}
    assert (plan.reason("a").args["hosts"], plan.reason("a").args["away"]) == (1, 1)
    too_many = decide_on(*rows, task("a").elastic().gang(3, 8).with_(needs=needs)).waits["a"]
    assert too_many.startswith("no_")


def test_a_container_starts_where_containers_run_though_another_host_fits_better() -> None:
    rows = [host("tight").cards("P40", 1), host("wide").offers("container", "process")]
    assert decide_on(*rows, task("a").elastic().asks(1).with_(needs="container")).starts == {
        "a": {"wide": (0,)}
    }
    assert decide_on(*rows, task("a").elastic().asks(1)).starts == {"a": {"tight": (0,)}}


def test_a_gang_of_containers_counts_only_the_hosts_that_run_them() -> None:
    rows = [host("h1").offers("container"), host("h2").offers("container"), host("h3")]
    plan = decide_on(*rows, task("a").elastic().gang(3, 8).with_(needs="container"))
    assert plan.waits == {"a": "no_container"}
    assert plan.reason("a").args["hosts"] == 2


def test_a_size_that_no_host_has_is_no_matter_of_engines() -> None:
    plan = decide_on(host("h1").offers("process"), task("a").elastic().asks(9).with_(needs="container"))
    assert plan.waits == {"a": "too_large"}


def test_nobody_is_evicted_from_a_host_that_could_not_run_the_task() -> None:
    rows = [host("h1"), host("h2").offers("container", "process"), quota("A", "P40", 16)]
    runs = [
        task("e1").elastic().of("B").on(h1=8).since(0.0),
        task("e2").elastic().of("B").on(h2=8).since(0.0),
    ]
    plan = decide_on(*rows, *runs, task("a").high().of("A").asks(8).with_(needs="container"), now=99_999.0)
    assert set(plan.evicted) == {"e2"}
    assert plan.claims == {"a": {"h2": 8}}
