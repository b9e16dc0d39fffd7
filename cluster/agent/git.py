"""Fetch code from git: one commit, from one address, by a git that believes nothing but what it is told here."""

import os
import re
import shlex
from typing import TYPE_CHECKING

from cluster.agent.bundle import Limits
from cluster.agent.growth import Full, Growth, TooMuch
from cluster.agent.steps import Failed, Steps
from cluster.agent.workload import CannotStart, note

if TYPE_CHECKING:  # as in records.py
    from typing import Any

USER = "oauth2"  # hosts that take a personal token as a password take any name with it
FULL_ID = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}", re.ASCII)
EVERYTHING = ("+refs/heads/*:refs/remotes/origin/*", "+refs/tags/*:refs/tags/*")
# Of a repository, and of the host that it came from, nothing is run, followed or believed.
SETTINGS = (
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "credential.helper=",
    "fetch.recurseSubmodules=false",
    "fetch.unpackLimit=1",  # written as it comes, where it is measured, instead of gathered in memory
    "gc.auto=0",
    "http.followRedirects=false",  # the token is for this host alone
    "init.defaultBranch=taiji",
    "advice.detachedHead=false",
    "submodule.recurse=false",
)
# What git says, in English, what is meant, and the cause of protocol.CAUSES; the first that fits.
# `{place}` is the address.
MEANINGS = (
    (
        r"No space left on device|Disk quota exceeded|file write error|File too large",
        "The disk is full: {said}",
        "code_away",
    ),
    (r"terminal prompts disabled", "{place} asks for a token: give private_token.", "code"),
    (
        r"Authentication failed|HTTP Basic: Access denied|error: (401|403)|status code 403",
        "{place} refuses the token, or has no such project for it.",
        "code",
    ),
    (
        r"not found|error: 404|unable to update url base from redirection",
        "There is no project at {place}.",
        "code",
    ),
    (
        r"transport '.*' not allowed|Unsupported|not allowed",
        "{place} is not an address that may be used.",
        "code",
    ),
    (
        r"Could not resolve|Failed to connect|Couldn't connect|timed out|Connection|SSL|TLS|certificate",
        "{place} cannot be reached: {said}",
        "code_away",
    ),
)


class Git:
    """One repository and the folder that its code goes to, the work folder of an instance."""

    def __init__(self, code: "dict[str, Any]", private: str, steps: Steps, env: "dict[str, str]") -> None:
        """Fetch what `code` says (see protocol.py); a token lies below the folder `private` while it is used."""
        self.url = str(code["url"])
        self.branch = str(code.get("branch") or "")
        self._token = str(code.get("token") or "")
        self._file = os.path.join(private, "token")
        self._steps = steps
        most = Limits()
        self._growth = Growth(
            Limits(files=code.get("files") or most.files, bytes=code.get("bytes") or most.bytes),
            ".",
            private,  # what a host says lies there
        )
        self._env = {
            **env,
            "HOME": private,
            "LC_ALL": "C",
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": "/dev/null",
            "GIT_TERMINAL_PROMPT": "0",
            "GIT_ALLOW_PROTOCOL": "https:http",
        }

    def fetch(self, commit: str) -> str:
        """Bring the code of `commit` (short or whole; blank: the branch's newest) here; return its whole id.

        Raises CannotStart, also where it takes more room than it may, Cancelled, TooLong.
        """
        self._run("init", "--quiet", "--template=", ".")
        if self._token:
            with open(os.open(self._file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
                file.write(f"username={USER}\npassword={self._token}\n")
        try:
            found = commit or self._newest()
            self._steps.say(f"fetching {found} from {self.url}")
            whole = self._bring(found)
        finally:
            if self._token:
                os.unlink(self._file)
        self._run("checkout", "--quiet", "--force", "--detach", whole, "--")
        return whole

    def _newest(self) -> str:
        """Return the newest commit of the branch (or the commit of the tag), by default of the host's own."""
        names = [f"refs/heads/{self.branch}", f"refs/tags/{self.branch}^{{}}", f"refs/tags/{self.branch}"]
        asked = names if self.branch else ["HEAD"]
        lines = self._run("ls-remote", "--quiet", "--", self.url, *asked).splitlines()
        # Patterns also match longer names, and warnings stand between the lines.
        known = {name: commit for commit, _tab, name in (line.partition("\t") for line in lines)}
        for name in asked:
            if FULL_ID.fullmatch(known.get(name, "")):
                return known[name]
        if self.branch:
            raise CannotStart(f"There is no branch {self.branch!r} at {self.url}.", "code")
        raise CannotStart(f"There is no default branch at {self.url}: name a branch.", "code")

    def _bring(self, commit: str) -> str:
        """Fetch the commit alone where its host gives it so, else everything; return its whole id."""
        if FULL_ID.fullmatch(commit):
            try:
                self._git("fetch", "--quiet", "--depth=1", "--no-tags", "--", self.url, commit)
                return commit
            except Failed as fault:  # some hosts give none away that no branch ends with
                note(f"not fetched alone: {fault}")
        self._run("fetch", "--quiet", "--no-tags", "--", self.url, *EVERYTHING)
        try:
            whole = self._git("rev-parse", "--verify", "--quiet", f"{commit}^{{commit}}")
        except Failed as fault:
            if "ambiguous" in str(fault):
                raise CannotStart(f"{commit} begins several commits of {self.url}.", "code") from fault
            raise CannotStart(f"There is no commit {commit} at {self.url}.", "code") from fault
        whole = whole.splitlines()[-1]
        if not whole.startswith(commit):  # a branch or a tag of this name
            raise CannotStart(f"There is no commit {commit} at {self.url}.", "code")
        return whole

    def _run(self, *arguments: str) -> str:
        try:
            return self._git(*arguments)
        except Failed as fault:
            raise self._meaning(fault) from fault

    def _git(self, *arguments: str) -> str:
        settings = [*SETTINGS]
        if self._token:
            settings.append(
                f"credential.helper=!f() {{ test $1 != get || cat {shlex.quote(self._file)}; }}; f"
            )
        options = [part for setting in settings for part in ("-c", setting)]
        try:
            said = self._steps.run(["git", *options, *arguments], self._env, self._growth.look)
            self._growth.measure()  # it may have ended between two looks
        except TooMuch as fault:
            raise self._too_much() from fault
        except Full as fault:
            raise CannotStart(f"The disk is full: {self.url} does not fit on it.", "code_away") from fault
        return said

    def _too_much(self) -> CannotStart:
        limits = self._growth.limits
        return CannotStart(
            f"{self.url} takes more than {limits.files} files or {limits.bytes // 2**20} MiB, which is the most. "
            "Keep what is large in the storage; a commit named by its whole id comes without its history.",
            "code",
        )

    def _meaning(self, fault: Failed) -> CannotStart:
        said = str(fault)
        if said == "git: not found":
            return CannotStart("This host has no git.", "code_away")
        lines = [line for line in said.splitlines() if re.match(r"(fatal|error|remote):", line)]
        last = (lines or said.splitlines() or ["nothing"])[-1][:200]
        for pattern, meaning, cause in MEANINGS:
            if re.search(pattern, said, re.IGNORECASE):
                return CannotStart(meaning.format(place=self.url, said=last), cause)
        return CannotStart(f"git could not fetch {self.url}: {last}", "code")
