"""Whatever people, hosts and operators do in whatever order, and however reports get lost: what must hold holds."""

import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest
import time_machine
from django.db import transaction
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from cluster import fresh
from cluster.models import Host
from jobs import config, services
from jobs.engine import lease, passes, snapshot
from jobs.engine.apply import apply
from jobs.models import Policy, Task
from jobs.scheduling.decide import decide
from jobs.states import TERMINAL, State
from quotas.models import Quota
from tests.chaos import real, rows, rules
from tests.engine.hosts import PlayedHost, Sent
from tests.world import World

pytestmark = pytest.mark.django_db

BEGIN = 1_790_000_000.0
CAP = 1
POLICY = {
    "min_run_s": 1,
    "max_evictions_per_hour": CAP,
    "pull_up_backoff_s": 1,
    "start_deadline_s": 200,
    "lost_after_s": 90,
    "restart_lost_s": 400,
}
WAITS_S = (1, 10, 40, 100, 500, 2000)
PASS_S = 0.01  # between two passes: what a later one wrote is told by its time
AT_REST_ROUNDS = 150
number = st.integers(0, 1000)  # which of those that are there: the number, modulo how many
documents = st.fixed_dictionaries(
    {
        "is_elasticity": st.sampled_from((True, True, False, False, "auto")),
        "host_gpu_num": st.sampled_from((1, 1, 2)),
        "host_num": st.sampled_from((1, 1, 2)),
        "enable_evicted_pulled_up": st.booleans(),
    },
    optional={
        "retry_limit": st.just(1),
        "time_limit": st.sampled_from((300, 3000)),
        "keep_alive": st.sampled_from((False, False, True)),
        "exec_start_in_all_mpi_pods": st.just(True),
    },
)


class Course(RuleBasedStateMachine):
    """Three hosts of two cards, two businesses; every step is followed by all that must hold."""

    def __init__(self) -> None:
        super().__init__()
        fresh.forget_all()  # what is kept for a moment is of the example before, whose rows are no more
        self.example = transaction.atomic()  # taken back when the example is over
        self.example.__enter__()
        self.clock = time_machine.travel(BEGIN, tick=False)
        self.traveller = self.clock.start()
        self.now = BEGIN
        self.hosts: dict[str, PlayedHost] = {}
        self.sent: list[Sent] = []
        self.quotas_read: dict[rules.Key, int] = {}
        self.planned: Any = None  # a pass that has read and decided, and not written yet
        self.before: rows.Rows | None = None

    @initialize(first=st.lists(documents, min_size=2, max_size=6))
    def there_is_a_world(self, first: list[dict[str, Any]]) -> None:
        """Some tasks run already, so that whatever is drawn first meets something."""
        world = World()
        world.business("ads", P40=3)
        world.business("speech", P40=2)
        self.users = {"ads": world.user("ann", "ads"), "speech": world.user("bob", "speech")}
        Policy.objects.create(pk=1, values=POLICY)
        self.hosts = {name: PlayedHost(world.host(name, 2), 2) for name in ("h1", "h2", "h3")}
        for document in first:
            self.somebody_submits(document, "ads")
        self.everybody_works()
        self.everybody_works()

    # People

    @rule(document=documents, flag=st.sampled_from(("ads", "ads", "speech")))
    def somebody_submits(self, document: dict[str, Any], flag: str) -> None:
        more = {"business_flag": flag, "GPUName": "P40", "start_cmd": "true"}
        with suppress(config.Invalid):  # more than the whole quota just now
            services.submit(self.users[flag], more | document)

    @rule(verb=st.sampled_from(("stop", "stop", "hold", "release", "free", "retry")), which=number)
    def somebody_steers(self, verb: str, which: int) -> None:
        if task := self._task(which, over=verb == "retry"):
            with suppress(services.Conflict, config.Invalid):
                getattr(services, verb)(task, task.user)

    # Operators

    @rule(flag=st.sampled_from(("ads", "speech")), cards=st.sampled_from((0, 1, 3, 5)))
    def a_quota_is_changed(self, flag: str, cards: int) -> None:
        Quota.objects.filter(business__flag=flag).update(cards=cards)

    @rule(which=number, state=st.sampled_from(("ready", "ready", "cordoned", "draining", "removed")))
    def a_host_is_set(self, which: int, state: str) -> None:
        Host.objects.filter(pk=self._host(which).pk).update(state=state)

    # Hosts

    @rule(which=number)
    def a_host_reports(self, which: int) -> None:
        self.sent.append(self._host(which).say())

    @precondition(lambda self: self.sent)
    @rule(which=number, again=st.booleans(), answered=st.booleans())
    def a_report_arrives(self, which: int, again: bool, answered: bool) -> None:
        """Any of those on their way, so also late; it may arrive once more, and its answer may be lost."""
        sent = self.sent[which % len(self.sent)]
        if not again:
            self.sent.remove(sent)
        answer = self.hosts[sent.host].heard(sent)
        if answered:
            self.hosts[sent.host].answered(sent, answer)

    @precondition(lambda self: self.sent)
    @rule(which=number)
    def a_report_is_lost(self, which: int) -> None:
        self.sent.pop(which % len(self.sent))

    @rule(which=number)
    def a_host_reports_and_waits_for_news(self, which: int) -> None:
        self._exchange(self._host(which))

    @rule(which=number)
    def an_agent_is_started_anew(self, which: int) -> None:
        self._host(which).restart_agent()

    @rule(which=number)
    def a_host_is_started_anew(self, which: int) -> None:
        self._host(which).restart()

    @rule(which=number)
    def a_host_is_wiped(self, which: int) -> None:
        self._host(which).wipe()

    @rule(which=number, cards=st.sampled_from((1, 2, 2)))
    def a_host_has_other_cards(self, which: int, cards: int) -> None:
        self._host(which).cards = cards

    @rule(which=number)
    def something_is_prepared(self, which: int) -> None:
        for host, kept in self._kept(which):
            host.prepare(kept)

    @rule(which=number, how=st.sampled_from(("well", "well", "badly", "killed", "keeper")))
    def something_ends(self, which: int, how: str) -> None:
        for host, kept in self._kept(which):
            host.leave(kept, how)
            host.act()

    # Passes and time

    @precondition(lambda self: self.planned is None)
    @rule()
    def a_pass_runs(self) -> None:
        self._run_pass()

    @precondition(lambda self: self.planned is None)
    @rule()
    def everybody_works(self) -> None:
        """Hosts hear what they should run, prepare it, end what is to end, and say so; a pass hears of it."""
        self._run_pass()
        for host in self.hosts.values():
            self._exchange(host)
            for kept in list(host.kept.values()):
                if kept.phase == "ending":
                    host.leave(kept, "well")
                else:
                    host.prepare(kept)
            self._exchange(host)
        self._run_pass()
        self._later(2)

    @precondition(lambda self: self.planned is None)
    @rule()
    def a_pass_decides(self) -> None:
        self._later(PASS_S)
        loaded = snapshot.load(time.time(), snapshot.policy().fair_half_life_s)
        self.planned = loaded, decide(loaded.snapshot, snapshot.policy())
        self.quotas_read = rules.quotas_of(rows.read())

    @precondition(lambda self: self.planned is not None)
    @rule()
    def it_writes_what_it_decided(self) -> None:
        """Whatever happened since it read: other passes excepted, which the lease keeps out."""
        (loaded, plan), self.planned = self.planned, None
        fence = lease.take("slow", 0)
        assert fence is not None
        apply(plan, loaded, snapshot.policy(), fence)
        lease.give_back(fence, 1.0)

    @precondition(lambda self: self.planned is None)
    @rule(
        meanwhile=st.lists(
            st.tuples(st.sampled_from(("stop", "hold", "release")), number), min_size=1, max_size=4
        )
    )
    def a_pass_is_slow(self, meanwhile: list[tuple[str, int]]) -> None:
        """People change their minds between its decision and its writing."""
        self.a_pass_decides()
        for verb, which in meanwhile:
            self.somebody_steers(verb, which)
        self.it_writes_what_it_decided()

    @precondition(lambda self: self.planned is None)
    @rule(seconds=st.sampled_from(WAITS_S))
    def time_goes_on(self, seconds: int) -> None:
        self._later(seconds)

    # What must hold

    @invariant()
    def rows_are_right(self) -> None:
        if not self.hosts:
            return
        after = rows.read()
        self._nothing(rules.broken(after, CAP))
        if self.before is not None:
            self._nothing(rules.grown_wrongly(self.before, after))
            self._nothing(rules.beyond_quota(self.before, after, self._highest_quotas(after)))
        self.before = after
        alive = [process for host in self.hosts.values() for process in host.alive()]
        self._nothing(real.no_card_is_used_twice(alive))
        self._nothing(real.no_task_runs_twice(alive, after))
        self._nothing(real.what_is_gone_does_not_run(after, alive))
        for host in self.hosts.values():
            assert len(set(host.starts)) == len(host.starts), "an instance was started twice"

    def _highest_quotas(self, after: rows.Rows) -> dict[rules.Key, int]:
        """Return the quotas; while a pass is under way also those that it read, for it may still act on them."""
        highest = rules.highest_of([rules.quotas_of(after), self.quotas_read])
        if self.planned is None:
            self.quotas_read = {}
        return highest

    def _nothing(self, found: Any) -> None:
        violation = rules.first(found)
        assert violation is None, str(violation)

    def teardown(self) -> None:
        try:
            if self.hosts:
                self._come_to_rest()
        finally:
            self.clock.stop()
            transaction.set_rollback(True)
            self.example.__exit__(None, None, None)

    def _come_to_rest(self) -> None:
        """Everything works again, and everybody comes to an end: nobody is forgotten, and nothing is left."""
        if self.planned is not None:
            self.it_writes_what_it_decided()
        Host.objects.update(state="ready")
        for flag in self.users:
            Quota.objects.filter(business__flag=flag).update(cards=5)
        for host in self.hosts.values():
            host.cards = 2
        for _ in range(AT_REST_ROUNDS):
            for host in self.hosts.values():
                self._work(host)
            for kept in Task.objects.filter(state=State.KEEPING).select_related("user"):
                services.free(kept, kept.user)
            self._run_pass()
            self._later(20)
            self.rows_are_right()
            if not Task.objects.exclude(state__in=[*TERMINAL, State.HELD]).exists():
                break
        for host in self.hosts.values():
            self._exchange(host)
        after = rows.read()
        self._nothing(rules.unsettled(after))
        self._nothing(
            real.nothing_runs([process for host in self.hosts.values() for process in host.alive()])
        )

    def _work(self, host: PlayedHost) -> None:
        """Let everything on a host go a step further, and the platform hear of it."""
        self._exchange(host)
        for kept in list(host.kept.values()):
            if kept.phase in {"running", "ending"}:
                host.leave(kept, "well")
            else:
                host.prepare(kept)
        self._exchange(host)

    def _exchange(self, host: PlayedHost) -> None:
        sent = host.say()
        host.answered(sent, host.heard(sent))

    def _run_pass(self) -> None:
        self._later(PASS_S)
        passes.run(wait_s=0)

    def _later(self, seconds: float) -> None:
        self.now += seconds
        self.traveller.move_to(self.now)

    def _host(self, which: int) -> PlayedHost:
        return list(self.hosts.values())[which % len(self.hosts)]

    def _task(self, which: int, *, over: bool) -> Task | None:
        """Return a task that is over, or one that is not; None where there is none."""
        tasks = Task.objects.select_related("user").order_by("id")
        found = list(tasks.filter(state__in=TERMINAL) if over else tasks.exclude(state__in=TERMINAL))
        return found[which % len(found)] if found else None

    def _kept(self, which: int) -> Any:
        """Return one instance that is on a host and not gone, with its host; none where there is none."""
        found = [
            (host, kept)
            for host in self.hosts.values()
            for kept in host.kept.values()
            if kept.phase != "gone"
        ]
        return found[which % len(found) :][:1] if found else []


def test_any_course() -> None:
    run_state_machine_as_test(
        Course,
        settings=settings(
            max_examples=20,
            stateful_step_count=40,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )


# Single courses, step by step: those that once failed, and those that are rarely drawn


@pytest.fixture
def course() -> Iterator[Course]:
    """Give a course with two elastic tasks, at whose end everything comes to rest as at the end of any."""
    course = Course()
    course.there_is_a_world([{"is_elasticity": True, "host_gpu_num": 1, "host_num": 1}] * 2)
    yield course
    course.teardown()


def then(course: Course, *steps: Callable[[], None]) -> None:
    """Take these steps, and see that what must hold holds after each."""
    for step in steps:
        step()
        course.rows_are_right()


def test_a_pass_under_way_acts_on_the_quota_that_it_read(course: Course) -> None:
    document = {"is_elasticity": False, "host_gpu_num": 2, "host_num": 1}
    then(
        course,
        lambda: course.somebody_submits(document, "speech"),
        course.a_pass_decides,
        lambda: course.a_quota_is_changed("speech", 0),
        course.it_writes_what_it_decided,
        course.everybody_works,
    )
    assert rules.held_high(rows.read()).total() == 2


def test_a_host_that_was_removed_is_heard_until_nothing_of_ours_is_left_and_no_longer(course: Course) -> None:
    then(
        course,
        *(lambda which=which: course.a_host_is_set(which, "removed") for which in range(3)),
        course.everybody_works,
        course.everybody_works,
        course.everybody_works,
    )
    for host in course.hosts.values():
        sent = host.say()
        assert host.heard(sent) is None
        assert host.alive() == []


def test_what_ran_on_a_host_that_was_wiped_is_never_run_a_second_time(course: Course) -> None:
    began = {pk for host in course.hosts.values() for pk in host.starts}
    assert len(began) == 2
    then(
        course, *(host.wipe for host in course.hosts.values()), course.everybody_works, course.everybody_works
    )
    assert not began.intersection(pk for host in course.hosts.values() for pk in host.kept if host.alive())
