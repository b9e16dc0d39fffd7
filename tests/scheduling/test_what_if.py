"""The same work simulated without a change and with it."""

import pickle
from typing import Any

import pytest

from jobs.engine import what_if_process
from jobs.simulation.job import Setup
from jobs.simulation.what_if import (
    Change,
    HostChange,
    NewHosts,
    QuotaChange,
    changed,
    compare,
    from_json,
    to_json,
)
from jobs.simulation.workload import read_scenario

HOUR = 3600


def setup(tasks: int = 4, task_class: str = "high") -> Setup:
    """Return so many tasks of 8 cards for an hour each, all at once, on one host, with quota for one of them."""
    return read_scenario(
        {
            "hosts": [{"host": "h1", "region": "sz", "gpu_type": "P40", "gpu_num": 8}],
            "quotas": [{"business": "A", "gpu_type": "P40", "cards": 8}],
            "events": [
                {
                    "at": 0,
                    "submit": {
                        "id": f"t{number}", "business": "A", "user": "u", "class": task_class, "host_num": 1,
                        "host_gpu_num": 8, "gpu_type": "P40", "duration_s": HOUR,
                    },
                }
                for number in range(tasks)
            ],
        }
    )  # fmt: skip


def tried(change: Change, **given: Any) -> dict[str, Any]:
    return compare(setup(**given), changed(setup(**given), change))


def ids() -> tuple[int, int, int]:
    """Return the ids of business A, type P40 and region sz."""
    row, quota = setup().hosts[0], setup().quotas[0]
    return quota.business, row.gpu_type, row.region


def test_without_a_change_both_say_the_same() -> None:
    found = tried(Change())
    assert found["before"] == found["after"]
    assert found["before"]["summary"]["finished"] == 4
    assert found["before"]["summary"]["p95_wait_s"] == pytest.approx(2.85 * HOUR)


def test_more_hosts_and_more_quota_shorten_the_waits_and_one_of_them_alone_does_not() -> None:
    business, gpu_type, region = ids()
    more = NewHosts(region=region, gpu_type=gpu_type, hosts=3, cards=8)
    quota = QuotaChange(business=business, gpu_type=gpu_type, region=None, cards=32)
    assert tried(Change(added=(more,)))["after"]["summary"]["p95_wait_s"] == pytest.approx(2.85 * HOUR)
    assert tried(Change(quotas=(quota,)))["after"]["summary"]["p95_wait_s"] == pytest.approx(2.85 * HOUR)
    both = tried(Change(added=(more,), quotas=(quota,)))
    assert both["after"]["summary"]["p95_wait_s"] == 0
    assert both["before"]["summary"]["p95_wait_s"] == pytest.approx(2.85 * HOUR)


def test_a_quota_that_was_not_there_is_added() -> None:
    business, gpu_type, region = ids()
    row = QuotaChange(business=business, gpu_type=gpu_type, region=region, cards=0)
    assert tried(Change(quotas=(row,)))["after"]["summary"]["finished"] == 0


@pytest.mark.parametrize("verb", ["cordon", "remove"])
def test_without_its_host_no_task_starts(verb: Any) -> None:
    host = setup().hosts[0].host
    found = tried(Change(hosts=(HostChange(host=host, verb=verb),)), task_class="elastic")
    assert found["before"]["summary"]["finished"] == 4
    assert found["after"]["summary"]["finished"] == 0


def test_a_key_of_the_policy_is_changed_and_none_brings_its_default_back() -> None:
    assert changed(setup(), Change(policy={"aging_s": 60})).policy.aging_s == 60
    aged = changed(setup(), Change(policy={"aging_s": 60}))
    assert changed(aged, Change(policy={"aging_s": None})).policy.aging_s == 21600


def test_figures_are_split_by_business_and_class_and_both_courses_cover_the_same_time() -> None:
    business, gpu_type, region = ids()
    quota = QuotaChange(business=business, gpu_type=gpu_type, region=None, cards=32)
    more = NewHosts(region=region, gpu_type=gpu_type, hosts=3, cards=8)
    found = tried(Change(added=(more,), quotas=(quota,)))
    row = found["after"]["rows"][0]
    assert (row["business"], row["class"], row["tasks"]) == ("A", "high", 4)
    assert row["card_s"] == 4 * 8 * HOUR
    courses = [found[side]["course"] for side in ("before", "after")]
    assert courses[0]["span"] == courses[1]["span"]
    assert [course["capacity"] for course in courses] == [8, 32]
    assert max(courses[1]["high"]) == 32
    assert max(courses[0]["high"]) == 8


def test_progress_goes_from_nothing_to_all() -> None:
    told: list[float] = []
    compare(setup(), setup(), told.append)
    assert told == sorted(told)
    assert told[0] == 0
    assert 0.5 < told[-1] <= 1


def test_a_change_is_kept_and_read_again_as_it_was() -> None:
    change = Change(
        quotas=(QuotaChange(business=1, gpu_type=2, region=None, cards=3),),
        policy={"aging_s": 60.0, "placement": None},
        added=(NewHosts(region=1, gpu_type=2, hosts=3, cards=8),),
        hosts=(HostChange(host=7, verb="cordon"),),
    )
    kept = to_json(change)
    assert to_json(from_json(kept)) == kept
    assert not Change()
    assert change


def test_a_process_of_its_own_comes_to_the_same_figures() -> None:
    told: list[float] = []

    def tell(share: float) -> bool:
        told.append(share)
        return True

    assert what_if_process.run(setup(), setup(), tell) == compare(setup(), setup())
    assert pickle.dumps(setup())


def test_the_process_is_ended_when_the_answer_is_not_wanted_any_more() -> None:
    with pytest.raises(what_if_process.Canceled):
        what_if_process.run(setup(2000), setup(2000), lambda _share: False)


def test_a_process_that_breaks_off_has_failed(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(what_if_process.Failed):
        what_if_process.run(setup(), None, lambda _share: True)  # type: ignore[arg-type]  # that is the point
    assert "Traceback" in capfd.readouterr().err
