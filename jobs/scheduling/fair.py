"""Fair share: decayed elastic card-seconds per business and per user, with a deposit while a task runs.

The use of a task that runs grows by `cards` per second and fades by half each half-life, so an account is
a value, a time and a rate: it is read at any later time in closed form, however many tasks run.
"""

import math
from collections.abc import Iterable

from jobs.scheduling.types import Running, Usage

DEPOSIT_S = 600.0  # charged at a start, given back at the end: a burst cannot win before its use is counted


class Account:
    """Decayed card-seconds of one user or one business."""

    __slots__ = ("at", "rate", "value")

    def __init__(self, at: float) -> None:
        self.value = 0.0
        self.rate = 0.0  # cards in use
        self.at = at

    def read(self, now: float, fade: float) -> float:
        """Return the card-seconds at `now`; `fade` is ln 2 / half-life."""
        if now == self.at:
            return self.value
        kept = math.exp(-fade * (now - self.at))
        return self.value * kept + self.rate * (1.0 - kept) / fade

    def change(self, now: float, fade: float, value: float, rate: float) -> None:
        """Add `value` card-seconds and `rate` cards from `now` on."""
        self.value = self.read(now, fade) + value
        self.rate += rate
        self.at = now


class Accounts:
    """The accounts of all businesses and their users."""

    def __init__(self, half_life_s: float, now: float, usage: Iterable[Usage] = ()) -> None:
        self.fade = math.log(2.0) / half_life_s
        self._now = now
        self._accounts: dict[tuple[int, int | None], Account] = {}  # (business, user; None: all of them)
        for row in sorted(usage, key=lambda row: (row.business, row.user)):
            self._change(row.business, row.user, now, row.card_s, 0.0)

    def read(self, business: int, user: int | None, now: float) -> float:
        """Return the card-seconds of the user, or of the whole business."""
        account = self._accounts.get((business, user))
        return account.read(now, self.fade) if account else 0.0

    def enrol(self, tasks: Iterable[Running], now: float) -> None:
        """Charge elastic tasks that run already, each as `start` does."""
        fade, exp = self.fade, math.exp
        totals: dict[tuple[int, int], tuple[float, int]] = {}
        for task in tasks:
            kept = exp(-fade * (now - task.started))
            value, rate = totals.get((task.business, task.user), (0.0, 0))
            value += task.cards * ((1.0 - kept) / fade + DEPOSIT_S * kept)
            totals[task.business, task.user] = value, rate + task.cards
        for (business, user), (value, rate) in totals.items():
            self._change(business, user, now, value, float(rate))

    def start(self, business: int, user: int, cards: int, started: float, now: float) -> None:
        """Charge an elastic start, with what it used since."""
        kept = math.exp(-self.fade * (now - started))
        used = cards * (1.0 - kept) / self.fade
        self._change(business, user, now, used + cards * DEPOSIT_S * kept, float(cards))

    def end(self, business: int, user: int, cards: int, started: float, now: float) -> None:
        """Stop charging, and give the deposit back; what was used stays."""
        kept = math.exp(-self.fade * (now - started))
        self._change(business, user, now, -cards * DEPOSIT_S * kept, -float(cards))

    def _change(self, business: int, user: int, now: float, value: float, rate: float) -> None:
        for key in ((business, None), (business, user)):
            account = self._accounts.get(key)
            if account is None:
                account = self._accounts[key] = Account(now)
            account.change(now, self.fade, value, rate)
