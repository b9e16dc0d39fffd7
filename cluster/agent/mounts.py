"""Private ceph of a task: mounted before it starts, and gone when it is gone, whoever died meanwhile."""

import contextlib
import ctypes
import os
import re
import signal
import sys
import time
from typing import TYPE_CHECKING

from cluster.agent import processes
from cluster.agent.protocol import SYSTEM_FOLDERS
from cluster.agent.python import ROOT
from cluster.agent.steps import Failed, Steps, find
from cluster.agent.workload import CannotStart, note, reason

if TYPE_CHECKING:  # as in records.py
    from typing import Any

CLONE_NEWNS = 0x00020000
MS_MOVE, MS_REC, MS_SLAVE = 0x2000, 0x4000, 0x80000
MNT_DETACH = 2
CAP_SYS_ADMIN = 21
KERNEL, FUSE = "mount.ceph", "ceph-fuse"
# What a cluster says that knows no such user, secret or path, by both clients.
REFUSED = "Permission denied|Operation not permitted|No such file"
MOUNT_S = 30  # how long the kernel tries to reach a cluster
UNMOUNT_S = 20.0
# What a keeper runs programs of, as root, while the data is mounted: the system, its Python, and this package.
OURS = (
    *(f"/{name}" for name in sorted(SYSTEM_FOLDERS)),
    *(sys.prefix, sys.base_prefix, os.path.dirname(sys.executable), ROOT),
)


def can_mount(path: str) -> bool:
    """Return whether this process could mount ceph: it may mount, and a client lies on `path` or the system's."""
    with open("/proc/self/status") as file:
        held = next(line.split()[1] for line in file if line.startswith("CapEff:"))
    return bool(int(held, 16) >> CAP_SYS_ADMIN & 1) and bool(find(KERNEL, path) or find(FUSE, path))


def offers(kinds: list[str], path: str) -> list[str]:
    """Return what a host offers that runs these kinds of instance: of each kind, whether with private ceph too."""
    return [*kinds, "ceph", *(f"{kind}_ceph" for kind in kinds)] if can_mount(path) else kinds


class Mounts:
    """What is mounted for one instance, each thing below the instance's folder, where no task can get in between.

    For a container it stays there: the container's runtime binds it. Plain processes see it at the path that the
    task asks for, in a mount namespace that the keeper makes for itself and them: no other process of the host sees
    it, and the kernel unmounts it after the last of them. It is moved there when all is mounted, and from then on
    no program is run in that namespace: the task's data may lie over it.
    """

    def __init__(self, folder: str, private: str, env: "dict[str, str]", contained: bool) -> None:
        """Mount for the instance in `folder`; secrets lie below `private` while they are used."""
        self._folder = folder
        self._private = private
        self._env = env
        self._contained = contained
        self._places: list[str] = []  # where each thing is mounted now
        self._devices: list[int] = []  # the number of the file system that is mounted there
        self.binds: list[tuple[str, str]] = []  # what a container has to bind: path on the host, path in it

    def mount(self, wanted: "list[dict[str, Any]]", taken: "list[str]", steps: Steps) -> None:
        """Mount all of `wanted`, none over or below a path of `taken`; raises CannotStart, Cancelled, TooLong."""
        for each in wanted:  # the sooner it is told the better; what counts is where it leads in the end
            self._look_at(each["dst"], taken)
        if not self._contained:
            _own_namespace()
        for number, each in enumerate(wanted):
            place = os.path.join(self._folder, "data", str(number))
            _make(place)
            self._mount(number, each, place, steps)
            self._places.append(place)
            self._devices.append(os.stat(place).st_dev)
            self.binds.append((place, each["dst"]))
        if not self._contained:
            for number, each in enumerate(wanted):
                self._move(number, each["dst"], taken)

    def _look_at(self, asked: str, taken: "list[str]") -> None:
        if self._contained:  # where its links lead, only the container knows
            _apart(asked, os.path.normpath(asked), taken)
        else:
            _free(asked, taken)

    def _move(self, number: int, asked: str, taken: "list[str]") -> None:
        """Move what is mounted to the path that the task asks for; raises CannotStart."""
        target = _free(asked, taken)
        try:
            handle = folder_at(target)
            try:
                _call_mount(self._places[number], f"/proc/self/fd/{handle}", MS_MOVE)
            finally:
                os.close(handle)
        except OSError as error:
            raise CannotStart(
                f"The folder {asked} could not be made: {reason(error)}.", "data_away"
            ) from error
        self._places[number] = target

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
        processes.adopt_orphans(False)
        try:
            steps.run([*command, "-m", each["addr"], "-r", each["src"], target], env)
        finally:
            processes.adopt_orphans(True)

    def clear(self) -> None:
        """Unmount everything; what is still in use, or cannot reach its cluster, goes when it can."""
        for place, device in reversed(list(zip(self._places, self._devices, strict=True))):
            if self._contained:
                unmount(place)
            else:
                _detach(place, device)


def _own_namespace() -> None:
    try:
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.unshare(CLONE_NEWNS):
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
        # As a slave: what the host mounts later is seen here, what is mounted here is seen nowhere else.
        _call_mount("none", "/", MS_REC | MS_SLAVE)
    except OSError as error:
        raise CannotStart(
            f"Private ceph can be mounted only by an agent that may mount, such as root's: {reason(error)}.",
            "data_away",
        ) from error


def _call_mount(source: str, target: str, flags: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(os.fsencode(source), os.fsencode(target), None, ctypes.c_ulong(flags), None):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def _free(asked: str, taken: "list[str]") -> str:
    """Return where the path `asked` leads, which is nowhere near the platform's own; raises CannotStart."""
    target = os.path.realpath(asked)  # a link on the way may be some task's, and lead anywhere
    _apart(asked, target, [os.path.realpath(path) for path in (*taken, *OURS)])
    return target


def _apart(asked: str, target: str, taken: "list[str]") -> None:
    for path in taken:
        if os.path.commonpath([target, path]) in (target, path):
            raise CannotStart(f"{asked} cannot be mounted there: the platform uses {path}.", "data")


def _make(place: str) -> None:
    """Make the folder `place`; no task of the host, to whom every mount's path is told, gets through to it."""
    try:
        os.makedirs(os.path.dirname(place), 0o700, exist_ok=True)
        os.mkdir(place, 0o700)
    except OSError as error:
        raise CannotStart(f"The folder {place} could not be made: {reason(error)}.", "data_away") from error


def folder_at(path: str) -> int:
    """Return a handle of the folder at `path`, made where it is missing, without a link on the way; raises OSError.

    Step by step from the top: whoever puts a link in the place of a folder meanwhile leads it nowhere.
    """
    flags = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    handle = os.open("/", flags)
    for name in path.strip("/").split("/"):
        above = handle
        try:
            try:
                handle = os.open(name, flags, dir_fd=above)
            except FileNotFoundError:
                with contextlib.suppress(FileExistsError):  # another task's keeper may be making the same one
                    os.mkdir(name, 0o755, dir_fd=above)
                handle = os.open(name, flags, dir_fd=above)
        finally:
            os.close(above)
    return handle


def _detach(place: str, device: int) -> None:
    """Unmount the file system `device` from `place` in our own namespace; for long it is not waited for.

    By a process that is a copy of this one: nothing can kill one that waits for a disk.
    """
    child = os.fork()  # nothing else runs in a keeper of plain processes
    if child == 0:
        try:
            handle = os.open(place, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
            # A link on the way may lead elsewhere by now; the kernel unmounts only what is mounted right there.
            if os.fstat(handle).st_dev == device:
                ctypes.CDLL(None).umount2(f"/proc/self/fd/{handle}".encode(), MNT_DETACH)
        finally:
            os._exit(0)
    _ended(child, time.monotonic() + UNMOUNT_S)


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
