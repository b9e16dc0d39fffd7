"""Pack a folder of code into one file: the same folder gives the same bytes, and so the same digest."""

import gzip
import hashlib
import os
import stat
import tarfile
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO

from pathspec import GitIgnoreSpec

IGNORE_FILE = ".taijiignore"
# What is left out unless the ignore file takes it back, as in `!.venv/`.
DEFAULT_IGNORE = (
    *(".git/", ".git", ".hg/", ".svn/", ".DS_Store"),
    *("__pycache__/", "*.pyc", ".venv/", "node_modules/", ".ipynb_checkpoints/"),
    *(".mypy_cache/", ".pytest_cache/", ".ruff_cache/"),
)
MOST_FILES = 100_000
MOST_BYTES = 4 * 2**30  # of all files before they are packed
TIME = 315_532_800  # 1980: when each file was changed says nothing of the code
LEVEL = 6


class CannotPack(Exception):
    """The folder cannot be packed; the message says why, and what would do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Packed:
    """A packed folder: `file` is the caller's to remove."""

    digest: str  # sha256:…
    file: Path
    size: int  # bytes of the file
    files: int


def pack(folder: Path, into: Path | None = None, *, most_bytes: int = MOST_BYTES) -> Packed:
    """Pack the code in `folder` into a new file in the folder `into` (default: the system's for such files).

    Raises CannotPack. The digest is of the packed bytes: it is the same wherever Python packs with the same zlib.
    """
    if not folder.is_dir():
        raise CannotPack(f"{folder} is not a folder.")
    handle, name = tempfile.mkstemp(prefix="taiji-", suffix=".tar.gz", dir=into)
    file = Path(name)
    try:
        with open(handle, "wb") as raw:
            number = _write(folder, raw, most_bytes)
        digest = hashlib.sha256()
        with file.open("rb") as packed:
            while part := packed.read(2**20):
                digest.update(part)
    except BaseException:
        file.unlink()
        raise
    return Packed(digest=f"sha256:{digest.hexdigest()}", file=file, size=file.stat().st_size, files=number)


def _write(folder: Path, raw: IO[bytes], most_bytes: int) -> int:
    number = size = 0
    with (
        gzip.GzipFile(filename="", mode="wb", compresslevel=LEVEL, fileobj=raw, mtime=0) as plain,
        tarfile.open(fileobj=plain, mode="w", format=tarfile.PAX_FORMAT) as tar,
    ):
        for name, path in chosen(folder):
            info = _info(name, path, folder)
            number, size = number + 1, size + info.size
            if number > MOST_FILES or size > most_bytes:
                raise CannotPack(
                    f"{folder} holds more than {MOST_FILES} files or {most_bytes // 2**20} MiB: name in "
                    f"{IGNORE_FILE} what the task does not need, and keep data in $TAIJI_STORAGE."
                )
            _add(tar, info, path)
    return number


def chosen(folder: Path) -> Iterator[tuple[str, Path]]:
    """Give what is packed, by name and in one order: files, links and folders that are not ignored."""
    spec = GitIgnoreSpec.from_lines([*DEFAULT_IGNORE, *_own_lines(folder)])
    pending = [(PurePosixPath(), folder)]
    found = []
    while pending:
        above, place = pending.pop()
        for entry in os.scandir(place):
            inside = above / entry.name
            is_folder = entry.is_dir(follow_symlinks=False)
            if spec.match_file(f"{inside}/" if is_folder else str(inside)):
                continue
            found.append((str(inside), Path(entry.path)))
            if is_folder:
                pending.append((inside, Path(entry.path)))
    yield from sorted(found)


def _own_lines(folder: Path) -> list[str]:
    try:
        return (folder / IGNORE_FILE).read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return []
    except (OSError, UnicodeDecodeError) as error:
        raise CannotPack(f"{IGNORE_FILE} cannot be read: {error}.") from error


def _info(name: str, path: Path, folder: Path) -> tarfile.TarInfo:
    try:
        name.encode()
        found = path.lstat()
    except UnicodeEncodeError as error:
        raise CannotPack(f"{name!a} is not a name in UTF-8: rename it, or ignore it.") from error
    except OSError as error:
        raise CannotPack(f"{name} cannot be read: {error.strerror}.") from error
    info = tarfile.TarInfo(name)
    info.mtime = TIME
    info.mode = 0o755 if stat.S_ISDIR(found.st_mode) or found.st_mode & 0o111 else 0o644
    if stat.S_ISLNK(found.st_mode):
        info.type, info.linkname, info.mode = tarfile.SYMTYPE, _target(name, path, folder), 0o777
    elif stat.S_ISDIR(found.st_mode):
        info.type = tarfile.DIRTYPE
    elif stat.S_ISREG(found.st_mode):
        info.size = found.st_size
    else:
        raise CannotPack(f"{name} is neither a file nor a folder nor a link: ignore it in {IGNORE_FILE}.")
    return info


def _target(name: str, path: Path, folder: Path) -> str:
    target = os.readlink(path)
    end = os.path.normpath(os.path.join(os.path.dirname(name), target))
    inside = Path(os.path.realpath(path)).is_relative_to(folder.resolve())
    if os.path.isabs(target) or end == ".." or end.startswith("../") or not inside:
        raise CannotPack(f"{name} is a link out of the folder: put what it means there, or ignore it.")
    return target


def _add(tar: tarfile.TarFile, info: tarfile.TarInfo, path: Path) -> None:
    if info.type != tarfile.REGTYPE:
        tar.addfile(info)
        return
    try:
        with path.open("rb") as file:
            tar.addfile(info, file)
    except OSError as error:  # also of one that became shorter meanwhile
        raise CannotPack(f"{info.name} cannot be read whole: {error.strerror or error}.") from error
