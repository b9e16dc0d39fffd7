"""Packed code: a tar.gz from anybody, checked as it is read, and unpacked so that nothing leaves the folder.

The platform checks what is uploaded, and each host checks again what it unpacks. A host does that in a process
of its own, which can be killed at any moment: `main`.
"""

import gzip
import os
import sys
import tarfile
import zlib
from typing import IO, TYPE_CHECKING, NamedTuple

from cluster.agent.steps import NOT_WRITTEN

if TYPE_CHECKING:  # as in records.py
    from collections.abc import Iterator

CHUNK = 2**20
HEADER_AT_MOST = 2**16  # bytes of one extended header: tarfile reads those whole into memory
NAME_AT_MOST, PART_AT_MOST = 1024, 255  # bytes
PLAIN = (tarfile.REGTYPE, tarfile.AREGTYPE)
EXTENDED = (tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK)
KINDS = {
    tarfile.LNKTYPE: "a hard link",
    tarfile.CHRTYPE: "a device",
    tarfile.BLKTYPE: "a device",
    tarfile.FIFOTYPE: "a named pipe",
}


class Unsafe(Exception):
    """The archive is not what code may come in; the message says why in one sentence."""


class Limits(NamedTuple):
    """How much an archive may hold once it is unpacked."""

    files: int = 100_000  # folders and links too
    bytes: int = 8 * 2**30


class _Info(tarfile.TarInfo):
    """A member that is refused before anything of it is read."""

    def _proc_member(self, tar: tarfile.TarFile) -> tarfile.TarInfo:
        if self.type in EXTENDED:
            if not 0 <= self.size <= HEADER_AT_MOST:
                raise Unsafe("A header in the archive is too long.")
        elif self.type not in (*PLAIN, tarfile.DIRTYPE, tarfile.SYMTYPE):
            raise Unsafe(f"{_shown(self.name)} is {KINDS.get(self.type, 'of a kind that code never is')}.")
        found: tarfile.TarInfo = super()._proc_member(tar)  # type: ignore[misc]  # typeshed leaves it out
        return found

    def _proc_pax(self, tar: tarfile.TarFile) -> tarfile.TarInfo:
        """Take the names and the size of an extended header; tarfile's own way takes a minute over a hostile one."""
        whole = -self.size % tarfile.BLOCKSIZE + self.size
        fields = _fields(tar.fileobj.read(whole)[: self.size])
        try:
            following = self.fromtarfile(tar)
        except tarfile.HeaderError as error:
            raise tarfile.ReadError(str(error)) from error
        if self.type == tarfile.XHDTYPE:  # one for all members says nothing that is needed
            following.name = fields.get("path", following.name).rstrip("/")
            following.linkname = fields.get("linkpath", following.linkname)
            if "size" in fields and following.type in PLAIN:
                if not fields["size"].isdigit():
                    raise Unsafe("A header in the archive tells a size that is no number.")
                following.size = int(fields["size"])
                blocks = -(-following.size // tarfile.BLOCKSIZE)
                tar.offset = following.offset_data + blocks * tarfile.BLOCKSIZE
        return following


def _fields(header: bytes) -> dict[str, str]:
    """Return what an extended header says, `LENGTH NAME=VALUE` and a line's end each; raises Unsafe."""
    found, place = {}, 0
    while place < len(header):
        length, _, _ = header[place : place + 8].partition(b" ")
        end = place + int(length) if length.isdigit() else 0
        name, equals, value = header[place + len(length) + 1 : end - 1].partition(b"=")
        if not equals or header[end - 1 : end] != b"\n" or end > len(header):
            raise Unsafe("A header in the archive cannot be read.")
        if name.startswith(b"GNU.sparse."):
            raise Unsafe("The archive has files with holes.")
        found[name.decode(errors="replace")] = value.decode(errors="surrogateescape")
        place = end
    return found


class _Bounded:
    """The bytes behind a gzip, no more of them than the limits can need."""

    def __init__(self, file: gzip.GzipFile, limits: Limits) -> None:
        self._file = file
        # A header, and the fill of the last block, for each member; as much again for its extended one.
        self._left = limits.bytes + (limits.files + 1) * (2 * HEADER_AT_MOST) + 2 * tarfile.RECORDSIZE
        self._limits = limits

    def read(self, size: int) -> bytes:
        data = self._file.read(size)
        self._left -= len(data)
        if self._left < 0:
            raise _too_big(self._limits)
        return data


def inspect(path: str, limits: Limits) -> None:
    """Read the archive at `path` to its end; raises Unsafe."""
    with open(path, "rb") as file:
        for _member, _content in members(file, limits):
            pass


def unpack(path: str, folder: str, limits: Limits) -> None:
    """Unpack the archive at `path` into the empty `folder`; raises Unsafe or OSError, and some may be there."""
    with open(path, "rb") as file:
        for member, content in members(file, limits, folder):
            target = os.path.join(folder, member.name)
            os.makedirs(target if member.isdir() else os.path.dirname(target), 0o755, exist_ok=True)
            if member.issym():
                os.symlink(member.linkname, target)
            elif content is not None:
                _write(target, 0o755 if member.mode & 0o100 else 0o644, content)


def _write(target: str, mode: int, content: IO[bytes]) -> None:
    handle = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode)
    with open(handle, "wb") as file:
        while part := content.read(CHUNK):
            file.write(part)


def members(
    file: IO[bytes], limits: Limits, folder: str = "."
) -> "Iterator[tuple[tarfile.TarInfo, IO[bytes] | None]]":
    """Give each member with its content, under a name that stays below `folder`; raises Unsafe."""
    try:
        with gzip.GzipFile(fileobj=file) as plain:
            bounded: IO[bytes] = _Bounded(plain, limits)  # type: ignore[assignment]  # a stream is only read
            with tarfile.open(fileobj=bounded, mode="r|", tarinfo=_Info) as tar:
                yield from _checked(tar, limits, folder)
            while bounded.read(CHUNK):  # behind the end: its checksum is the proof that all has come
                pass
    except RecursionError as error:
        raise Unsafe("The archive has headers to headers without end.") from error
    except (tarfile.TarError, EOFError, zlib.error, gzip.BadGzipFile, UnicodeError, ValueError) as error:
        raise Unsafe(f"This is not a whole tar.gz: {error}.") from error


def _checked(
    tar: tarfile.TarFile, limits: Limits, folder: str
) -> "Iterator[tuple[tarfile.TarInfo, IO[bytes] | None]]":
    seen: dict[str, bool] = {"": True}  # name → whether it is a folder
    number = size = 0
    for member in tar:
        number, size = number + 1, size + max(member.size, 0)
        if number > limits.files or size > limits.bytes:
            raise _too_big(limits)
        member.name = _name(member.name)
        _place(member, seen)
        if len(seen) - 1 > limits.files:  # with the folders that only names of others speak of
            raise _too_big(limits)
        if member.issym():
            _inside(member)
        if filtered := getattr(tarfile, "data_filter", None):  # from Python 3.11.4 on, a second opinion
            filtered(member, folder)
        yield member, tar.extractfile(member) if member.type in PLAIN else None


def _name(name: str) -> str:
    """Return a member's name in its shortest form; raises Unsafe where it could lead anywhere else."""
    parts = [part for part in name.split("/") if part not in ("", ".")]
    if name.startswith("/") or ".." in parts or "\0" in name:
        raise Unsafe(f"{_shown(name)} does not stay in the folder.")
    raw = [os.fsencode(part) for part in parts]
    if sum(map(len, raw)) + len(raw) > NAME_AT_MOST or any(len(part) > PART_AT_MOST for part in raw):
        raise Unsafe(f"{_shown(name)} is too long a name.")
    return "/".join(parts)


def _place(member: tarfile.TarInfo, seen: dict[str, bool]) -> None:
    """Note the member and the folders above it; raises Unsafe where something else has its place.

    So nothing is ever written through a link, and nothing is written over.
    """
    above = ""
    for part in member.name.split("/")[:-1]:
        above = f"{above}/{part}" if above else part
        if not seen.setdefault(above, True):
            raise Unsafe(f"{_shown(member.name)} lies below something that is no folder.")
    if member.name in seen and not (member.isdir() and seen[member.name]):
        raise Unsafe(f"{_shown(member.name) or 'The folder itself'} is there twice.")
    seen[member.name] = member.isdir()


def _inside(member: tarfile.TarInfo) -> None:
    """Raise Unsafe unless the link stays in the folder, wherever other links lead.

    `..` may only stand first, where it is counted from real folders: behind a name that is itself a link it
    would mean that link's own parent.
    """
    target = member.linkname
    parts = [part for part in target.split("/") if part not in ("", ".")]
    ups = next((place for place, part in enumerate(parts) if part != ".."), len(parts))
    if not target or target.startswith("/") or "\0" in target or ".." in parts[ups:]:
        raise Unsafe(f"The link {_shown(member.name)} does not stay in the folder.")
    if ups > member.name.count("/"):
        raise Unsafe(f"The link {_shown(member.name)} leads out of the folder.")


def _too_big(limits: Limits) -> Unsafe:
    return Unsafe(
        f"Unpacked it is more than {limits.files} files or {limits.bytes // 2**20} MiB, which is the most."
    )


def _shown(name: str) -> str:
    return ascii(name[:80])[1:-1]


def main(arguments: "list[str]") -> None:
    """Unpack: ARCHIVE FOLDER FILES BYTES; say in one line what was wrong, and end with 1."""
    path, folder, files, size = arguments
    try:
        unpack(path, folder, Limits(int(files), int(size)))
    except Unsafe as fault:
        sys.exit(str(fault))
    except OSError as error:
        sys.exit(f"{NOT_WRITTEN}: {error.strerror or error}.")
