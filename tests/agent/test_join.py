"""A host joins a platform in one line, and the agent is a package of its own."""

import contextlib
import json
import os
import re
import ssl
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cluster.agent.options import arguments, complete, is_clear
from cluster.agent.workload import hand_over
from tests import certificates, packages
from tests.agent.conftest import ROOT, Machine, new_id, spec
from tests.agent.platform import JOIN, Platform
from tests.patience import WITHIN_S

AS_ROOT = ["--task-user", "root"] if os.geteuid() == 0 else []


def taiji_agent(*arguments: str, stdin: str = "", **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the command to its end."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("TAIJI_")}
    return subprocess.run(
        [sys.executable, "-m", "cluster.agent", *arguments],
        cwd=ROOT,
        env=env | environment,
        input=stdin,
        capture_output=True,
        text=True,
        timeout=30,
    )


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    """Return a certificate for 127.0.0.1 that nobody knows, its key in the same file."""
    return certificates.of_this_machine(tmp_path)


@pytest.fixture
def over_tls(certificate: Path) -> Iterator[Platform]:
    """Return a platform that speaks TLS."""
    platform = Platform()
    platform.close()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    platform.open(context)
    yield platform
    platform.close()


def test_one_line_joins_and_the_service_needs_no_more(machine: Machine) -> None:
    platform, state = machine.platform, machine.state
    line = ["join", platform.url, "--token", JOIN, "--name", "h7", "--state", str(state)]
    done = taiji_agent(*line, "--storage", str(machine.storage), "--engine", "none", *AS_ROOT)
    assert (done.returncode, done.stderr) == (0, "")
    assert [known["name"] for known in platform.registered] == ["h7"]
    assert stat.S_IMODE((state / "host.json").stat().st_mode) == 0o600
    assert JOIN not in (state / "options.json").read_text()
    again = taiji_agent(*line, "--storage", str(machine.storage), *AS_ROOT)
    assert (again.returncode, len(platform.registered)) == (0, 1)
    assert "as h7 at http://127.0.0.1" in again.stdout
    service = [sys.executable, "-m", "cluster.agent", "run", "--state", str(state), "--simulate", "P40:1"]
    with subprocess.Popen(service, cwd=ROOT) as agent:
        instance = new_id()
        platform.want(instance, spec("echo joined"))
        assert platform.phase(instance, "gone")["exit_code"] == 0
        agent.terminate()
        assert agent.wait(WITHIN_S) == 0


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can hand anything over")
def test_what_is_handed_over_never_leads_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    elsewhere, work = tmp_path / "elsewhere", tmp_path / "work"
    for folder in (elsewhere / "etc", work / "a/etc", work / "a/first"):
        folder.mkdir(parents=True)
    (elsewhere / "etc/shadow").touch()
    (work / "a/file").touch()
    chown = os.chown

    def swap(*arguments: Any, **named: Any) -> None:
        """Do what a process of the task's user would like to do between any two steps."""
        chown(*arguments, **named)
        if work.stat().st_uid == 0 and not (work / "a").is_symlink() and (work / "a/file").stat().st_uid:
            (work / "a").rename(work / "b")
            (work / "a").symlink_to(elsewhere)

    monkeypatch.setattr(os, "chown", swap)
    hand_over(str(work), "4242:4243")
    assert (work / "b/file").stat().st_uid == work.stat().st_uid == 4242
    assert {path.stat().st_uid for path in (elsewhere, elsewhere / "etc", elsewhere / "etc/shadow")} == {0}


def test_joining_again_registers_only_a_name_that_was_freed(machine: Machine) -> None:
    platform = machine.platform
    line = ["join", platform.url, "--token", JOIN, "--name", "h7", "--state", str(machine.state)]
    line += ["--storage", str(machine.storage), *AS_ROOT]
    assert "h7 has joined" in taiji_agent(*line).stdout
    kept = (machine.state / "host.json").read_text()
    other = taiji_agent(*line, "--name", "h8")
    assert (other.returncode, len(platform.registered)) == (0, 1)
    assert other.stdout.startswith(f"This host had joined before, as h7 at {platform.url}: ")
    assert (machine.state / "host.json").read_text() == kept
    platform.registered.clear()
    platform.tokens.clear()
    assert "h7 has joined" in taiji_agent(*line).stdout
    assert [known["name"] for known in platform.registered] == ["h7"]


def test_what_is_no_join_token_is_told(machine: Machine) -> None:
    places = ["--state", str(machine.state), "--storage", str(machine.storage), *AS_ROOT]
    for token, said in (("", "The join token is blank."), ("\u201cx\u201d", "This is no join token")):
        done = taiji_agent("join", machine.platform.url, "--token", token, *places)
        assert (done.returncode, done.stderr.startswith(said)) == (1, True), done.stderr


def test_certificates_that_cannot_be_read_are_named(machine: Machine) -> None:
    places = ["--state", str(machine.state), "--storage", str(machine.storage), *AS_ROOT]
    for file in (machine.join, machine.state / "nothing"):
        done = taiji_agent("join", "https://localhost:1", "--token", JOIN, "--ca", str(file), *places)
        assert done.returncode == 1
        assert done.stderr.startswith(f"The certificates in {file} cannot be used: ")


@pytest.mark.parametrize(
    "url", ["http://[::1", "https://localhost:99999", "https://localhost:x", "https://:1"]
)
def test_an_address_that_is_none_is_refused_also_in_the_environment(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TAIJI_AGENT_URL", url)
    with pytest.raises(SystemExit, match="is not an address such as"):
        complete(arguments().parse_args(["run", "--state", str(tmp_path), "--storage", str(tmp_path)]))


def test_https_of_a_platform_that_speaks_http_is_told_as_that(machine: Machine) -> None:
    url = machine.platform.url.replace("http:", "https:")
    places = ["--state", str(machine.state), "--storage", str(machine.storage), *AS_ROOT]
    refused = taiji_agent("join", url, "--token", JOIN, *places)
    assert refused.returncode == 1
    assert refused.stderr.endswith("; that address speaks http, not https.\n")


def test_the_token_can_come_where_nobody_sees_it(machine: Machine) -> None:
    places = ["--state", str(machine.state), "--storage", str(machine.storage), *AS_ROOT]
    done = taiji_agent("join", machine.platform.url, "--token", "-", *places, stdin=f"{JOIN}\n")
    assert (done.returncode, len(machine.platform.registered)) == (0, 1)


def test_a_wrong_token_joins_nothing(machine: Machine) -> None:
    places = ["--state", str(machine.state), "--storage", str(machine.storage), *AS_ROOT]
    done = taiji_agent("join", machine.platform.url, "--token", "wrong", *places)
    assert done.returncode == 1
    assert "This join token is not valid." in done.stderr
    assert not (machine.state / "options.json").exists()


def test_a_platform_whose_certificate_nobody_vouches_for_is_not_trusted(
    over_tls: Platform, certificate: Path, tmp_path: Path
) -> None:
    url = over_tls.url.replace("http:", "https:")
    places = ["--state", str(tmp_path / "state"), "--storage", str(tmp_path), "--token", JOIN, *AS_ROOT]
    refused = taiji_agent("join", url, *places)
    assert refused.returncode == 1
    assert "certificate verify failed" in refused.stderr.lower()
    assert over_tls.registered == []
    joined = taiji_agent("join", url, *places, "--ca", str(certificate))
    assert (joined.returncode, joined.stderr, len(over_tls.registered)) == (0, "", 1)
    kept = json.loads((tmp_path / "state/options.json").read_text())
    assert (kept["url"], kept["ca"]) == (url, str(certificate))


@pytest.mark.parametrize(
    ("url", "clear"),
    [
        ("http://taiji.example.com", True),
        ("http://10.0.0.1:8000", True),
        ("https://taiji.example.com", False),
        ("http://127.0.0.1:8000", False),
        ("http://127.8.8.8", False),
        ("http://localhost", False),
        ("http://[::1]:8000", False),
        ("http://localhost.example.com", True),
    ],
)
def test_what_can_be_read_on_the_way_is_told(url: str, clear: bool) -> None:
    assert is_clear(url) is clear


@pytest.mark.parametrize(
    "command", [["join", "URL", "--token", "t"], ["run", "--url", "URL"]], ids=["join", "run"]
)
def test_a_platform_elsewhere_without_tls_takes_permission(command: list[str], tmp_path: Path) -> None:
    line = [part.replace("URL", "http://taiji.example.com") for part in command]
    line += ["--storage", str(tmp_path), "--state", str(tmp_path / "state")]
    with pytest.raises(SystemExit, match=r"cross the network in clear.* --allow-http"):
        complete(arguments().parse_args(line))
    assert complete(arguments().parse_args([*line, "--allow-http"])).url == "http://taiji.example.com"


def test_the_line_goes_before_the_environment_and_that_before_how_it_joined(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = {"url": "https://kept", "storage": "/kept", "engine": "podman", "name": "kept"}
    (tmp_path / "options.json").write_text(json.dumps(kept))
    monkeypatch.setenv("TAIJI_AGENT_ENGINE", "none")
    monkeypatch.setenv("TAIJI_AGENT_NAME", "environment")
    found = complete(arguments().parse_args(["run", "--state", str(tmp_path), "--name", "line"]))
    assert (found.name, found.engine, found.url, str(found.storage)) == (
        "line",
        "none",
        "https://kept",
        "/kept",
    )


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ('{"processes": 5}', "processes in {file} has to be a text in quotes, and is 5."),
        (
            '{"url": ["https://t.example"]}',
            'url in {file} has to be a text in quotes, and is ["https://t.example"].',
        ),
        ('{"task_user": true}', "task_user in {file} has to be a text in quotes, and is true."),
        ('["url"]', "{file} is not an object in braces, with options and their values."),
        (
            '{"processes": "maybe"}',
            "TAIJI_AGENT_PROCESSES (or processes in options.json) is yes or no, not 'maybe'.",
        ),
        ('{"engine": "rkt"}', "'rkt' is not auto, none, podman, docker"),
        ('{"devices": "infiniband"}', "'infiniband' is not the path of a device, such as /dev/infiniband."),
        ("{", "{file} cannot be read: "),
    ],
)
def test_options_of_another_kind_are_named_with_the_way_out(tmp_path: Path, content: str, said: str) -> None:
    file = tmp_path / "options.json"
    file.write_text(content)
    url = [] if "url" in content else ["--url", "http://127.0.0.1:1"]
    found = taiji_agent("run", "--state", str(tmp_path), "--storage", "/", *url)
    assert found.returncode == 1
    assert found.stderr.startswith(said.format(file=file)), found.stderr
    assert len(found.stderr.splitlines()) == 1
    if "{file}" in said and content != "{":
        assert "join again: taiji-agent join URL" in found.stderr


@pytest.mark.parametrize("engine", ["docker:relative", "rkt", "rkt:/x", ""])
def test_what_is_no_engine_is_refused(engine: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        arguments().parse_args(["run", "--engine", engine])
    assert "is not auto, none, podman, docker" in capsys.readouterr().err


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a Python in which only the agent's package is installed."""
    return packages.alone(tmp_path_factory.mktemp("alone"), "agent")


def test_the_agent_is_a_package_of_its_own_without_django(
    alone: Path, machine: Machine, tmp_path: Path
) -> None:
    helped = subprocess.run(
        [alone / "bin/taiji-agent", "--help"], capture_output=True, text=True, cwd=tmp_path
    )
    assert (helped.returncode, helped.stderr) == (0, "")
    assert "join" in helped.stdout
    installed = {path.name.partition("-")[0].lower() for path in (alone / "lib").glob("*/*/*.dist-info")}
    assert "django" not in installed
    assert len(installed) < 12
    package = next((alone / "lib").glob("*/*/cluster"))
    assert {path.name for path in package.iterdir()} - {"__pycache__"} == {
        "__init__.py",
        "agent",
        "converge.py",
    }
    places = ["--state", str(machine.state), "--storage", str(machine.storage), "--engine", "none", *AS_ROOT]
    line = [
        str(alone / "bin/taiji-agent"),
        "run",
        "--url",
        machine.platform.url,
        "--simulate",
        "P40:1",
        *places,
    ]
    with subprocess.Popen([*line, "--join-token-file", str(machine.join)], cwd=tmp_path) as agent:
        instance = new_id()
        machine.platform.want(instance, spec("echo alone"))
        assert machine.platform.phase(instance, "gone")["exit_code"] == 0
        agent.terminate()
        assert agent.wait(WITHIN_S) == 0


def test_the_unit_starts_the_command_and_lets_keepers_live() -> None:
    unit = (ROOT / "deploy/agent/taiji-agent.service").read_text()
    assert "KillMode=process\n" in unit
    start = re.search(r"^ExecStart=(.*)$", unit, re.MULTILINE)
    assert start is not None
    command = start.group(1).split()
    assert Path(command[0]).name == "taiji-agent"
    assert arguments().parse_args(command[1:]).command == "run"
    with contextlib.suppress(FileNotFoundError):  # where systemd's own checker is not installed
        done = subprocess.run(
            ["systemd-analyze", "verify", "--man=no", ROOT / "deploy/agent/taiji-agent.service"],
            capture_output=True,
            text=True,
        )
        assert [line for line in done.stderr.splitlines() if "not executable" not in line] == []


def test_joining_says_where_its_storage_has_to_be_and_how_to_go_on(machine: Machine, tmp_path: Path) -> None:
    line = ["join", machine.platform.url, "--token", JOIN, "--state", str(machine.state), *AS_ROOT]
    assert "Give --storage DIR: where the platform's storage is mounted" in taiji_agent(*line).stderr
    missing = taiji_agent(*line, "--storage", str(tmp_path / "nothing"))
    assert missing.returncode == 1
    assert "nothing: mount the platform's storage there first" in missing.stderr
    done = taiji_agent(*line, "--storage", str(machine.storage), "--engine", "none")
    assert done.stdout.strip().endswith(f"taiji-agent run --state {machine.state}")
