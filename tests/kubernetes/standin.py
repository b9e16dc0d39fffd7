"""A stand-in for a whole cluster but its kubelets, as a process of its own: `python -m tests.kubernetes.standin FILE`.

FILE becomes its kubeconfig. It ends when what it reads from ends.
"""

import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

from cluster.kubernetes.calls import Away, Calls, Refused, connect
from cluster.kubernetes.watch import Mirror
from tests.kubernetes.mpi_operator import Operator
from tests.kubernetes.objects import Failure
from tests.kubernetes.scheduler import Scheduler
from tests.kubernetes.server import Server

TICK_S = 0.02
BUILT_IN = ("default", "kube-system", "kube-node-lease")


def kubeconfig(url: str) -> str:
    """Return a file that names the cluster at `url`."""
    return f"""\
apiVersion: v1
kind: Config
clusters: [{{name: c, cluster: {{server: "{url}"}}}}]
users: [{{name: u, user: {{token: t}}}}]
contexts: [{{name: x, context: {{cluster: c, user: u}}}}]
current-context: x
"""


def run(server: Server, calls: Calls) -> None:
    """Do for ever what scheduler, MPI operator and the controller of namespaces do."""
    nodes = Mirror(calls, "/api/v1/nodes", lambda: None).start()
    pods = Mirror(calls, "/api/v1/pods", lambda: None).start()
    scheduler, operator = Scheduler(calls), Operator(calls)
    while True:
        with suppress(Away, Refused):  # of what changed since it was seen
            scheduler.place(pods.objects(), nodes.objects())
            operator.tick()
        sweep(server)
        time.sleep(TICK_S)


def sweep(server: Server) -> None:
    """Remove what is in namespaces that are no more."""
    with server.store.lock:
        living = {"", *BUILT_IN, *(name for _, name in server.store.objects["namespaces"])}
        for resource, things in server.store.objects.items():
            for where, name in [key for key in things if key[0] not in living]:
                with suppress(Failure):  # it went with its owner
                    server.store.delete(resource, (where, name), 0)


def main(file: Path) -> None:
    """Stand in for a cluster until nobody needs it."""
    server = Server()
    draft = file.with_suffix(".new")
    draft.write_text(kubeconfig(server.url))
    threading.Thread(target=run, args=(server, Calls(connect(draft))), daemon=True).start()
    draft.replace(file)
    sys.stdin.read()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
