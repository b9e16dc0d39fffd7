"""Private ceph of a task: mounted before it starts, and gone when it is gone, whoever died meanwhile."""

import contextlib
import ctypes
import os
import re
import signal
import time
from typing import TYPE_CHECKING

from cluster.agent import processes
from cluster.agent.steps import Failed, Steps, find
from cluster.agent.workload import CannotStart, note, reason

if TYPE_CHECKING:  # as in records.py
    from typing import Any

CLONE_NEWNS = 0x00020000
MS_REC, MS_SLAVE = 0x4000, 0x80000
PR_SET_CHILD_SUBREAPER = 36
CAP_SYS_ADMIN = 21
KERNEL, FUSE = "mount.ceph", "ceph-fuse"
# What a cluster says that knows no such user, secret or path, by both clients.
REFUSED = "Permission denied|Operation not permitted|No such file"
MOUNT_S = 30  # how long the kernel tries to reach a cluster
UNMOUNT_S = 20.0


def can_mount(path: str) -> bool:
    """Return whether this process could mount ceph: it may mount, and a client lies on `path` or the system's."""
    with open("/proc/self/status") as file:
        held = next(line.split()[1] for line in file if line.startswith("CapEff:"))
    return bool(int(held, 16) >> CAP_SYS_ADMIN & 1) and bool(find(KERNEL, path) or find(FUSE, path))


def offers(kinds: list[str], path: str) -> list[str]:
    """Return what a host offers that runs these kinds of instance: of each kind, whether with private ceph too."""
    return [*kinds, "ceph", *(f"{kind}_ceph" for kind in kinds)] if can_mount(path) else kinds


class Mounts:
    """What is mounted for one instance.

    Plain processes see it at the path that the task asks for, in a mount namespace that the keeper makes for
    itself and them: no other process of the host sees it, and the kernel unmounts it after the last of them.
    For a container it lies below the instance's folder, where the container's runtime can bind it.
    """

    def __init__(self, folder: str, private: str, env: "dict[str, str]", contained: bool) -> None:
        """Mount for the instance in `folder`; secrets lie below `private` while they are used."""
        self._folder = folder
        self._private = private
        self._env = env
        self._contained = contained
        self.binds: list[tuple[str, str]] = []  # what a container has to bind: path on the host, path in it

    def mount(self, wanted: "list[dict[str, Any]]", taken: "list[str]", steps: Steps) -> None:
        """Mount all of `wanted`, none over or below a path of `taken`; raises CannotStart, Cancelled, TooLong."""
        if not self._contained:
            _own_namespace()
        for number, each in enumerate(wanted):
            target = self._target(number, each["dst"], taken)
            self._mount(number, each, target, steps)
            self.binds.append((target, each["dst"]))

    def _target(self, number: int, asked: str, taken: "list[str]") -> str:
        target = os.path.join(self._folder, "data", str(number)) if self._contained else asked
        real = os.path.realpath(target)
        for path in () if self._contained else map(os.path.realpath, taken):
            if os.path.commonpath([real, path]) in (real, path):
                raise CannotStart(f"{asked} cannot be mounted there: the platform uses {path}.", "data")
        try:
            os.makedirs(target, 0o755, exist_ok=True)
        except OSError as error:
            raise CannotStart(
                f"The folder {asked} could not be made: {reason(error)}.", "data_away"
            ) from error
        return target

    def _mount(self, number: int, each: "dict[str, Any]", target: str, steps: Steps) -> None:
        key = os.path.join(self._private, f"key-{number}")
        where = f"{each['addr']}:{each['src']}"
        if "," in key:  # the options of a mount are a list behind commas
            raise CannotStart(f"The agent's folder {self._folder} has a comma in its name.", "data_away")
        with open(os.open(key, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(each["secret"])
        try:
            if find(KERNEL, self._env["PATH"]):
                options = f"name={each['name']},secretfile={key},mount_timeout={MOUNT_S},nosuid,nodev"
                steps.run([KERNEL, where, target, "-o", options], self._env)
            else:
                self._mount_by_fuse(each, target, key, steps)
        except Failed as fault:
            cause = "data" if re.search(REFUSED, fault.last) else "data_away"
            raise CannotStart(
                f"{where} could not be mounted as {each['name']}: {fault.last}", cause
            ) from fault
        finally:
            os.unlink(key)
        if not os.path.ismount(target):
            raise CannotStart(f"{where} is not there although its mount ended well.", "data_away")

    def _mount_by_fuse(self, each: "dict[str, Any]", target: str, key: str, steps: Steps) -> None:
        """Start the daemon that is the file system, as nobody's descendant.

        The processes of the instance are told to end before it is unmounted, and may still write; so it carries
        no mark either.
        """
        env = {name: value for name, value in self._env.items() if name != processes.MARK}
        command = [FUSE, "--conf", "/dev/null", "--id", each["name"], "--keyfile", key]
        libc = ctypes.CDLL(None)
        libc.prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)
        try:
            steps.run([*command, "-m", each["addr"], "-r", each["src"], target], env)
        finally:
            libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)

    def clear(self) -> None:
        """Unmount everything; what is still in use, or cannot reach its cluster, goes when it can."""
        for target, _path in reversed(self.binds):
            unmount(target)


def _own_namespace() -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    # As a slave: what the host mounts later is seen here, what is mounted here is seen nowhere else.
    if libc.unshare(CLONE_NEWNS) or libc.mount(b"none", b"/", None, MS_REC | MS_SLAVE, None):
        why = os.strerror(ctypes.get_errno())
        raise CannotStart(
            f"Private ceph can be mounted only by an agent that may mount, such as root's: {why}.",
            "data_away",
        )


def unmount(target: str) -> None:
    """Unmount `target`, at once where that takes no longer than its writes, else as soon as it can be."""
    for command in (["umount", target], ["umount", "--lazy", target]):
        try:
            child = os.posix_spawn(
                find("umount", "") or "umount", command, {"PATH": os.defpath}, setsigmask=[]
            )
        except OSError as error:
            note(f"{target} stays mounted: {reason(error)}")
            return
        if _ended(child, time.monotonic() + UNMOUNT_S) == 0:
            return
    note(f"{target} stays mounted")


def _ended(child: int, until: float) -> int | None:
    """Return the status of `child`, None where it still runs then: nothing can kill one that waits for a disk."""
    while time.monotonic() < until:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return status
        time.sleep(0.01)
    return None


def below(folder: str) -> list[str]:
    """Return what this process sees mounted below `folder`, the deepest first."""
    with open("/proc/self/mountinfo", "rb") as file:
        points = [line.split(b" ")[4].decode("unicode_escape").encode("latin-1") for line in file]
    start = os.fsencode(folder) + b"/"
    return [os.fsdecode(point) for point in sorted(points, reverse=True) if point.startswith(start)]


def release(folder: str) -> None:
    """Unmount what a dead keeper left mounted for the instance in `folder`, and end the daemons of it."""
    for target in below(folder):
        unmount(target)
    for process in processes.table().values():
        if process.dead or not _serves(process.pid, os.fsencode(folder)):
            continue
        with contextlib.suppress(PermissionError):
            processes.send(process, signal.SIGTERM)


def _serves(pid: int, folder: bytes) -> bool:
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            words = file.read().split(b"\0")
    except OSError:
        return False
    return os.path.basename(words[0]) == FUSE.encode() and any(folder + b"/" in word for word in words)
