"""Code from git: from a real host over HTTP, at one commit, with a token that nobody sees."""

import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cluster.agent import processes
from cluster.agent.orders import read_spec
from tests.agent.conftest import Machine, marked, new_id, spec
from tests.agent.git_host import LONG, GitHost, git
from tests.agent.platform import Platform

TOKEN = "glpat-S3cr3tOfAnn"
START = "#!/bin/sh\necho code"


@pytest.fixture
def platform(host: Machine) -> Platform:
    return host.platform


@pytest.fixture
def git_host(tmp_path: Path) -> Iterator[GitHost]:
    made = GitHost(tmp_path / "repositories")
    yield made
    made.close()


def ended(platform: Platform, url: str, command: str = "", **code: Any) -> tuple[str, dict[str, Any]]:
    """Run code from `url`; return the instance and how it ended."""
    instance = new_id()
    platform.want(instance, spec(command, code={"kind": "git", "url": url, **code}))
    return instance, platform.phase(instance, "gone")


def test_the_newest_of_the_default_branch_runs_and_its_commit_is_reported(
    platform: Platform, git_host: GitHost
) -> None:
    project = git_host.project("vision/resnet")
    project.commit(start_sh="#!/bin/sh\necho old")
    newest = project.commit(start_sh="#!/bin/sh\necho new")
    instance, gone = ended(platform, project.url)
    assert (gone["exit_code"], gone["commit"]) == (0, newest)
    log = platform.log_has(instance, b"new")
    assert f"[taiji] the code is commit {newest}".encode() in log
    assert b"old" not in log


def test_a_branch_a_tag_a_commit_and_the_beginning_of_one_are_found(
    platform: Platform, git_host: GitHost
) -> None:
    project = git_host.project("vision/resnet")
    first = project.commit(start_sh=START, a_txt="1")
    on_branch = project.commit("feature/x", start_sh=START, a_txt="2")
    git(project.path, "tag", "-m", "a note", "v1", first)
    for _ in range(3):
        project.commit(start_sh=START, a_txt=str(_))
    asked = [{"branch": "feature/x"}, {"branch": "v1"}, {"commit": first}, {"commit": first[:8]}]
    found = [ended(platform, project.url, **code)[1]["commit"] for code in asked]
    assert found == [on_branch, first, first, first]


def test_a_tag_whose_name_looks_like_a_commit_is_none(platform: Platform, git_host: GitHost) -> None:
    project = git_host.project("vision/named")
    first = project.commit(start_sh=START)
    name = "beef" if not first.startswith("beef") else "cafe"
    git(project.path, "tag", name, first)
    _, gone = ended(platform, project.url, commit=name)
    assert (gone["cause"], gone["detail"]) == ("code", f"There is no commit {name} at {project.url}.")


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ({"branch": "nowhere"}, "There is no branch 'nowhere' at {url}."),
        ({"branch": "--upload-pack=touch /tmp/taiji-owned"}, "There is no branch '--upload-pack=touch"),
        ({"branch": "mas*"}, "There is no branch 'mas*' at {url}."),
        ({"commit": "deadbeef"}, "There is no commit deadbeef at {url}."),
        ({"commit": "d" * 40}, "There is no commit dddd"),
        ({"commit": "feed"}, "There is no commit feed at {url}."),
    ],
)
def test_what_is_not_there_is_named(
    platform: Platform, git_host: GitHost, code: dict[str, Any], said: str
) -> None:
    project = git_host.project("vision/resnet")
    project.commit(start_sh=START)
    git(project.path, "branch", "feed", "master")  # a name that reads like the beginning of a commit
    _, gone = ended(platform, project.url, **code)
    assert (gone["exit_code"], gone["cause"], gone["commit"]) == (None, "code", "")
    assert gone["detail"].startswith(said.format(url=project.url))
    assert not Path("/tmp/taiji-owned").exists()


def test_a_token_opens_a_private_project_and_is_found_nowhere(
    platform: Platform, git_host: GitHost, host: Machine
) -> None:
    project = git_host.project("vision/secret", TOKEN)
    commit = project.commit(start_sh="#!/bin/sh\ngit config --list --show-origin; env; ls -la ..; echo done")
    seen: list[bytes] = []
    git_host.stall.clear()  # until the git that asks it was seen
    watching = threading.Thread(target=_watch, args=(git_host, seen, stop := threading.Event()))
    watching.start()
    instance, gone = ended(platform, project.url, token=TOKEN)
    stop.set()
    watching.join()
    assert (gone["exit_code"], gone["commit"], gone["detail"]) == (0, commit, "")
    log = platform.log_has(instance, b"done\n")
    found = b"".join(path.read_bytes() for path in host.state.rglob("*") if path.is_file())
    assert any(b"ls-remote" in line for line in seen)  # what git was started with was watched
    for place in (log, found, b"".join(seen), repr(platform.reports).encode()):
        assert TOKEN.encode() not in place
    assert not any(path.name == "private" for path in host.folder(instance).iterdir())


def _watch(git_host: GitHost, seen: list[bytes], stop: threading.Event) -> None:
    """Note the arguments and the environment of every git process; the host answers once one was seen."""
    while not stop.is_set():
        for process in processes.table().values():
            try:
                line = Path(f"/proc/{process.pid}/cmdline").read_bytes()
                if line.startswith((b"git", b"/usr/lib/git-core")):
                    seen += [line, Path(f"/proc/{process.pid}/environ").read_bytes()]
                    git_host.stall.set()
            except OSError:
                continue


@pytest.mark.parametrize(
    ("token", "said"),
    [
        ("", "asks for a token: give private_token."),
        ("wrong", "refuses the token, or has no such project for it."),
    ],
)
def test_a_wrong_token_or_none_is_told(platform: Platform, git_host: GitHost, token: str, said: str) -> None:
    project = git_host.project("vision/secret", TOKEN)
    project.commit(start_sh=START)
    _, gone = ended(platform, project.url, token=token)
    assert (gone["cause"], gone["detail"]) == ("code", f"{project.url} {said}")


def test_a_project_or_a_host_that_is_not_there_is_told(platform: Platform, git_host: GitHost) -> None:
    missing = f"{git_host.url}/vision/nothing.git"
    _, gone = ended(platform, missing)
    assert (gone["cause"], gone["detail"]) == ("code", f"There is no project at {missing}.")
    _, gone = ended(platform, "http://127.0.0.1:9/a/b.git")
    assert gone["cause"] == "code_away"
    assert gone["detail"].startswith("http://127.0.0.1:9/a/b.git cannot be reached: ")


def test_the_token_follows_no_redirection(platform: Platform, git_host: GitHost, tmp_path: Path) -> None:
    project = git_host.project("vision/secret", TOKEN)
    project.commit(start_sh=START)
    thief = GitHost(tmp_path / "thief")
    git_host.redirect = thief.url
    _, gone = ended(platform, project.url, token=TOKEN)
    thief.close()
    assert gone["cause"] == "code"
    assert thief.calls == []


@pytest.mark.parametrize("url", ["ext::sh -c touch% /tmp/taiji-owned", "file:///etc", "/etc", "ssh://x/y"])
def test_an_address_that_is_not_http_is_refused(platform: Platform, url: str) -> None:
    _, gone = ended(platform, url)
    assert gone["detail"] == "The order's code has an address that is not fetched from."
    assert not Path("/tmp/taiji-owned").exists()


def test_nothing_that_a_repository_brings_is_run_by_fetching_it(
    platform: Platform, git_host: GitHost, tmp_path: Path
) -> None:
    project, other = git_host.project("vision/trick"), git_host.project("vision/other")
    mark = tmp_path / "owned"
    submodule = other.commit(readme_md="x")
    project.commit(
        start_sh="#!/bin/sh\nls -A other | wc -l; echo ran",
        _gitattributes="* filter=own diff=own\n",
        _gitmodules=f'[submodule "other"]\n\tpath = other\n\turl = {other.url}\n\tupdate = !touch {mark}\n',
        _gitconfig=f"[core]\n\tfsmonitor = touch {mark}\n",
    )
    git(project.path, "update-index", "--add", "--cacheinfo", f"160000,{submodule},other")
    project.commit(a_txt="x")
    calls = len(git_host.calls)
    instance, gone = ended(platform, project.url)
    assert gone["exit_code"] == 0
    assert b"0\nran" in platform.log_has(instance, b"ran")
    assert not mark.exists()
    assert not any("other" in call for call in git_host.calls[calls:])


def test_one_that_is_stopped_while_git_waits_ends_with_the_whole_of_git(
    platform: Platform, git_host: GitHost, host: Machine
) -> None:
    project = git_host.project("vision/slow", TOKEN)
    project.commit(start_sh=START)
    git_host.stall.clear()
    instance = new_id()
    code = {"kind": "git", "url": project.url, "token": TOKEN}
    platform.want(instance, spec("", code=code, grace_s=20))
    platform.until(lambda: len(marked(instance)) >= 2)  # git, and the part of it that speaks HTTP
    token = host.folder(instance) / "private" / "token"
    assert (token.stat().st_mode & 0o777, TOKEN in token.read_text()) == (0o600, True)
    platform.stop(instance)
    gone = platform.phase(instance, "gone")
    assert gone["detail"] == "It was stopped before it started."
    assert marked(instance) == []
    assert not token.parent.exists()


def test_git_that_takes_too_long_is_given_up(platform: Platform, git_host: GitHost) -> None:
    project = git_host.project("vision/slow")
    project.commit(start_sh=START)
    git_host.stall.clear()
    instance = new_id()
    platform.want(instance, spec("", code={"kind": "git", "url": project.url}, prepare_s=1))
    gone = platform.phase(instance, "gone")
    assert (gone["cause"], gone["detail"]) == ("code_away", "The code was not there within 1 s.")
    assert marked(instance) == []


def test_a_keeper_killed_while_git_waits_leaves_neither_git_nor_the_token(
    platform: Platform, git_host: GitHost, host: Machine
) -> None:
    project = git_host.project("vision/slow", TOKEN)
    git_host.stall.clear()
    instance = new_id()
    platform.want(instance, spec("", code={"kind": "git", "url": project.url, "token": TOKEN}))
    platform.until(lambda: len(marked(instance)) >= 2)
    keeper = next(p.parent for p in processes.table().values() if p.pid == min(marked(instance)))
    os.kill(keeper, signal.SIGKILL)
    assert platform.phase(instance, "gone")["detail"] == "keeper lost"
    assert marked(instance) == []
    assert not (host.folder(instance) / "private").exists()


@pytest.mark.parametrize("short", [40, 8])
def test_code_that_is_too_big_is_ended_while_it_comes(
    platform: Platform, git_host: GitHost, short: int
) -> None:
    project = git_host.project("vision/huge")
    commit = project.commit(start_sh=START, data_txt=os.urandom(2 * LONG).hex())
    git_host.drip.clear()
    instance, gone = ended(platform, project.url, commit=commit[:short], files=1000, bytes=2**20)
    assert gone["cause"] == "code"
    assert gone["detail"].startswith(
        f"{project.url} takes more than 1000 files or 1 MiB, which is the most. "
    )
    assert "a commit named by its whole id" in gone["detail"]
    assert marked(instance) == []


def test_code_that_is_small_only_as_it_is_packed_is_ended_too(platform: Platform, git_host: GitHost) -> None:
    project = git_host.project("vision/bomb")
    project.commit(start_sh=START, data_txt="0" * 2**22)
    _, gone = ended(platform, project.url, files=1000, bytes=2**20)
    assert (gone["cause"], "more than 1000 files or 1 MiB" in gone["detail"]) == ("code", True)
    _, gone = ended(platform, project.url, files=10, bytes=2**30)
    assert (gone["cause"], "more than 10 files or 1024 MiB" in gone["detail"]) == ("code", True)
    _, gone = ended(platform, project.url, files=1000, bytes=2**23)
    assert (gone["exit_code"], gone["cause"]) == (0, "")


def test_an_order_without_limits_has_the_agents_own(platform: Platform, git_host: GitHost) -> None:
    assert read_spec(spec("", code={"kind": "git", "url": "https://x/y"})).code == {
        **{"kind": "git", "url": "https://x/y", "branch": "", "commit": "", "token": "", "follow": False},
        **{"files": 0, "bytes": 0},
    }
    project = git_host.project("vision/usual")
    project.commit(start_sh=START)
    _, gone = ended(platform, project.url, files=0, bytes=0)
    assert gone["exit_code"] == 0


def test_a_member_that_follows_runs_the_commit_that_it_is_told(platform: Platform, git_host: GitHost) -> None:
    project = git_host.project("vision/gang")
    chosen = project.commit(start_sh="#!/bin/sh\necho first")
    project.commit(start_sh="#!/bin/sh\necho second")
    instance = new_id()
    code = {"kind": "git", "url": project.url, "follow": True}
    platform.want(instance, spec("", code=code))
    platform.log_has(instance, b"waiting for the first member")
    assert git_host.calls == []
    platform.want(instance, spec("", code={**code, "commit": chosen}))
    assert platform.phase(instance, "gone")["commit"] == chosen
    assert b"first" in platform.log_has(instance, b"first\n")


def test_a_member_that_waits_in_vain_for_the_commit_says_whose_fault_that_is(
    platform: Platform, git_host: GitHost
) -> None:
    instance = new_id()
    code = {"kind": "git", "url": git_host.project("vision/slow").url, "follow": True}
    platform.want(instance, spec("", code=code, prepare_s=0.5))
    gone = platform.phase(instance, "gone")
    said = "The first member of the gang did not say in time which commit it runs."
    assert (gone["cause"], gone["detail"], gone["exit_code"]) == ("waited", said, None)
