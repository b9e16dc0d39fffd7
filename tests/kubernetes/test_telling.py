"""How fast MPIJobs are told of their tasks, and what goes first."""

import gzip
import uuid
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
import yaml
from django.utils import timezone
from jsonschema import Draft202012Validator

from cluster.kubernetes import job_words, telling
from cluster.kubernetes.calls import KINDS, Refused
from cluster.kubernetes.telling import Telling
from cluster.models import BroughtJob, BroughtNews, Region
from tests.kubernetes import schemas
from tests.kubernetes.test_mpijobs import CRD

pytestmark = pytest.mark.django_db
JSON = dict[str, Any]


class Begun:
    """Takes orders and only counts them."""

    def __init__(self) -> None:
        self.orders: list[Callable[[], Any]] = []

    def begin(self, _pk: uuid.UUID, order: Callable[[], Any]) -> None:
        self.orders.append(order)

    def busy(self) -> set[uuid.UUID]:
        return set()

    def done(self) -> list[Any]:
        return []

    def told(self) -> list[str]:
        """Return whose condition, or which news, each order is about."""
        return [order.args[0]["metadata"]["name"] for order in self.orders]  # type: ignore[attr-defined]  # a partial


def job(row: BroughtJob, **condition: str) -> JSON:
    """Return a job with a condition of its operator, and ours."""
    ours = [{"type": job_words.ADMITTED, **condition}] if condition else []
    about = {"name": row.name, "namespace": "x", "uid": row.uid, "creationTimestamp": "2026-01-01T00:00:00Z"}
    return {"metadata": about, "status": {"conditions": [{"type": "Created", "status": "True"}, *ours]}}


def rows(number: int, region: Region) -> list[BroughtJob]:
    """Return so many that wait."""
    told = {"namespace": "x", "state": "queued", "sentence": "asks 8", "said_at": timezone.now()}
    new = [BroughtJob(region=region, uid=f"u-{one}", name=f"job-{one}", **told) for one in range(number)]
    return BroughtJob.objects.bulk_create(new)


def test_a_thousand_are_told_no_faster_than_so_many_a_second_and_news_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    region, now = Region.objects.create(name="SZ"), 1000.0
    monkeypatch.setattr("cluster.kubernetes.telling.time.monotonic", lambda: now)
    found = rows(1000, region)
    # All but the last say their state already, and only why is new.
    jobs = {row.uid: job(row, status="False", reason="Queued", message="asks 7") for row in found}
    jobs[found[-1].uid] = job(found[-1])
    BroughtNews.objects.create(job=found[5], at=timezone.now(), reason="TaskQueued", message="x")
    begun = Begun()
    one = Telling(None, begun)  # type: ignore[arg-type]  # nothing is called, and it only counts
    one.tell(jobs, region)
    assert begun.told()[:2] == ["job-5", "job-999"]
    assert len(begun.orders) == telling.AT_ONCE
    for second in range(1, 4):
        now = 1000.0 + second
        one.tell(jobs, region)
        one.tell(jobs, region)
        assert len(begun.orders) == telling.AT_ONCE + second * telling.A_SECOND


class Refusing:
    """An API server that takes no condition of some jobs."""

    def __init__(self, refused: set[str], status: int) -> None:
        self.refused, self.status, self.told = refused, status, set[str]()

    def apply(self, path: str, *_: Any) -> None:
        name = path.split("/")[-2]
        if name in self.refused:
            raise KINDS.get(self.status, Refused)(self.status, "Invalid", "no such condition")
        self.told.add(name)


@pytest.mark.parametrize("status", [403, 404, 409, 422])
def test_jobs_that_can_never_be_told_keep_no_others_from_it(
    status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    region, now = Region.objects.create(name="SZ"), 1000.0
    monkeypatch.setattr("cluster.kubernetes.telling.time.monotonic", lambda: now)
    found = rows(telling.AT_ONCE + 20, region)
    jobs = {row.uid: job(row) for row in found}
    calls = Refusing({row.name for row in found[: telling.AT_ONCE]}, status)
    begun = Begun()
    one = Telling(calls, begun)  # type: ignore[arg-type]  # all that it calls
    tries = 0
    for second in range(10):
        now = 1000.0 + second
        begun.orders.clear()
        one.tell(jobs, region)
        for order in begun.orders:
            order()
        tries += len(set(begun.told()) & calls.refused)
    assert calls.told == {row.name for row in found[telling.AT_ONCE :]}
    assert tries == telling.AT_ONCE, "each was tried once"
    now = 1000.0 + telling.REFUSED_S + 10
    begun.orders.clear()
    one.tell(jobs, region)
    assert set(begun.told()) & calls.refused


def test_its_operator_has_the_first_word_unless_it_says_none() -> None:
    (row,) = rows(1, Region.objects.create(name="SZ"))
    thing = job(row)
    thing["status"] = {}
    made = datetime(2026, 1, 1, tzinfo=UTC)
    assert not job_words.may_be_told(thing, made.replace(second=20))
    assert job_words.may_be_told(thing, made.replace(second=31))
    assert job_words.may_be_told(job(row), made)


def test_the_time_of_a_condition_is_when_it_turned_and_not_when_its_words_did() -> None:
    (row,) = rows(1, Region.objects.create(name="SZ"))
    turned = "2026-01-01T00:00:00Z"
    before = job(row, status="False", reason="Held", message="x", lastTransitionTime=turned)
    now = datetime(2026, 1, 2, tzinfo=UTC)
    (condition,) = job_words.told(before, row, now)["status"]["conditions"]
    assert (condition["lastTransitionTime"], condition["lastUpdateTime"]) == (turned, "2026-01-02T00:00:00Z")
    row.state = "running"
    (condition,) = job_words.told(before, row, now)["status"]["conditions"]
    assert condition["lastTransitionTime"] == "2026-01-02T00:00:00Z"
    assert (condition["status"], condition["reason"]) == ("True", "Running")


def test_what_is_written_is_known_to_a_real_api_server_and_to_the_operator() -> None:
    (row,) = rows(1, Region.objects.create(name="SZ"))
    news = BroughtNews.objects.create(job=row, at=timezone.now(), reason="TaskQueued", message="x" * 5000)
    event = job_words.event(job(row), news)
    assert len(event["message"]) == job_words.MESSAGE_AT_MOST
    applied = job_words.told(job(row), row, timezone.now())
    try:
        assert schemas.faults(event) == []
    except schemas.Absent as absent:
        pytest.skip(str(absent))
    strict = Draft202012Validator(schemas._strict(mpijob_schema()))
    spec = {"mpiReplicaSpecs": {"Worker": {"template": {"spec": {"containers": [{"name": "w"}]}}}}}
    assert [error.message for error in strict.iter_errors({**applied, "metadata": {}, "spec": spec})] == []
    applied["status"]["conditions"][0]["status"] = "Yes"
    assert list(strict.iter_errors({**applied, "metadata": {}, "spec": spec}))


def mpijob_schema() -> JSON:
    """Return the recorded schema of MPIJobs, of which conditions are a list by type: others' are left alone."""
    with gzip.open(CRD) as file:
        schema: JSON = yaml.safe_load(file)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    conditions = schema["properties"]["status"]["properties"]["conditions"]
    assert conditions["x-kubernetes-list-type"] == "map"
    assert conditions["x-kubernetes-list-map-keys"] == ["type"]
    return schema
