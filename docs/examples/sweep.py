"""Try several learning rates at once on idle cards, and say which did best.

    TAIJI_URL=https://taiji.example.org TAIJI_TOKEN=… python sweep.py ads 0.1 0.03 0.01

Each task prints `loss=…` as its last word; a task that is evicted comes back by itself.
"""

import asyncio
import os
import re
import sys

from jobs.client.platform import AsyncTaiji

COMMAND = "python3 -c \"lr = float($LR); print(f'loss={(lr - 0.03) ** 2 + 0.5:.4f}')\""


async def try_one(platform: AsyncTaiji, business: str, rate: str) -> tuple[float, str]:
    """Run one task to its end; return its loss (infinity where it failed) and its learning rate."""
    document = {
        "business_flag": business,
        "task_flag": f"sweep-lr-{rate}",
        "is_elasticity": True,
        "enable_evicted_pulled_up": True,
        "start_cmd": COMMAND,
        "env": {"LR": rate},
    }
    task = await platform.wait((await platform.submit(document))["id"])
    log = await platform.log(task["id"])
    found = re.findall(rb"loss=([0-9.]+)", log.data)
    if task["state"] != "succeeded" or not found:
        print(f"lr={rate}: {task['state']}, {task['url']}")
        return float("inf"), rate
    print(f"lr={rate}: loss {float(found[-1]):.4f}")
    return float(found[-1]), rate


async def main(business: str, rates: list[str]) -> None:
    """Try all of them at once."""
    async with AsyncTaiji(os.environ["TAIJI_URL"], os.environ["TAIJI_TOKEN"]) as platform:
        loss, rate = min(await asyncio.gather(*(try_one(platform, business, rate) for rate in rates)))
    print(f"best: lr={rate}, loss {loss:.4f}")


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    asyncio.run(main(sys.argv[1], sys.argv[2:]))
