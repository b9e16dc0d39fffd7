"""What is submitted: config documents whose commands leave a trace of each start and each end."""

from typing import Any

from tests.chaos.deeds import Deed

OWNERS = {"ads": "ann", "speech": "bob"}
TRACE = "runs"  # in the folder of the task: a line for each start, and for each end that was reached
SAYS_START = f'echo "start $TAIJI_INSTANCE_ID $RANK" >> "$TAIJI_TASK_DIR/{TRACE}"'
SAYS_DONE = f'echo "done $TAIJI_INSTANCE_ID $RANK" >> "$TAIJI_TASK_DIR/{TRACE}"'

SHAPES: dict[str, dict[str, Any]] = {
    "high": {"is_elasticity": False},
    "high_gang": {"is_elasticity": False, "host_num": 2},
    "high_kept": {"is_elasticity": False, "keep_alive": True},
    "auto": {"is_elasticity": "auto", "enable_evicted_pulled_up": True},
    "elastic": {"is_elasticity": True, "enable_evicted_pulled_up": True},
    "elastic_once": {"is_elasticity": True},
    "elastic_gang": {"is_elasticity": True, "enable_evicted_pulled_up": True, "host_num": 2},
    "stubborn": {"is_elasticity": True, "enable_evicted_pulled_up": True},
    "saving": {"is_elasticity": True, "enable_evicted_pulled_up": True, "exit_cmd": "sleep 0.7"},
    "forking": {"is_elasticity": True, "enable_evicted_pulled_up": True},
    "failing": {"is_elasticity": True, "enable_evicted_pulled_up": True, "retry_limit": 1},
    "endless": {"is_elasticity": "auto", "time_limit": 25, "enable_evicted_pulled_up": True},
}


def document(deed: Deed) -> dict[str, Any]:
    """Return the config document of a `submit`."""
    pick = deed.pick
    gang = deed.word.endswith("gang")
    # High tasks are large and elastic ones small, so that one of those makes several of these leave.
    sizes = (1, 2, 2, 4, 4) if deed.word.startswith("high") else (1, 1, 1, 2, 2)
    cards = (1, 1, 2)[pick % 3] if gang else sizes[pick % 5]
    types = ("P40", "P40", "P40,M40", "M40,P40")[pick // 7 % 4]
    business = "ads" if pick // 29 % 3 else "speech"
    return {
        "business_flag": business,
        "host_gpu_num": cards,
        "GPUName": "P40" if gang else types,
        "start_cmd": command(deed.word, deed.number),
        **({"exec_start_in_all_mpi_pods": True} if gang and pick // 31 % 2 else {}),
        **({"priority": "high"} if pick // 37 % 5 == 0 else {}),
        **SHAPES[deed.word],
    }


def command(word: str, seconds: float) -> str:
    """Return what the task runs: it says when it starts, works, and says when it is done."""
    if word == "failing":
        return f"{SAYS_START}; sleep {seconds / 4:.1f}; exit 3"
    if word == "endless":
        return f"{SAYS_START}; sleep 3600"
    before = {"stubborn": "trap '' TERM; ", "forking": "setsid sleep 3600 & "}.get(word, "")
    return f"{before}{SAYS_START}; sleep {seconds:.1f}; {SAYS_DONE}"
