"""Whether the calls of a host's agent fail so often that operators should look at the line, and what of that is kept.

It asks no database. It warns of a line that breaks for moments, again and again: one that is cut for long is seen by
the host's silence, and one restart of the platform is no fault of the host's.
"""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from cluster.reports import CallsReport

OFTEN = 3  # times within what the agent looks back on
# So far back an agent that started anew has to look before its word that none failed counts: seconds.
WELL_S = 300


def kept(before: Mapping[str, Any] | None, said: CallsReport | None) -> dict[str, Any] | None:
    """Return the figures to keep of a host while it is warned of, None while it is not.

    `before` is what was kept so far, `said` what its agent says now; None: it is an older one and does not count.
    What begins with OFTEN times is over when nothing failed for as long as the agent looks back: in between
    nothing is told anew.
    """
    if said is None:
        return None
    if before is None:
        return asdict(said) if said.times >= OFTEN else None
    if said.failed:
        return asdict(said)
    return dict(before) if said.over_s < WELL_S else None
