"""Many tasks at once: what it costs of the API server, counted."""

import time
from collections import Counter

from cluster.kubernetes.calls import THREADS
from cluster.models import Card
from jobs.engine import passes
from jobs.models import Task
from tests.kubernetes.conftest import Kube, node
from tests.world import World

TASKS = 300


def test_the_pods_of_three_hundred_tasks_cost_one_call_each_and_no_list(world: World, kube: Kube) -> None:
    kube.fleet.places = False
    world.business("ads", P40=400)
    for number in range(38):
        kube.add(node(f"gpu-{number}"))
    kube.control()
    kube.until(lambda: Card.objects.filter(state="ok").count() == 304)
    for number in range(TASKS):
        world.task(config={"start_cmd": "true"}, task_flag=f"t{number}")
    passes.run()
    assert Task.objects.filter(state="starting").count() == TASKS
    kube.server.calls.clear()
    kube.server.connections.clear()
    began, cpu, others = time.monotonic(), time.process_time(), kube.server.cpu_s()
    kube.until(
        lambda: sum(call == ("POST", f"{kube._folder}/pods") for call in kube.server.calls) >= TASKS,
        plan=False,
    )
    took_s, cpu_s = time.monotonic() - began, time.process_time() - cpu
    others_s = kube.server.cpu_s() - others
    for _ in range(20):
        kube.step(plan=False)
    calls = Counter(method for method, path in kube.server.calls if "leases" not in path)
    print(
        f"{TASKS} pods in {took_s:.2f} s ({TASKS / took_s:.0f}/s): {cpu_s:.2f} s of CPU, of which {others_s:.2f} s "
        f"the stand-in's; alone it would be {TASKS / (cpu_s - others_s):.0f}/s of one core"
    )
    assert calls == {"POST": TASKS}
    assert len(kube.pods()) == TASKS
    assert len(kube.server.connections) <= 2 * THREADS  # used again, and not opened for each
