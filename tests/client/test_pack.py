"""A folder becomes one file: the same for the same code, without what is ignored, and without surprises."""

import os
import socket
import time
from pathlib import Path

import pytest

from cluster.agent import bundle
from jobs.client.pack import CannotPack, Packed, chosen, pack


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "code"
    made.mkdir()
    return made


def write(folder: Path, **files: str) -> None:
    """Write files; an underscore in a name stands for its dot."""
    for name, text in files.items():
        path = folder / name.replace("_", ".")
        path.write_text(text)


def names(folder: Path) -> list[str]:
    return [name for name, _path in chosen(folder)]


def unpacked(packed: Packed, into: Path) -> Path:
    into.mkdir()
    bundle.unpack(str(packed.file), str(into), bundle.Limits())
    return into


def test_the_same_code_has_the_same_digest_wherever_and_whenever_it_is_packed(tmp_path: Path) -> None:
    digests = set()
    for place in ("one", "another place"):
        folder = tmp_path / place
        (folder / "lib").mkdir(parents=True)
        files = ["b.py", "lib/ä.py", "a.py"]
        for name in files if place == "one" else reversed(files):
            (folder / name).write_text(f"# {name}")
        os.utime(folder / "a.py", (time.time(), 10**9 + len(place)))
        os.chmod(folder / "a.py", 0o600 if place == "one" else 0o644)
        digests.add(pack(folder, tmp_path).digest)
    assert len(digests) == 1
    (folder / "a.py").chmod(0o755)
    assert pack(folder, tmp_path).digest not in digests


def test_what_is_packed_unpacks_to_the_same(folder: Path, tmp_path: Path) -> None:
    write(folder, start_sh="#!/bin/sh\necho 你好", empty="")
    (folder / "start.sh").chmod(0o750)
    (folder / "none").mkdir()
    (folder / ("long" * 40)).mkdir()
    (folder / ("long" * 40) / ("name" * 40)).write_text("x")
    (folder / "link").symlink_to("start.sh")
    packed = pack(folder, tmp_path)
    made = unpacked(packed, tmp_path / "out")
    assert sorted(str(path.relative_to(made)) for path in made.rglob("*")) == names(folder)
    assert (made / "start.sh").read_text() == "#!/bin/sh\necho 你好"
    assert os.access(made / "start.sh", os.X_OK)
    assert not os.access(made / "empty", os.X_OK)
    assert (made / "link").readlink() == Path("start.sh")
    assert (packed.files, packed.size) == (6, packed.file.stat().st_size)


def test_the_ignore_file_is_read_as_git_reads_its_own(folder: Path) -> None:
    write(
        folder,
        train_py="",
        notes_md="",
        keep_md="",
        _taijiignore="*.md\n!keep.md\n/data/\n# no comment\nsub/*.bin\n",
    )
    for name in ("data/x", "sub/y.bin", "sub/data/z", ".git/config", "__pycache__/a.pyc", ".venv/bin/python"):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")
    assert names(folder) == [".taijiignore", "keep.md", "sub", "sub/data", "sub/data/z", "train.py"]
    write(folder, _taijiignore="!.venv/\n")
    assert ".venv/bin/python" in names(folder)


def test_an_ignored_folder_is_not_even_looked_into(folder: Path) -> None:
    (folder / "data").mkdir()
    (folder / "data" / "out").symlink_to("/etc")
    with pytest.raises(CannotPack):
        pack(folder)
    write(folder, _taijiignore="data")
    assert names(folder) == [".taijiignore"]


@pytest.mark.parametrize("target", ["/etc/passwd", "../outside", "sub/../../outside", "up/outside"])
def test_a_link_out_of_the_folder_is_refused_by_its_name(folder: Path, target: str) -> None:
    (folder.parent / "outside").write_text("secret")
    (folder / "sub").mkdir()
    (folder / "up").symlink_to("sub") if target != "up/outside" else (folder / "up").symlink_to("..")
    (folder / "a-link").symlink_to(target)
    with pytest.raises(CannotPack, match=r"a-link|up"):
        pack(folder)
    assert not list(Path(folder.parent).glob("taiji-*"))


def test_what_is_no_file_is_refused_by_its_name(folder: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(folder / "a.sock"))
        with pytest.raises(CannotPack, match=r"a\.sock is neither"):
            pack(folder)


def test_a_name_that_is_no_text_is_refused(folder: Path) -> None:
    with open(os.fsencode(folder) + b"/\xff", "wb"):
        pass
    with pytest.raises(CannotPack, match="UTF-8"):
        pack(folder)


def test_too_much_is_refused_with_the_way_out(folder: Path, tmp_path: Path) -> None:
    write(folder, weights_bin="x" * 1000)
    with pytest.raises(CannotPack, match=r"\.taijiignore"):
        pack(folder, tmp_path, most_bytes=999)
    assert not list(tmp_path.glob("taiji-*"))
    with pytest.raises(CannotPack, match="not a folder"):
        pack(folder / "weights.bin")
