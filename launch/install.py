"""The virtual environment with the locked requirements; what is there already costs a look at a stamp."""

import json
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from launch import assets, locks, messages, packages
from launch.places import ROOT
from launch.steps import PYTHON, VENV, digest, run, succeeds
from launch.words import Progress, Refusal

STAMP = VENV / ".taiji"
LOCK = VENV / ".taiji.lock"
PRODUCT, CHECKS = "requirements.txt", "requirements-dev.txt"


def ensure(say: Progress, *, dev: bool = False) -> None:
    """Install what the product (with `dev`, also its checks) needs, and finish what an earlier try left."""
    if _is_whole(dev=dev):
        return
    with _alone(say):
        if not _has_packages(dev=dev):
            _install(say, CHECKS if dev else PRODUCT)
        assets.ensure(say)
        messages.ensure(say)


def _is_whole(*, dev: bool) -> bool:
    return _has_packages(dev=dev) and assets.are_there() and messages.are_compiled()


@contextmanager
def _alone(say: Progress) -> Iterator[None]:
    """Hold the lock of the installation: two starts at once would write over each other."""
    try:
        VENV.mkdir(exist_ok=True)
        lock = locks.take(LOCK)
        if lock is None:
            say("Another start is installing; waiting for it")
            lock = locks.take(LOCK, wait_s=600)
        if lock is not None:
            os.set_inheritable(lock, True)
    except OSError as error:
        raise Refusal(
            f"The folder {ROOT} cannot be written ({error.strerror}): nothing can be installed."
        ) from error
    if lock is None:
        raise Refusal("Another start has been installing for ten minutes: end it, then start again.")
    try:
        yield
    finally:
        os.close(lock)


def _has_packages(*, dev: bool) -> bool:
    stamp = _stamp()
    # The larger set holds the smaller one: a developer's environment starts the product as it is.
    names = [CHECKS] if dev else [PRODUCT, CHECKS]
    if not any(stamp.get(name) == digest(ROOT / name) for name in names):
        return False
    # The system's Python may have gone, or grown by a version, since: its packages are not found then.
    return succeeds([str(PYTHON), "-c", "import supervisor"])


def _stamp() -> dict[str, str]:
    try:
        return dict(json.loads(STAMP.read_text()))
    except (OSError, ValueError):
        return {}


def _install(say: Progress, name: str) -> None:
    if not (_runs() and packages.can_install()):
        _make_environment(say)
    say(f"Installing the packages of {name}")
    packages.install(["--require-hashes", "-r", name], what="The installation of the packages")
    STAMP.write_text(json.dumps(_stamp() | {name: digest(ROOT / name)}))


def _runs() -> bool:
    """Say whether the environment's Python starts and is new enough."""
    return succeeds([str(PYTHON), "-c", "import sys; sys.exit(sys.version_info < (3, 11))"])


def _make_environment(say: Progress) -> None:
    """Make `.venv` anew; what is there cannot even be installed into."""
    say(f"Making the virtual environment with Python {sys.version.split()[0]}")
    for left in VENV.iterdir():
        if left == LOCK:
            continue
        if left.is_dir() and not left.is_symlink():
            shutil.rmtree(left)
        else:
            left.unlink()
    if uv := shutil.which("uv"):
        command = [uv, "venv", "--allow-existing", "--quiet", "--python", sys.executable, str(VENV)]
    else:
        command = [sys.executable, "-m", "venv", str(VENV)]
    run(command, what="The making of the virtual environment")
