"""What happens to the tasks that the tests of a task's page look at; see deeds.py."""

import json
from collections.abc import Callable
from datetime import timedelta

from django.utils import timezone

from cluster import hints, logs
from cluster.models import Card, CardMinute, Host, Instance
from jobs.models import Attempt, Task
from tests.portal.conftest import note, run
from tests.world import World

world = World()
ODD = (
    b"\x1b[1;32mepoch 1\x1b[0m started\n"
    b"INFO loading data\n"
    b"WARNING few workers\n"
    b"ERROR card 3: out of memory\n"
    b'Traceback (most recent call last):\n  File "train.py", line 7\nValueError: bad\n'
    b"INFO <script>alert(1)</script> <b>plain</b>\n"
    b"10 %\r50 %\r100 % done\n"
    b"nul \x00 bell \x07 here\n" + "中文，按 GBK 写的".encode("gb18030") + b"\n"
    b"\xff\xfe broken\n" + "turned \u202eright to left\n".encode() + "训练完成 100%\n".encode()
)
BIG_LINES = 400_000  # of 76 bytes: some 30 MB
NEEDLE = 123_456  # the line of the big log that says something else


def rich() -> None:
    """Make a task with two attempts, odd and big logs; one that waits, one that is over quota, one that failed."""
    hosts = [world.host(f"big-{number}", 8, "P40", "Shenzhen") for number in range(1, 7)]
    Host.objects.filter(name="big-3").update(state="cordoned", state_reason="the fan is loud")
    Host.objects.filter(name="big-4").update(lost_since=timezone.now())
    found = {
        "story": story(hosts[0], hosts[1]),
        "waits": waits(),
        "over": over(hosts[5]),
        "failed": failed(hosts[4]),
    }
    print(json.dumps(found))


def story(first: Host, second: Host) -> int:
    """Return a gang that was evicted once, runs again, and is a copy of another task."""
    high = Task.objects.get(task_flag="high-one")
    same = {"GPUName": "P40", "host_num": 2, "host_gpu_num": 4, "env": {"SEED": "1"}}
    origin = world.task(task_flag="first-try", hosts=2, cards=4, state="stopped", config=same)
    task = world.task(
        task_flag="story \u202eabc 全量-🚀",
        hosts=2,
        cards=4,
        wanted_class="elastic",
        pull_up=True,
        checkpoint_interval_s=120,
        origin=origin,
        config={**same, "env": {"SEED": "2"}, "start_cmd": "python train.py --lr 0.1"},
    )
    note(task, "submitted", "queued", actor=world.user("ann"))
    told = timezone.now() - timedelta(minutes=1)
    run(
        task,
        first,
        second,
        outcome="evicted",
        outcome_code="evicted",
        evicted_for=high,
        evict_rule="victim",
        ending_at=told,
    )
    note(task, "evicted", "evicting", args={"for": high.pk, "rule": "victim"})
    attempt = run(task, first, second)
    note(
        task,
        "started_again",
        "starting",
        args={"class": "elastic", "gpu_type": "P40", "hosts": {"big-1": [0, 1, 2, 3]}},
    )
    note(task, "running", "running")
    figures(attempt)
    append(attempt, 0, ODD)
    line = "step {:>9} loss 0.693147 accuracy 0.501 lr 0.1 throughput 1234.5 img/s ....\n"
    lines = [line.format(number) for number in range(BIG_LINES)]
    lines[NEEDLE] = "the needle in the haystack\n"
    append(attempt, 1, "".join(lines).encode())
    return task.pk


def figures(attempt: Attempt) -> None:
    """Let the attempt be 40 minutes old, and give figures of its cards for all of them but one minute."""
    Attempt.objects.filter(pk=attempt.pk).update(created_at=timezone.now() - timedelta(minutes=40))
    cards = Card.objects.filter(leases__gang=attempt.pk, leases__instance__rank=0).order_by("index")
    Card.objects.filter(pk__in=cards.values("pk")).update(memory_mib=24 * 1024)
    now = int(timezone.now().timestamp() // 60)
    CardMinute.objects.bulk_create(
        CardMinute(
            card=card,
            minute=minute,
            use_mean=(37 * minute + 11 * card.index) % 100,
            memory_mean_mib=12 * 1024,
            xids="79" if card.index == 3 and minute == now - 5 else "",
        )
        for card in cards
        for minute in range(now - 39, now)
        if minute != now - 20
    )


def waits() -> int:
    """Return a task that waits for cards."""
    numbers = {"per_host": 8, "types": "P40", "free": 20, "elastic": 8, "largest": 6}
    task = world.task(task_flag="wants-eight", cards=8, reason_code="no_room", reason_args=numbers)
    note(task, "submitted", "queued", actor=world.user("ann"))
    return task.pk


def over(host: Host) -> int:
    """Return a task that waits because its business's quota was lowered below what runs."""
    holder = world.task("games", "ann", task_flag="holds-eight", cards=8)
    run(holder, host)
    world.business("games", P40=4)
    numbers = {"business": "games", "used": 8, "type": "P40", "limit": 4, "over": 4}
    task = world.task(
        "games", "ann", task_flag="over", cards=1, reason_code="quota_over", reason_args=numbers
    )
    return task.pk


def failed(host: Host) -> int:
    """Return a task that failed."""
    task = world.task(task_flag="oom", cards=1, state="failed", ended_at=timezone.now())
    run(task, host, outcome="failed", outcome_code="out_of_memory", outcome_args={"host": host.name})
    return task.pk


def append(attempt: Attempt, rank: int, data: bytes) -> None:
    """Append to the log of a member as the agent's calls do."""
    instance = Instance.objects.get(gang=attempt.pk, rank=rank)
    for begin in range(0, len(data), logs.PART_AT_MOST):
        logs.append(instance.pk, logs.end_of(instance.pk), data[begin : begin + logs.PART_AT_MOST])
    Instance.objects.filter(pk=instance.pk).update(log_bytes=logs.end_of(instance.pk))


def _running() -> Attempt:
    return Attempt.objects.get(task__task_flag__startswith="story", ended_at=None)


def more() -> None:
    """Let the story print three more numbered lines; print the number of the last."""
    attempt = _running()
    instance = Instance.objects.get(gang=attempt.pk, rank=0)
    done = logs.read(instance.pk, 0, 2**20)[0].count(b"count ")
    append(attempt, 0, b"".join(b"\ncount %d" % number for number in range(done, done + 3)))
    hints.publish(f"log.{attempt.pk}")
    print(done + 2)


def flood() -> None:
    """Let the story print more than a page can follow."""
    attempt = _running()
    append(attempt, 0, b"".join(b"\nflood %d" % number for number in range(500_000)) + b"\nafter the flood\n")
    hints.publish(f"log.{attempt.pk}")


def long_line() -> None:
    """Let the story print one line of 5 MB, and a progress bar of 5 MB."""
    attempt = _running()
    append(
        attempt, 0, b"\n" + b"x" * 5_000_000 + b"\n" + b"tick %9d\r" * 350_000 + b"bar done\nlast of all\n"
    )
    hints.publish(f"log.{attempt.pk}")


def leave() -> None:
    """Let the story be told to end."""
    task = _running().task
    task.attempts.filter(ended_at=None).update(ending="stopped", ending_code="stop", ending_at=timezone.now())
    Task.objects.filter(pk=task.pk).update(state="stopping")
    note(task, "stop", "stopping", actor=world.user("ann"))
    hints.publish(f"task.{task.pk}", "tasks")


DEEDS: dict[str, Callable[[], None]] = {
    "rich": rich,
    "more": more,
    "flood": flood,
    "long_line": long_line,
    "leave": leave,
}
