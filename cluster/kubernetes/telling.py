"""What the platform has to say of MPIJobs goes onto them: what is news soon, what only changes its words in turn."""

import logging
import threading
import time
import uuid
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from typing import Any

from cluster import clock
from cluster.kubernetes import job_words, names
from cluster.kubernetes.calls import Calls, Conflict, Missing, Refused
from cluster.kubernetes.work import Work
from cluster.models import BroughtJob, BroughtNews, Region

log = logging.getLogger(__name__)
JSON = dict[str, Any]
THREADS = 2  # of its own: who is throttled, or hears nothing, holds none that starts and stops
A_SECOND = 20.0  # so many are told: starts and stops use the same API server
AT_ONCE = 40  # … and so many where nobody was told anything for a while
REFUSED_S = 60.0  # so long a job is left alone that could not be told: others have their turn
LOOK_S = 1.0  # between two looks at what there is to say


class Telling:
    """Tells the MPIJobs of one cluster; where it breaks off, what is missing is seen and told again."""

    def __init__(self, calls: Calls, work: Work) -> None:
        """Tell through `calls`; `work` does nothing else."""
        self._calls, self._work = calls, work
        self._lock = threading.Lock()
        self._delivered: set[int] = set()  # news whose rows can go
        self._refused: dict[str, float] = {}  # until when each is left alone, by uid
        self._left, self._filled_at, self._looked_at = float(AT_ONCE), time.monotonic(), 0.0

    def close(self) -> None:
        """Wait for what is under way; begin nothing more."""
        self._work.stop()

    def tell(self, jobs: Mapping[str, JSON], region: Region) -> None:
        """Begin to say what is news, and then what changed, within what may be said at once."""
        self._let_go()
        self._work.done()  # nothing follows from it that was not noted
        if len(self._work.busy()) >= AT_ONCE:
            return  # what is under way is heard by nobody: more would only wait, and be old by then
        now = time.monotonic()
        if now - self._looked_at < LOOK_S:
            return
        self._looked_at = now
        self._left = min(float(AT_ONCE), self._left + (now - self._filled_at) * A_SECOND)
        self._filled_at = now
        self._begin_events(jobs, region)
        self._begin_conditions(jobs, region)

    def _begin_events(self, jobs: Mapping[str, JSON], region: Region) -> None:
        waiting = BroughtNews.objects.filter(job__region=region).select_related("job").order_by("pk")
        gone = [news.pk for news in waiting.filter(job__deleted=True)]
        if gone:
            BroughtNews.objects.filter(pk__in=gone).delete()
        for news in waiting.filter(job__deleted=False)[:AT_ONCE]:
            job = jobs.get(news.job.uid)
            if job is not None and self._may():
                self._work.begin(_key(f"news {news.pk}"), partial(self._tell_event, job, news))

    def _begin_conditions(self, jobs: Mapping[str, JSON], region: Region) -> None:
        now, left_alone = clock.now(), self._left_alone()
        rows = BroughtJob.objects.filter(region=region, deleted=False).exclude(state="")
        due = [
            (job, row)
            for row in rows
            if (job := jobs.get(row.uid)) is not None
            and row.uid not in left_alone
            and not job_words.is_told(job, row)
            and job_words.may_be_told(job, now)
        ]
        for job, row in sorted(
            due, key=lambda pair: (job_words.says_its_state(*pair), pair[1].said_at or now)
        ):
            if not self._may():
                return
            self._work.begin(_key(f"condition {row.uid}"), partial(self._tell_condition, job, row))

    def _may(self) -> bool:
        if self._left < 1.0:
            return False
        self._left -= 1.0
        return True

    def _tell_event(self, job: JSON, news: BroughtNews) -> None:
        folder = f"/api/v1/namespaces/{job['metadata']['namespace']}/events"
        try:
            with suppress(Conflict):  # it was made before this broke off
                self._calls.create(folder, job_words.event(job, news))
        except Refused as refused:  # such as a namespace that is being removed: it would be refused each time
            log.warning("the MPIJob %s is not told that %s: %s", news.job, news.reason, refused)
        with self._lock:
            self._delivered.add(news.pk)

    def _tell_condition(self, job: JSON, row: BroughtJob) -> None:
        metadata = job["metadata"]
        path = names.job_path(metadata["namespace"], metadata["name"]) + "/status"
        try:
            self._calls.apply(path, job_words.told(job, row, clock.now()), job_words.MANAGER)
        except Refused as refused:
            gone = isinstance(refused, Missing | Conflict)
            log.log(logging.INFO if gone else logging.WARNING, "the MPIJob %s is not told: %s", row, refused)
            with self._lock:
                self._refused[row.uid] = time.monotonic() + REFUSED_S

    def _left_alone(self) -> set[str]:
        """Return those that could not be told just now."""
        now = time.monotonic()
        with self._lock:
            self._refused = {uid: until for uid, until in self._refused.items() if until > now}
            return set(self._refused)

    def _let_go(self) -> None:
        with self._lock:
            delivered, self._delivered = self._delivered, set()
        if delivered:
            BroughtNews.objects.filter(pk__in=delivered).delete()


def _key(what: str) -> uuid.UUID:
    return uuid.uuid5(uuid.NAMESPACE_OID, what)
