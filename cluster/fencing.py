"""Who may speak for a host: one agent at a time, and only on the machine that the host is.

Pure. A token can be copied with its folder or its disk. So each report says on which machine it was written and
in which seat (this start of the machine's kernel and this state folder, which a lock keeps to one agent).
"""

from dataclasses import dataclass
from datetime import datetime

# An agent calls at least every 20 s, and what it said is written down within 10 s.
QUIET_S = 45.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Speaker:
    """An agent process, and where it is; blanks where an older agent does not say."""

    boot: str  # of the process
    machine: str = ""  # marks behind dots, each blank where it could not be read
    seat: str = ""


class Refused(Exception):
    """Another agent speaks for this host."""

    code = ""


class Elsewhere(Refused):
    """The host is another machine than the one that speaks now."""

    code = "another_machine"


class Second(Refused):
    """An agent that may still be alive spoke for this host `heard_s` ago."""

    code = "second_agent"

    def __init__(self, heard_s: float) -> None:
        """Keep how long ago that was."""
        super().__init__(heard_s)
        self.heard_s = heard_s


def check(known: Speaker, now_speaks: Speaker, heard_s: float | None) -> None:
    """Raise Refused unless `now_speaks` may take over from `known`, who was heard `heard_s` ago (None: never).

    In the same seat the lock says that the earlier process is dead. In another one (a machine that started
    again, or a copy of the folder) only its silence can.
    """
    if now_speaks.boot == known.boot or not known.boot:
        return
    if not _same_machine(known.machine, now_speaks.machine):
        raise Elsewhere
    if known.seat in {"", now_speaks.seat}:
        return
    if heard_s is not None and heard_s < QUIET_S:
        raise Second(max(0.0, heard_s))


def is_heard(last_at: datetime | None, now: datetime) -> bool:
    """Say whether the agent that was last heard then may still be alive."""
    return last_at is not None and (now - last_at).total_seconds() < QUIET_S


def _same_machine(known: str, told: str) -> bool:
    """Compare the marks that both sides have: an agent of another user may be able to read fewer."""
    pairs = zip(known.split("."), told.split("."), strict=False)
    return all(one == other or not one or not other for one, other in pairs)
