"""Whatever happens in whatever order, what must hold after every pass holds: the simulator, driven step by step."""

import dataclasses
from itertools import pairwise
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from jobs.scheduling import policy as reading
from jobs.simulation.workload import Reader
from tests.scheduling.test_properties import TYPES, jobs, policies
from tests.scheduling.watch import Watched

OVER = frozenset({"succeeded", "failed", "stopped", "evicted", "refused"})
hosts = st.lists(st.sampled_from(("P40", "P40", "P40", "M40")), min_size=2, max_size=4)  # four cards each
quotas = st.sampled_from(([], [("A", 12), ("B", 4)], [("A", 6), ("B", 0)]))
long_ones = st.fixed_dictionaries(  # elastic work that fills the hosts
    {
        "business": st.sampled_from("BC"),
        "user": st.sampled_from(("ann", "bob")),
        "host_gpu_num": st.sampled_from((1, 2, 4)),
        "host_num": st.sampled_from((1, 1, 2)),
        "gpu_type": st.just("P40"),
        "duration_s": st.sampled_from((900, 5000)),
        "pull_up": st.sampled_from((True, True, False)),
        "exit_s": st.sampled_from((0, 30, 200)),
    },
    optional={"class": st.just("auto"), "checkpoint_s": st.just(300)},
)
guaranteed = st.fixed_dictionaries(
    {
        "business": st.sampled_from("AAB"),
        "class": st.just("high"),
        "host_gpu_num": st.sampled_from((1, 2, 4)),
        "host_num": st.sampled_from((1, 1, 2)),
        "gpu_type": st.sampled_from(("P40", "P40", "M40,P40")),
        "duration_s": st.sampled_from((50, 400)),
    },
    optional={"priority": st.just("high"), "time_limit_s": st.just(300), "exit_s": st.just(25)},
)
waits = st.sampled_from((0, 1, 25, 25, 100, 700))
number = st.integers(0, 1000)  # which of those that are there: the number, modulo how many


class Course(RuleBasedStateMachine):
    """People submit and stop, operators change hosts and quotas, cards break, and time goes on."""

    @initialize(hosts=hosts, quotas=quotas, policy=policies)
    def begin(self, hosts: Any, quotas: Any, policy: Any) -> None:
        self.reader = Reader()
        self.reader.add_hosts(
            [
                {"host": f"h{n}", "region": "gz" if n == 1 else "sz", "gpu_type": gpu_type, "gpu_num": 4}
                for n, gpu_type in enumerate(hosts)
            ]
        )
        self.reader.add_quotas(
            [{"business": b, "gpu_type": t, "cards": cards} for b, cards in quotas for t in TYPES]
        )
        setup = self.reader.setup(reading.read(policy))
        self.simulator = Watched(dataclasses.replace(setup, capped=True))
        self.seen: dict[int, str] = {}
        self.submitted = 0

    def happens(self, what: dict[str, Any]) -> None:
        self.simulator.add(self.reader.event({"at": self.simulator.now, **what}))

    def host(self, number: int) -> str:
        return f"h{number % len(self.simulator.setup.hosts)}"

    def task(self, number: int) -> str:
        return f"t{number % self.submitted}"

    @rule(some=st.lists(long_ones, min_size=2, max_size=5))
    def submit_long_ones(self, some: list[dict[str, Any]]) -> None:
        for job in some:
            self.submit(job)
        self.simulator.advance(self.simulator.now)

    @rule(job=guaranteed, after=waits)
    def submit_guaranteed(self, job: dict[str, Any], after: int) -> None:
        self.submit(job)
        self.simulator.advance(self.simulator.now + after)

    @rule(job=jobs)
    def submit_any(self, job: dict[str, Any]) -> None:
        self.submit(job)

    def submit(self, job: dict[str, Any]) -> None:
        self.happens({"submit": {"id": f"t{self.submitted}", **job}})
        self.submitted += 1

    @precondition(lambda self: self.submitted)
    @rule(task=number)
    def stop(self, task: int) -> None:
        self.happens({"stop": {"task": self.task(task)}})

    @precondition(lambda self: self.submitted)
    @rule(
        task=number, attempt=st.integers(1, 3), host=number, outcome=st.sampled_from(("failed", "succeeded"))
    )
    def member_ends(self, task: int, attempt: int, host: int, outcome: str) -> None:
        report = {"task": self.task(task), "attempt": attempt, "host": self.host(host), "outcome": outcome}
        self.happens({"report": report})

    @rule(
        host=number,
        state=st.sampled_from(("ready", "ready", "ready", "cordoned", "draining", "lost", "removed")),
    )
    def operate(self, host: int, state: str) -> None:
        self.happens({"host": {"host": self.host(host), "state": state}})

    @rule(host=number, index=st.integers(0, 1), state=st.sampled_from(("ok", "broken", "external")))
    def card(self, host: int, index: int, state: str) -> None:
        self.happens({"card": {"host": self.host(host), "index": index, "state": state}})

    @rule(
        business=st.sampled_from("AB"),
        gpu_type=st.sampled_from(TYPES),
        cards=st.integers(0, 8),
        cap=st.sampled_from((None, None, 0, 4)),
    )
    def grant(self, business: str, gpu_type: str, cards: int, cap: int | None) -> None:
        row = {"business": business, "gpu_type": gpu_type, "cards": cards, "elastic_cards": cap}
        self.happens({"quota": row})

    @rule(
        business=st.sampled_from("AB"),
        cards=st.integers(1, 6),
        begins=waits,
        lasts=st.sampled_from((100, 900)),
    )
    def reserve(self, business: str, cards: int, begins: int, lasts: int) -> None:
        start = self.simulator.now + begins
        row = {
            "business": business,
            "gpu_type": "P40",
            "cards": cards,
            "from_s": start,
            "to_s": start + lasts,
        }
        self.happens({"reservation": row})

    @rule(seconds=waits)
    def time_goes_on(self, seconds: int) -> None:
        self.simulator.advance(self.simulator.now + seconds)

    @invariant()
    def states_move_as_they_may(self) -> None:
        for job in self.simulator.jobs.values():
            before = self.seen.get(job.id, "queued")
            if before in OVER:
                assert job.state == before, f"{job.name} was over"
            self.seen[job.id] = job.state

    @invariant()
    def what_runs_has_one_open_attempt(self) -> None:
        running = set(self.simulator.cluster.running)
        for job in self.simulator.jobs.values():
            open_ones = [run for run in job.attempts if run.ended is None]
            assert len(open_ones) == (job.id in running)
            assert not open_ones or job.attempts[-1] is open_ones[0]
            assert (job.state == "queued") == (job.id in self.simulator.queue.tasks)
            assert (job.ended is not None) == (job.state in OVER)

    @invariant()
    def attempts_come_one_after_the_other(self) -> None:
        for job in self.simulator.jobs.values():
            for earlier, later in pairwise(job.attempts):
                assert earlier.ended is not None
                assert earlier.started <= earlier.ended <= later.started
            assert 0 <= job.done <= job.duration
            assert job.lost_card_s >= 0

    def teardown(self) -> None:
        if hasattr(self, "simulator"):
            self.simulator.advance(self.simulator.now + 50_000)
            self.what_runs_has_one_open_attempt()
            self.attempts_come_one_after_the_other()


Course.TestCase.settings = settings(max_examples=100, stateful_step_count=30, deadline=None)
TestAnyCourse = Course.TestCase
