"""What happens to the site's database meanwhile, as a program: it reads names of deeds, and answers each in a line."""

import io
import json
import os
import sys
import traceback
from collections.abc import Callable
from contextlib import redirect_stdout
from datetime import timedelta

import django

django.setup()

# Models can be imported from here on only.
from django.utils import timezone  # noqa: E402

from cluster import hints, logs  # noqa: E402
from cluster.models import Instance  # noqa: E402
from jobs.engine import forecasts  # noqa: E402
from jobs.models import PassLease, Task, Template  # noqa: E402
from tests.browser import (  # noqa: E402
    business_deeds,
    desk_deeds,
    fleet,
    list_deeds,
    operate_deeds,
    submit_deeds,
    task_deeds,
)
from tests.portal.conftest import note, run  # noqa: E402
from tests.world import World  # noqa: E402

world = World()
STEPS = 300


def build() -> None:
    """Make people with passwords, a business with quota, hosts, templates and tasks in several states."""
    for user in (world.user("ann", "ads"), world.user("oz", "speech"), world.operator("root")):
        user.set_password(user.username)
        user.save()
    world.business("ads", P40=16, M40=4)
    for name, cards, gpu_type in (("gpu-1", 8, "P40"), ("gpu-2", 8, "P40"), ("gpu-3", 4, "M40")):
        world.host(name, cards, gpu_type, "Shenzhen")
    document = {"business_flag": "ads", "GPUName": "P40", "host_gpu_num": 2, "start_cmd": "python train.py"}
    Template.objects.create(name="Night run", description="Two cards until the morning.", config=document)
    high = world.task(task_flag="high-one", cards=4, gpu_types=["P40"])
    victim = world.task(task_flag="was-evicted-全量", cards=8, wanted_class="elastic", pull_up=True)
    note(victim, "submitted", "queued", actor=world.user("ann"))
    run(victim, world.host("gpu-1"), outcome="evicted", outcome_code="evicted", evicted_for=high)
    note(victim, "evicted", "evicting", args={"for": high.pk, "rule": "victim"})
    numbers = {"per_host": 8, "types": "P40", "free": 12, "largest": 6}
    world.task(task_flag="waits", cards=8, reason_code="no_cards", reason_args=numbers)
    for state in ("succeeded", "failed", "stopped", "held", "keeping"):
        world.task(task_flag=f"is-{state}", state=state)
    forecasts.run()


def looked() -> None:
    """Let the scheduler have looked, as it does all the time where it runs: for the hour to come it is not late."""
    soon = timezone.now() + timedelta(hours=1)
    PassLease.objects.update_or_create(pk=1, defaults={"finished_at": soon, "expires_at": soon})


def start() -> None:
    """Let the task `waits` run and write a log, and tell the pages; print its id."""
    task = Task.objects.get(task_flag="waits")
    attempt = run(task, world.host("gpu-2"))
    note(task, "running", "running")
    write(b"".join(b"step %d <b>plain</b>\n" % step for step in range(STEPS)))
    hints.publish("cards", "tasks", f"task.{task.pk}", f"log.{attempt.pk}")
    print(task.pk)


def log() -> None:
    """Let the running task write one more line."""
    write(b"10 %\r20 %\r\x1b[32mlast line \xe4\xb8\xad\xe6\x96\x87\x1b[0m\n")
    hints.publish(f"log.{Task.objects.get(task_flag='waits').attempts.get().pk}")


def write(data: bytes) -> None:
    """Append to the log of the running task."""
    instance = Instance.objects.get(gang=Task.objects.get(task_flag="waits").attempts.get().pk)
    logs.append(instance.pk, logs.end_of(instance.pk), data)


def end() -> None:
    """Let the running task end well, and tell the pages."""
    task = Task.objects.get(task_flag="waits")
    now = timezone.now()
    task.attempts.update(outcome="succeeded", ended_at=now)
    Task.objects.filter(pk=task.pk).update(state="succeeded", ended_at=now)
    note(task, "succeeded", "succeeded")
    hints.publish("tasks", f"task.{task.pk}")


DEEDS: dict[str, Callable[[], None]] = {
    "build": build,
    "fleet": fleet.fleet,
    "looked": looked,
    "start": start,
    "log": log,
    "end": end,
    **business_deeds.DEEDS,
    **desk_deeds.DEEDS,
    **list_deeds.DEEDS,
    **operate_deeds.DEEDS,
    **submit_deeds.DEEDS,
    **task_deeds.DEEDS,
}


def answer(name: str) -> None:
    """Do a deed in a process of its own, as if it were the first; print what it said, or what went wrong."""
    if not (child := os.fork()):
        said, error = io.StringIO(), ""
        try:
            with redirect_stdout(said):
                DEEDS[name]()
        except BaseException:
            error = traceback.format_exc()
        print(json.dumps({"said": said.getvalue(), "error": error}), flush=True)
        os._exit(0)
    os.waitpid(child, 0)


if __name__ == "__main__":
    for line in sys.stdin:
        answer(line.strip())
