"""What the agent says while the platform takes no report for long: again every few minutes, and since when."""

import time

REMIND_S = 300.0


class Outage:
    """One time without an accepted report; it begins with the first that fails."""

    def __init__(self) -> None:
        """Begin with nothing wrong."""
        self._since = ""
        self._told_s = 0.0

    def goes_on(self, now: float, now_s: float, fault: str) -> str:
        """Return what to say of one more failure at `now`, by a clock that never jumps `now_s`; blank as a rule."""
        if not self._since:
            self._since = time.strftime("%H:%M:%S", time.localtime(now))
            self._told_s = now_s  # its fault is said once by itself
        if now_s < self._told_s + REMIND_S:
            return ""
        self._told_s = now_s
        return f"No report has got through since {self._since} still; what runs, runs on. {fault}"
