"""Where the product keeps what it needs."""

import os
from pathlib import Path

import pytest

from launch import places
from launch.words import Refusal


@pytest.fixture(autouse=True)
def _bare_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("TAIJI_DATA", "TAIJI_RUN", "TAIJI_PORT", "TAIJI_BIND", "XDG_RUNTIME_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TAIJI_DATA", str(tmp_path / "data"))


def test_the_run_folder_of_a_short_data_path_stands_in_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TAIJI_DATA", "/srv/taiji")
    assert places.read().run == Path("/srv/taiji/run")


def test_a_long_data_path_has_a_short_run_folder_that_a_link_leads_to(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("TAIJI_DATA", str(tmp_path / ("long ü " * 12)))
    monkeypatch.setenv("XDG_RUNTIME_DIR", "/nowhere")
    here = places.read()
    assert len(os.fsencode(here.run / "supervisor.sock.1234567")) <= 107
    places.prepare(here)
    assert (here.data / "run").resolve() == here.run.resolve()
    assert here.run.stat().st_mode & 0o777 == 0o700
    (here.data / "run").unlink()
    here.run.rmdir()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root's tasks may run as somebody else")
@pytest.mark.parametrize(("user", "mode"), [("root", 0o700), ("taiji", 0o711)])
def test_whom_tasks_run_as_gets_through_to_his_own_folders_and_nowhere_else(
    monkeypatch: pytest.MonkeyPatch, user: str, mode: int
) -> None:
    monkeypatch.setenv("TAIJI_AGENT_TASK_USER", user)
    here = places.read()
    places.prepare(here)
    modes = {path.name: path.stat().st_mode & 0o777 for path in (here.data, *here.data.iterdir())}
    assert {modes.pop(name) for name in ("data", "agents", "storage")} == {mode}
    assert {mode for name, mode in modes.items() if name != "run"} == {0o700}


def test_a_run_folder_that_is_a_link_is_not_trusted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "run").symlink_to(tmp_path / "elsewhere")
    here = places.read()
    trap = places.Places(data=here.data, run=tmp_path / "run", bind=here.bind, port=here.port)
    with pytest.raises(Refusal, match="belongs to someone else"):
        places.prepare(trap)


def test_a_data_folder_is_for_its_owner_alone() -> None:
    here = places.read()
    places.prepare(here)
    assert here.data.stat().st_mode & 0o777 == 0o700


def test_a_data_folder_that_cannot_be_made_is_refused_with_a_way_out(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("TAIJI_DATA", str(tmp_path / "file" / "data"))
    with pytest.raises(Refusal, match="name another with TAIJI_DATA"):
        places.prepare(places.read())


@pytest.mark.parametrize("text", ["0", "65536", "http", "-1", "８０"])
def test_a_port_that_is_none_is_refused(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("TAIJI_PORT", text)
    with pytest.raises(Refusal, match="TAIJI_PORT"):
        places.read()


@pytest.mark.parametrize(
    ("bind", "url"),
    [
        ("127.0.0.1", "http://127.0.0.1:8000"),
        ("0.0.0.0", "http://127.0.0.1:8000"),
        ("::", "http://[::1]:8000"),
        ("10.0.0.7", "http://10.0.0.7:8000"),
        ("fd00::7", "http://[fd00::7]:8000"),
    ],
)
def test_the_url_is_one_that_this_machine_reaches(
    monkeypatch: pytest.MonkeyPatch, bind: str, url: str
) -> None:
    monkeypatch.setenv("TAIJI_BIND", bind)
    assert places.read().url == url
