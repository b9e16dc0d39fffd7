"""When an agent calls, so that a thousand of them, started at once or with the same minute to tell, spread out."""

import random
import zlib

from cluster.agent.protocol import WAIT_S

# With the call that may have to be over first: the platform has each minute a minute later.
LAG_AT_MOST_S = 60 - WAIT_S
RETRY_S = 5.0


def lag_s(name: str) -> float:
    """Return how long after its end the host `name` tells of a minute, the same each time: hosts differ in it."""
    return float(zlib.crc32(name.encode()) % (LAG_AT_MOST_S + 1))


def wait_s(*, first: bool, most_s: float = WAIT_S) -> float:
    """Return how long a call may wait for news.

    The `first` one since the start, or after the platform was away, is cut short at random: hosts that came at one
    moment go on from different ones, and need no chance from then on.
    """
    return random.uniform(most_s / 4, most_s) if first else most_s


def retry_s(failures: int) -> float:
    """Return after how long to call again a platform that did not answer, `failures` times before this one."""
    return min(RETRY_S, 0.2 * 2.0 ** min(failures, 10)) * random.uniform(0.5, 1.0)
