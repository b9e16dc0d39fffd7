"""Archives as anybody could make them, good and bad."""

import gzip
import hashlib
import io
import tarfile
from typing import Any


def member(name: str, kind: bytes = tarfile.REGTYPE, *, mode: int = 0o644, **fields: Any) -> tarfile.TarInfo:
    """Return a member; `fields` are set on it, such as linkname."""
    info = tarfile.TarInfo(name)
    info.type, info.mode = kind, mode
    for field, value in fields.items():
        setattr(info, field, value)
    return info


def packed(*members: tuple[tarfile.TarInfo, bytes] | tarfile.TarInfo) -> bytes:
    """Return a tar.gz of these members, with content where one is given."""
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as tar:
        for each in members:
            info, content = each if isinstance(each, tuple) else (each, b"")
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return gzip.compress(file.getvalue(), mtime=0)


def code(**files: str) -> bytes:
    """Return a tar.gz of programs by name; an underscore in a name stands for its dot."""
    named = {name.replace("_", "."): text.encode() for name, text in files.items()}
    return packed(*((member(name, mode=0o755), text) for name, text in named.items()))


def digest(archive: bytes) -> str:
    """Return the digest of an archive."""
    return hashlib.sha256(archive).hexdigest()
