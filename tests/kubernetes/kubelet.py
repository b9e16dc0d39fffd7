"""A stand-in for the kubelets of all nodes, with a scheduler beside them: pods of theirs are real processes here.

They know the cluster only by its API, so they can play their part on a real API server, too.
"""

import base64
import copy
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from cluster.kubernetes.calls import Away, Calls, Conflict, Missing, Refused
from cluster.kubernetes.watch import Mirror
from tests.kubernetes.ceph_csi import CephCsi, NotMounted
from tests.kubernetes.kubelet_door import Door
from tests.kubernetes.scheduler import OVER, Scheduler, path_of

ROOT = Path(__file__).resolve().parents[2]
JSON = dict[str, Any]
TICK_S = 0.02


def stamp() -> str:
    """Return the time as kubelets write it beside lines."""
    at_ns = time.time_ns()
    return (
        datetime.fromtimestamp(at_ns // 10**9, UTC).strftime("%Y-%m-%dT%H:%M:%S.") + f"{at_ns % 10**9:09d}Z"
    )


def second() -> str:
    """Return the time as it stands in a status."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class Fleet:
    """The kubelets of a cluster, and its scheduler."""

    def __init__(
        self, calls: Calls, folder: Path, claims: Mapping[str, Path], mark: str, namespace: str = ""
    ) -> None:
        """Run pods below `folder` on the nodes with the label `mark`; a blank `namespace`: pods of all.

        `claims` are folders by the name of their claim.
        """
        self.calls, self.folder, self.claims = calls, folder, claims
        self.door = Door()
        self._scheduler = Scheduler(calls)
        self.silent: set[str] = set()  # nodes whose kubelet does nothing
        self.images: dict[str, str] = {}  # image → why it cannot be pulled
        self.images_on: dict[tuple[str, str], str] = {}  # node and image → why it cannot be pulled there
        self.pull_s: dict[str, float] = {}  # image → how long it takes to pull
        self.refusing: dict[str, str] = {}  # node → why it takes no pod
        self.ceph = CephCsi()
        self.unready: set[str] = set()  # paths of pods that are not ready, though they run
        self.slow_exit_s = 0.0  # added to the end of each pod
        self.places = True  # whether pods are given places
        self.beats = False  # whether nodes are said to be alive: a real cluster asks for that
        self._beat_at = 0.0
        self.running: dict[str, Pod] = {}  # by uid
        self._nodes = Mirror(calls, "/api/v1/nodes", lambda: None, labelSelector=mark).start()
        pods = f"/api/v1/namespaces/{namespace}/pods" if namespace else "/api/v1/pods"
        self._pods = Mirror(calls, pods, lambda: None).start()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Go away, and take what runs along."""
        self._ended.set()
        self._thread.join(60)
        self._nodes.stop()
        self._pods.stop()
        self.door.close()
        for pod in self.running.values():
            pod.kill()

    def say(self, namespace: str, pod: str, container: str, line: bytes) -> None:
        """Keep a line of a container; a blank one says that it runs."""
        lines = self.door.lines.setdefault((namespace, pod, container), [])
        if line:
            lines.append((stamp(), line))

    def _run(self) -> None:
        while not self._ended.wait(TICK_S):
            pods = self._pods.objects()
            try:
                if self.places:
                    self._scheduler.place(pods, self._nodes.objects())
                self._tend(pods)
                if self.beats and time.monotonic() >= self._beat_at:
                    self._beat()
            except (Away, Refused):
                continue

    def _beat(self) -> None:
        """Renew the lease of each node, as kubelets do."""
        self._beat_at = time.monotonic() + 10
        folder = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.000000Z")
        for name in {node["metadata"]["name"] for node in self._nodes.objects()} - self.silent:
            spec = {"holderIdentity": name, "leaseDurationSeconds": 40, "renewTime": now}
            try:
                self.calls.patch(f"{folder}/{name}", {"spec": spec})
            except Missing:
                body = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": name}}
                self.calls.create(folder, body | {"spec": spec})

    def _tend(self, pods: list[JSON]) -> None:
        seen = set()
        for thing in pods:
            uid, node = thing["metadata"]["uid"], thing["spec"].get("nodeName")
            seen.add(uid)
            if not node or node in self.silent:
                continue
            if uid not in self.running and thing["status"].get("phase") not in OVER:
                self.running[uid] = Pod(self, thing)
            if uid in self.running:
                self.running[uid].tend(thing)
        for uid in [uid for uid, pod in self.running.items() if uid not in seen]:
            self.running.pop(uid).kill()  # deleted by force


class Pod:
    """One pod on its node."""

    def __init__(self, fleet: Fleet, thing: JSON) -> None:
        """Run `thing`, which is bound to a node."""
        self.fleet = fleet
        self.path = path_of(thing)
        self.folder = fleet.folder / thing["metadata"]["uid"]
        self.status: JSON = {"phase": "Pending"}
        self.process: subprocess.Popen[bytes] | None = None
        self.at = 0  # which container is next or runs
        self.names = [
            *((one["name"], "initContainerStatuses") for one in thing["spec"].get("initContainers") or ()),
            *((one["name"], "containerStatuses") for one in thing["spec"]["containers"]),
        ]
        self.began = time.monotonic()
        self.kill_at = self.gone_at = 0.0
        self.hook: subprocess.Popen[bytes] | None = None
        self.told_to_end = False
        self.reader: threading.Thread | None = None
        self.reported: JSON = {}

    def tend(self, thing: JSON) -> None:
        """Bring the pod a step further."""
        self._write_notes(thing)
        if self.status["phase"] not in OVER:
            if thing["metadata"].get("deletionTimestamp"):
                self._end(thing)
            elif why := self.fleet.refusing.get(thing["spec"]["nodeName"]):
                self.status |= {"phase": "Failed", "reason": "UnexpectedAdmissionError", "message": why}
            elif self.process is None:
                self._start(thing)
            if self.process is not None and self.process.poll() is not None:
                self._ended(thing, self.process.returncode)
        if self.status["phase"] in OVER:
            self._finish(thing)
        self._report()

    def kill(self) -> None:
        """End every process of it."""
        for process in (self.process, self.hook):
            if process is not None:
                for pid in _below(process.pid):
                    _signal(pid, signal.SIGKILL)
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)  # also those whose parent is gone already
                process.wait()
        self.hook = None  # its number is somebody else's soon

    def _report(self) -> None:
        is_ready = self.status["phase"] == "Running" and self.path not in self.fleet.unready
        self.status["conditions"] = [{"type": "Ready", "status": str(is_ready)}]
        if self.status != self.reported:
            self.fleet.calls.patch(f"{self.path}/status", {"status": self.status})
            self.reported = copy.deepcopy(self.status)

    def _start(self, thing: JSON) -> None:
        container = self._container(thing)
        name, image = container["name"], container["image"]
        here = (thing["spec"]["nodeName"], image)
        if why := self.fleet.images.get(image) or self.fleet.images_on.get(here):
            return self._say(name, {"waiting": {"reason": "ImagePullBackOff", "message": why}}, image)
        if time.monotonic() < self.began + self.fleet.pull_s.get(image, 0.0):
            return self._say(name, {"waiting": {"reason": "ContainerCreating"}}, image)
        try:
            env = self._env(container, thing)
        except Refused as refused:
            said = {"reason": "CreateContainerConfigError", "message": str(refused)}
            return self._say(name, {"waiting": said}, image)
        try:
            for volume in thing["spec"].get("volumes") or ():
                self._mount(container, volume, thing["metadata"]["namespace"])
        except NotMounted as why:
            self._fail_to_mount(thing, str(why))
            return self._say(name, {"waiting": {"reason": "ContainerCreating"}}, image)
        self.process = self._spawn(container, env)
        self.reader = threading.Thread(target=self._read, args=(thing, name, self.process), daemon=True)
        self.reader.start()
        self._say(name, {"running": {"startedAt": second()}}, image)
        if self.at >= len(thing["spec"].get("initContainers") or ()):
            self.status["phase"] = "Running"
        return None

    def _spawn(self, container: JSON, env: dict[str, str]) -> "subprocess.Popen[bytes]":
        command = [_expanded(self._here(part), env) for part in container["command"]]
        if command[0] == "python3":
            command[0] = sys.executable
            env["PYTHONPATH"] = str(ROOT)
        work = Path(self._here(container.get("workingDir", "/")))
        work.mkdir(parents=True, exist_ok=True)
        env["TERMINATION_MESSAGE"] = str(self.folder / f"{container['name']}.message")
        return subprocess.Popen(
            command,
            cwd=work,
            env={"PATH": os.environ["PATH"], **env},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    def _read(self, thing: JSON, name: str, process: subprocess.Popen[bytes]) -> None:
        metadata = thing["metadata"]
        assert process.stdout is not None
        self.fleet.say(metadata["namespace"], metadata["name"], name, b"")
        for line in process.stdout:
            self.fleet.say(metadata["namespace"], metadata["name"], name, line)

    def _ended(self, thing: JSON, code: int) -> None:
        container = self._container(thing)
        name = container["name"]
        self.kill()
        if self.reader:
            self.reader.join(2)
        self.process = None
        state: JSON = {"exitCode": 128 - code if code < 0 else code, "finishedAt": second()}
        state["reason"] = "Completed" if code == 0 else "Error"
        message = self.folder / f"{name}.message"
        if message.exists():
            state["message"] = message.read_text()
        self._say(name, {"terminated": state}, container["image"])
        if self.at + 1 < len(self.names) and code == 0 and not self.told_to_end:
            self.at += 1
            return
        self.status["phase"] = "Succeeded" if code == 0 and self.at + 1 == len(self.names) else "Failed"

    def _end(self, thing: JSON) -> None:
        """Do what a kubelet does within the grace: the hook, TERM, KILL."""
        now = time.monotonic()
        if not self.told_to_end:
            self.told_to_end = True
            grace = thing["metadata"].get("deletionGracePeriodSeconds", 0)
            self.kill_at = now + grace
            self.gone_at = now + self.fleet.slow_exit_s
            if self.process is None:
                self.status["phase"] = "Failed"
                return
            self.hook = self._hook(thing)
        if now < self.gone_at:
            return
        if self.hook is not None and self.hook.poll() is not None:
            self.hook = None
            if self.process is not None:
                _signal(self.process.pid, signal.SIGTERM)
        if now >= self.kill_at and self.process is not None:
            self.kill()

    def _hook(self, thing: JSON) -> subprocess.Popen[bytes]:
        container = self._container(thing)
        command = (
            (container.get("lifecycle") or {}).get("preStop", {}).get("exec", {}).get("command", ["true"])
        )
        env = {"PATH": os.environ["PATH"], **self._env(container, thing)}
        work = self._here(container.get("workingDir", "/"))
        return subprocess.Popen(
            [self._here(part) for part in command], cwd=work, env=env, start_new_session=True
        )

    def _finish(self, thing: JSON) -> None:
        """Let the object go once nothing of it runs: the last step of every kubelet."""
        if thing["metadata"].get("deletionTimestamp") and self.status == self.reported:
            self.fleet.calls.delete(self.path, uid=thing["metadata"]["uid"], grace_s=0)

    def _container(self, thing: JSON) -> JSON:
        every = [*(thing["spec"].get("initContainers") or ()), *thing["spec"]["containers"]]
        found: JSON = every[self.at]
        return found

    def _say(self, name: str, state: JSON, image: str) -> None:
        kind = dict(self.names)[name]
        others = [one for one in self.status.get(kind, ()) if one["name"] != name]
        self.status[kind] = [*others, {"name": name, "image": image, "state": state}]

    def _env(self, container: JSON, thing: JSON) -> dict[str, str]:
        env: dict[str, str] = {}
        for one in container.get("env") or ():
            if "value" in one:
                env[one["name"]] = self._here(_expanded(one["value"], env))
                continue
            if "fieldRef" in one["valueFrom"]:
                assert one["valueFrom"]["fieldRef"]["fieldPath"] == "spec.nodeName"
                env[one["name"]] = thing["spec"]["nodeName"]
                continue
            reference = one["valueFrom"]["secretKeyRef"]
            folder = self.path.rpartition("/pods/")[0]
            try:
                data = self.fleet.calls.get(f"{folder}/secrets/{reference['name']}")["data"]
            except Refused:
                if reference.get("optional"):
                    continue
                raise
            if reference["key"] in data:
                env[one["name"]] = _plain(data[reference["key"]])
        return env

    def _fail_to_mount(self, thing: JSON, why: str) -> None:
        """Say so by an event, once: the pod itself only waits."""
        metadata = thing["metadata"]
        about = {name: metadata[name] for name in ("name", "namespace", "uid")}
        event = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": f"{metadata['name']}.mount"},
            "involvedObject": {"kind": "Pod", **about},
            "reason": "FailedMount",
            "type": "Warning",
            "message": f'MountVolume.MountDevice failed for volume "x" : rpc error: code = Internal desc = {why}',
            "lastTimestamp": second(),
        }
        with suppress(Conflict):
            self.fleet.calls.create(f"/api/v1/namespaces/{metadata['namespace']}/events", event)

    def _mount(self, container: JSON, volume: JSON, namespace: str) -> None:
        for mount in container.get("volumeMounts") or ():
            if mount["name"] != volume["name"]:
                continue
            claim = volume.get("persistentVolumeClaim")
            if claim and claim["claimName"] not in self.fleet.claims:
                folder = self.fleet.ceph.stage(self.fleet.calls, namespace, claim["claimName"])
                if not (place := Path(mount["mountPath"])).is_symlink():
                    place.symlink_to(folder)
            elif claim:
                (self.fleet.claims[claim["claimName"]] / mount.get("subPath", "")).mkdir(
                    parents=True, exist_ok=True
                )
            elif mount["mountPath"].startswith("/taiji/"):
                Path(self._here(mount["mountPath"])).mkdir(parents=True, exist_ok=True)

    def _write_notes(self, thing: JSON) -> None:
        """Keep the files of what is told by annotations as they are on the object."""
        for volume in thing["spec"].get("volumes") or ():
            for item in (volume.get("downwardAPI") or {}).get("items") or ():
                key = re.search(r"\['(.*)'\]", item["fieldRef"]["fieldPath"])
                assert key is not None
                value = (thing["metadata"].get("annotations") or {}).get(key[1], "")
                file = self.folder / "taiji" / "pod" / item["path"]
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(value)

    def _here(self, text: str) -> str:
        """Return a text with the container's folders at the place that they have here.

        What an image has besides a shell is what a test puts there: no task runs the `sshd` of this machine.
        """
        image = f"{self.fleet.folder}/image/"
        return text.replace("/taiji/", f"{self.folder}/taiji/").replace("/usr/sbin/", image)


def _expanded(text: str, env: Mapping[str, str]) -> str:
    """Expand `$(NAME)` as Kubernetes does; `$$` is a dollar."""

    def one(found: re.Match[str]) -> str:
        return "$" if found[0] == "$$" else env.get(found[1], found[0])

    return re.sub(r"\$\$|\$\(([^()]*)\)", one, text)


def _plain(data: str) -> str:
    return base64.b64decode(data).decode()


def _below(pid: int) -> list[int]:
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return []
    return [one for child in map(int, children) for one in (child, *_below(child))]


def _signal(pid: int, number: signal.Signals) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return
