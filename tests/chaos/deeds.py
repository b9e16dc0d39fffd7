"""PURE: what is done to the installation and when, every choice of it from the seed."""

import random
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass

AGENTS = 4

# Programs that are ended or stopped, and how often among each other: those at hand of most come first.
KILLED = {
    **{f"agent-{number}": 3 for number in range(AGENTS)},
    "worker": 4,
    "second-worker": 4,
    "web": 4,
    "beat": 1,
    "second-beat": 1,
    "valkey": 2,
    "postgres": 1,
    "backend": 3,  # one connection's process: PostgreSQL then restarts all the others
    "keeper": 4,  # an instance's keeper, which nobody starts again
    "command": 3,  # what a task runs
}
STOPPED = {
    **{f"agent-{number}": 2 for number in range(AGENTS)},
    "worker": 4,
    "second-worker": 4,
    "web": 2,
    "beat": 1,
    "valkey": 2,
    "postgres": 2,
    "keeper": 1,
}
LINES = {"refuse": 1, "swallow": 3, "no_answers": 3, "delay": 3}  # what tests/chaos/proxy.py does
OFFSETS_S = (420.0, -420.0, -3600.0, 3600.0, 0.0, 0.5)
QUOTAS = {("ads", "P40"): (7, 9, 4), ("ads", "M40"): (2, 4), ("speech", "P40"): (5, 6, 2)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Deed:
    """One thing that is done `at` seconds after the start."""

    at: float
    kind: str
    target: str = ""
    word: str = ""  # how: of a line, of a task
    pick: int = 0  # which of those that are there then: this number, modulo how many
    number: float = 0.0  # an offset of a clock, cards of a quota, seconds of a task
    for_s: float = 0.0  # it is undone after so long; 0: it stays

    def __str__(self) -> str:
        number = f"{self.number:g}" if self.number or self.kind in {"quota", "clock"} else ""
        words = [self.kind, self.target, self.word, number]
        lasting = f"for {self.for_s:.1f} s" if self.for_s else ""
        return " ".join(word for word in [*words, lasting] if word)


def deeds(seed: int, minutes: float) -> list[Deed]:
    """Return all that is done in so many minutes, in order; the same for the same seed."""
    found: list[Deed] = []
    for place, (per_minute, make) in enumerate(SORTS):
        dice = random.Random(f"{seed} {place}")
        found += [make(dice, at) for at in _times(dice, per_minute, minutes * 60)]
    return sorted(found, key=lambda deed: deed.at)


def counted(done: Iterable[Deed]) -> Counter[str]:
    """Return how many deeds there are of each kind."""
    return Counter(deed.kind for deed in done)


def _times(dice: random.Random, per_minute: float, seconds: float) -> Iterable[float]:
    """Return moments that come by themselves, so many in a minute on average."""
    at = dice.expovariate(per_minute / 60)
    while at < seconds:
        yield round(at, 3)
        at += dice.expovariate(per_minute / 60)


def _one_of(dice: random.Random, weights: dict[str, int]) -> str:
    return dice.choices(list(weights), list(weights.values()))[0]


def _agent(dice: random.Random) -> str:
    return f"agent-{dice.randrange(AGENTS)}"


def _kill(dice: random.Random, at: float) -> Deed:
    # Mostly back at once, at times away for so long that its hosts are lost.
    away_s = dice.choice((0.2, 0.2, 1.0, 3.0, 3.0, 10.0, 40.0))
    target = _one_of(dice, KILLED)
    if not target.startswith("agent"):
        away_s = min(away_s, 3.0)
    return Deed(at=at, kind="kill", target=target, pick=dice.randrange(1000), for_s=away_s)


def _stop(dice: random.Random, at: float) -> Deed:
    target = _one_of(dice, STOPPED)
    # A worker that is stopped longer than the lease of the pass lasts finds it taken over.
    longest = {"worker": 14.0, "second-worker": 14.0, "postgres": 4.0, "valkey": 6.0, "web": 6.0}
    for_s = dice.choice((0.5, 2.0, longest.get(target, 45.0)))
    return Deed(at=at, kind="stop", target=target, pick=dice.randrange(1000), for_s=for_s)


def _line(dice: random.Random, at: float) -> Deed:
    word = _one_of(dice, LINES)
    number = dice.choice((0.05, 0.5, 3.0)) if word == "delay" else 0.0
    for_s = dice.choice((1.0, 5.0, 12.0, 45.0))
    return Deed(at=at, kind="line", target=_agent(dice), word=word, number=number, for_s=for_s)


def _cut(dice: random.Random, at: float) -> Deed:
    return Deed(at=at, kind="cut", target=_agent(dice))


def _clock(dice: random.Random, at: float) -> Deed:
    return Deed(at=at, kind="clock", target=_agent(dice), number=dice.choice(OFFSETS_S))


def _fewer_cards(dice: random.Random, at: float) -> Deed:
    number = dice.choice((1.0, 2.0))
    return Deed(at=at, kind="fewer_cards", target=_agent(dice), number=number, for_s=dice.choice((8.0, 20.0)))


def _flush(_: random.Random, at: float) -> Deed:
    return Deed(at=at, kind="flush", target="valkey")


def _submit(dice: random.Random, at: float) -> Deed:
    word = _one_of(dice, TASKS)
    return Deed(at=at, kind="submit", word=word, pick=dice.randrange(10**6), number=_seconds(dice, word))


def _seconds(dice: random.Random, word: str) -> float:
    """Return how long a task works: guaranteed ones come and go, elastic ones fill what is left."""
    least, most = (1.0, 4.0) if word.startswith("high") else (6.0, 28.0)
    return round(dice.uniform(least, most), 1)


# What is submitted, and how often among each other; tests/chaos/work.py says what each is.
TASKS = {
    "high": 22,
    "high_gang": 5,
    "high_kept": 1,
    "auto": 6,
    "elastic": 20,
    "elastic_once": 3,  # not pulled up
    "elastic_gang": 5,
    "stubborn": 4,  # ignores TERM
    "saving": 5,  # with an exit command
    "forking": 2,  # leaves a process in a session of its own behind
    "failing": 3,
    "endless": 1,  # until its time limit
}


def _steer(verb: str) -> Callable[[random.Random, float], Deed]:
    def make(dice: random.Random, at: float) -> Deed:
        return Deed(at=at, kind=verb, pick=dice.randrange(10**6))

    return make


def _quota(dice: random.Random, at: float) -> Deed:
    business, gpu_type = dice.choice(sorted(QUOTAS))
    cards = dice.choice(QUOTAS[business, gpu_type])
    return Deed(at=at, kind="quota", target=business, word=gpu_type, number=float(cards))


def _host(dice: random.Random, at: float) -> Deed:
    word = dice.choice(("cordoned", "draining", "draining"))
    return Deed(at=at, kind="host", target=_agent(dice), word=word, for_s=dice.choice((4.0, 15.0)))


# How often in a minute, and what. Only added to at the end, so that a seed goes on meaning what it meant.
SORTS: tuple[tuple[float, Callable[[random.Random, float], Deed]], ...] = (
    (20.0, _kill),
    (8.0, _stop),
    (6.0, _line),
    (3.0, _cut),
    (3.0, _clock),
    (1.0, _fewer_cards),
    (1.0, _flush),
    (72.0, _submit),
    (7.0, _steer("stop_task")),
    (3.0, _steer("hold")),
    (3.0, _steer("release")),
    (2.0, _steer("free")),
    (2.0, _steer("retry")),
    (2.0, _quota),
    (1.5, _host),
)
