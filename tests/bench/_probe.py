"""Write what people and hosts write while a pass runs, in a process of its own, and say how long each write took.

Run as `python -m tests.bench._probe`: for each line on its input it answers with the longest write since the line
before, in seconds; it ends with its input.
"""

import random
import select
import sys
import time
from collections.abc import Callable, Sequence
from itertools import cycle

import django
from django.db import transaction

PAUSE_S = 0.01


def main() -> None:
    """Write until the input ends."""
    django.setup()
    longest = 0.0
    for write in cycle(_writes()):
        began = time.perf_counter()
        with transaction.atomic():
            write()
        longest = max(longest, time.perf_counter() - began)
        if select.select([sys.stdin], [], [], PAUSE_S)[0]:
            if not sys.stdin.readline():
                return
            print(longest, flush=True)
            longest = 0.0


def _writes() -> Sequence[Callable[[], object]]:
    """Return a submit, a report and a steering of a waiting task, each on rows that a pass may be at."""
    from cluster.models import Host, Instance
    from jobs import lifecycle
    from jobs.models import Task
    from quotas.models import Business

    dice = random.Random(3)
    first = Business.objects.get(pk=1)
    user = first.tasks.earliest("pk").user
    running = list(Instance.objects.filter(phase="running").values_list("pk", "host_id"))
    waiting = list(Task.objects.waiting().values_list("pk", flat=True))

    def submit() -> None:
        task = Task.objects.create(
            business=first, user=user, task_flag="probe", config={}, wanted_class="elastic",
            host_num=1, host_gpu_num=1, gpu_types=[1], state="held",
        )  # fmt: skip
        lifecycle.note([task.pk], code="submitted", new="held", actor=user)

    def report() -> None:
        instance, host = dice.choice(running)
        Host.objects.filter(pk=host).update(agent_seq=1, clock_offset_s=0.0)
        Instance.objects.filter(pk=instance).update(log_bytes=1)

    def steer() -> None:
        Task.objects.filter(pk=dice.choice(waiting)).update(keep_alive=False)

    return submit, report, steer


if __name__ == "__main__":
    main()
