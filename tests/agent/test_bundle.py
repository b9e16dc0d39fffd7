"""What packed code may hold: every trick that leads out of its folder, or fills a disk, is refused."""

import contextlib
import gzip
import os
import stat
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from cluster.agent import bundle
from cluster.agent.bundle import Limits, Unsafe
from tests.agent.packing import code, member, packed

LINK, HARD, FOLDER = tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.DIRTYPE
SMALL = Limits(files=5, bytes=2000)


def written(tmp_path: Path, archive: bytes) -> str:
    path = tmp_path / "code.tar.gz"
    path.write_bytes(archive)
    return str(path)


TRICKS = {
    "absolute": packed(member("/etc/passwd")),
    "up": packed(member("../out")),
    "up within": packed(member("a/../../out")),
    "absolute link": packed(member("a", LINK, linkname="/etc")),
    "link out": packed(member("a/b", LINK, linkname="../../etc")),
    "link by another link": packed(
        member("a/b/c/up", LINK, linkname="../../.."), member("x", LINK, linkname="a/b/c/up/..")
    ),
    "empty link": packed(member("a", LINK, linkname="")),
    "through a link": packed(member("a", LINK, linkname="b"), (member("a/file"), b"x")),
    "over a link": packed(member("a", LINK, linkname="b"), (member("a"), b"x")),
    "over itself": packed((member("a"), b"1"), (member("./a"), b"2")),
    "below a file": packed((member("a"), b"1"), (member("a/b"), b"2")),
    "a folder made a link": packed((member("a/b"), b"1"), member("a", LINK, linkname="b")),
    "hard link": packed((member("a"), b"1"), member("b", HARD, linkname="a")),
    "device": packed(member("null", tarfile.CHRTYPE, devmajor=1, devminor=3)),
    "disk": packed(member("sda", tarfile.BLKTYPE, devmajor=8)),
    "pipe": packed(member("pipe", tarfile.FIFOTYPE)),
    "sparse": packed(member("hole", tarfile.GNUTYPE_SPARSE)),
    "long name": packed(member("a/" * 700 + "b")),
    "long part": packed(member("a" * 256)),
    "the folder itself": packed((member("."), b"x")),
    "many files": packed(*(member(str(number)) for number in range(6))),
    "large file": packed((member("a"), b"0" * 2001)),
    "large together": packed((member("a"), b"0" * 1500), (member("b"), b"0" * 1500)),
    "not packed": b"#!/bin/sh\necho hello\n",
    "not a tar": gzip.compress(b"hello" * 1000),
    "cut": code(start_sh="echo hello" * 100)[:-20],
    "nothing": b"",
}


@pytest.mark.parametrize("trick", TRICKS)
def test_a_trick_is_refused_when_it_is_inspected_and_when_it_is_unpacked(trick: str, tmp_path: Path) -> None:
    path = written(tmp_path, TRICKS[trick])
    with pytest.raises(Unsafe):
        bundle.inspect(path, SMALL)
    folder = tmp_path / "deep" / "work"
    folder.mkdir(parents=True)
    with pytest.raises(Unsafe):
        bundle.unpack(path, str(folder), SMALL)
    assert sorted(tmp_path.iterdir()) == [tmp_path / "code.tar.gz", tmp_path / "deep"]
    assert list((tmp_path / "deep").iterdir()) == [folder]


@pytest.mark.parametrize("kind", [tarfile.XHDTYPE, tarfile.GNUTYPE_LONGNAME])
def test_a_header_that_would_fill_the_memory_is_refused_before_it_is_read(
    kind: bytes, tmp_path: Path
) -> None:
    header = member("x", kind)
    header.size = 2**33
    path = written(tmp_path, gzip.compress(header.tobuf(tarfile.GNU_FORMAT) + b"\0" * 2**20))
    with pytest.raises(Unsafe, match="too long"):
        bundle.inspect(path, Limits())


HOSTILE_HEADERS = {
    "digits": b"1" * 2**16,
    "digits in a value": b"65530 comment=" + b"1" * (65530 - 15) + b"\n",
    "no end": b"2" * 8 + b" a=b\n",
    "its own length": b"1 a=b\n",
    "holes": b"22 GNU.sparse.major=1\n",
    "a size below nothing": b"11 size=-5\n",
}


@pytest.mark.parametrize("kind", [tarfile.XHDTYPE, tarfile.XGLTYPE])
@pytest.mark.parametrize("trick", HOSTILE_HEADERS)
def test_a_hostile_header_is_never_read_by_tarfile_whose_way_takes_a_minute_over_some(
    trick: str, kind: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(tarfile.TarInfo, "_proc_pax")
    path = written(tmp_path, packed((member("x", kind), HOSTILE_HEADERS[trick]), member("a")))
    harmless = "value" in trick or ("size" in trick and kind == tarfile.XGLTYPE)
    with contextlib.nullcontext() if harmless else pytest.raises(Unsafe, match=r"header|holes"):
        bundle.inspect(path, SMALL)


@pytest.mark.parametrize("kind", [tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.GNUTYPE_LONGNAME])
def test_headers_to_headers_without_end_are_refused(kind: bytes, tmp_path: Path) -> None:
    header = (member("x", kind), b"" if kind != tarfile.GNUTYPE_LONGNAME else b"name")
    with pytest.raises(Unsafe, match="without end"):
        bundle.inspect(written(tmp_path, packed(*[header] * 3000, member("a"))), Limits())


def test_folders_that_only_names_speak_of_count_too(tmp_path: Path) -> None:
    archive = packed(*(member(f"{number}/b/c") for number in range(3)))
    bundle.inspect(written(tmp_path, archive), Limits(files=9))
    with pytest.raises(Unsafe, match="the most"):
        bundle.inspect(written(tmp_path, archive), Limits(files=8))


def test_an_extended_header_says_names_and_size(tmp_path: Path) -> None:
    link = "l" * 200
    archive = packed(
        (member("x", tarfile.XHDTYPE), b"12 path=\xe6\x9d\x83\n10 size=3\n10 a=\n=\n\n\n"),
        (member("short"), b"abc"),
        member("link", LINK, linkname=link),
    )
    folder = tmp_path / "work"
    folder.mkdir()
    bundle.unpack(written(tmp_path, archive), str(folder), Limits())
    assert (folder / "权").read_bytes() == b"abc"
    assert os.readlink(folder / "link") == link


def test_a_bomb_is_given_up_when_it_is_over_the_limit_not_when_it_is_unpacked(tmp_path: Path) -> None:
    info = member("zeros")
    info.size = 2**36
    # What it says it holds is less than what it does: the rest lies behind the end of the archive.
    path = written(tmp_path, code(a="x") + gzip.compress(b"\0" * 2**24, 9) * 8)
    with pytest.raises(Unsafe, match="the most"):
        bundle.inspect(path, Limits(files=1, bytes=1000))
    path = written(tmp_path, gzip.compress(info.tobuf(tarfile.GNU_FORMAT)))
    with pytest.raises(Unsafe, match="the most"):
        bundle.inspect(path, Limits())


def test_what_code_needs_is_kept_programs_folders_links_and_names_beyond_ascii(tmp_path: Path) -> None:
    archive = packed(
        member("./", FOLDER),
        (member("start.sh", mode=0o4755), b"#!/bin/sh\n"),
        (member("data/权重.bin", mode=0o666), b"\0\1"),
        member("empty", FOLDER, mode=0o000),
        member("data/again", LINK, linkname="../start.sh"),
        (member("x" * 200 + "/" + "y" * 200), b"long"),
    )
    folder = tmp_path / "work"
    folder.mkdir()
    bundle.unpack(written(tmp_path, archive), str(folder), Limits())
    start = folder / "start.sh"
    assert stat.S_IMODE(start.stat().st_mode) == 0o755  # a program, and no setuid
    assert (folder / "data" / "权重.bin").read_bytes() == b"\0\1"
    assert not os.access(folder / "data" / "权重.bin", os.X_OK)
    assert list((folder / "empty").iterdir()) == []
    assert (folder / "data" / "again").resolve() == start
    assert (folder / ("x" * 200) / ("y" * 200)).read_text() == "long"


def test_the_program_that_unpacks_says_in_one_line_what_was_wrong(tmp_path: Path) -> None:
    path = written(tmp_path, TRICKS["hard link"])
    call = "import sys; from cluster.agent.bundle import main; main(sys.argv[1:])"
    run = subprocess.run(
        [sys.executable, "-c", call, path, str(tmp_path), "10", "1000"], capture_output=True, text=True
    )
    assert (run.returncode, run.stderr) == (1, "b is a hard link.\n")
