"""Check everything: style, types, imports, templates, migrations, tests on SQLite and on PostgreSQL."""

import os
import shutil
import subprocess
import tempfile
import time
from dataclasses import dataclass, field

from launch import exploring, install, postgres
from launch.keys import MADE
from launch.places import ROOT
from launch.steps import PYTHON
from launch.words import Progress, Refusal, warn

CHECKS = {
    "ruff check": ["ruff", "check", "."],
    "ruff format": ["ruff", "format", "--check", "."],
    "mypy": ["mypy", "."],
    "import-linter": ["launch.imports"],
    "djlint lint": ["djlint", "--lint", "--quiet", "templates"],
    "djlint format": ["djlint", "--check", "--quiet", "templates"],
    "migrations": ["django", "makemigrations", "--check", "--dry-run"],
}
# --strict: where the index does not know a package, nothing was audited, which is no success.
LOCK = ["--strict", "--disable-pip", "--require-hashes", "--progress-spinner", "off", "-r"]
AUDITS = {
    "known faults, server": ["pip_audit", *LOCK, "requirements.txt"],
    "known faults, agent": ["pip_audit", *LOCK, "deploy/agent/requirements.txt"],
}
RECORDED = "TAIJI_SHARED"  # where recorded work lies, for the tests and benchmarks that use it
# A real cluster for the tests of Kubernetes: docs/kubernetes.md.
CLUSTER = ("TAIJI_KUBECONFIG", "TAIJI_KUBE_")
RULES = ["-p", "launch.pytest_rules"]
PROCESSORS = len(os.sched_getaffinity(0))
# One more than there are processors: half of the time of tests with hosts and their processes is spent waiting.
SHARED = ["-n", str(PROCESSORS + 1)]
# The tests of a file share a server, which is started once then; a browser keeps its processor busy.
BY_FILE = ["-n", str(max(2, PROCESSORS)), "--dist", "loadfile"]
DEEDS = "1"  # the seed of what chaos breaks, and when
USAGE = """\
usage: script/test [--no-skips] [--audit] [PYTEST ARGUMENTS | --explore MINUTES]

Set up and run every check and test; with arguments of pytest's, such as `tests/engine -k evict`, only those tests.

  --no-skips         fail where a test was skipped; a whole run also breaks an installation for three minutes
  --audit            ask the package index which locked packages have known faults
  --explore MINUTES  try the properties on other examples, at random, for so long

`.venv/bin/python -m pytest --help` lists pytest's own."""


@dataclass(slots=True)
class Report:
    """What was run, how long it took, and what failed."""

    rows: list[tuple[str, float, bool]] = field(default_factory=list)

    def run(self, name: str, module: list[str], env: dict[str, str]) -> None:
        """Run `python -m MODULE …` as the step `name`."""
        print(f"--- {name}", flush=True)
        began = time.monotonic()
        done = subprocess.run([str(PYTHON), "-m", *module], cwd=ROOT, env=env)
        self.rows.append((name, time.monotonic() - began, done.returncode == 0))

    def close(self) -> int:
        """Print the table of steps and return the exit status."""
        print("---")
        for name, seconds, good in self.rows:
            print(f"{seconds:7.1f} s  {'ok    ' if good else 'FAILED'}  {name}")
        failed = [name for name, _, good in self.rows if not good]
        print(f"Failed: {', '.join(failed)}" if failed else "Everything is in order.", flush=True)
        return 1 if failed else 0


def main(arguments: list[str]) -> int:
    """Run `script/test`: with arguments only pytest, on SQLite, or `--explore MINUTES`; else everything."""
    if arguments in (["-h"], ["--help"]):
        print(USAGE)
        return 0
    exploring_for = exploring.minutes(arguments) if "--explore" in arguments else 0.0
    strict, audit = "--no-skips" in arguments, "--audit" in arguments
    chosen = [argument for argument in arguments if argument not in {"--no-skips", "--audit"}]
    say = Progress()
    install.ensure(say, dev=True)
    _bring_programs(say)
    pytest = ["pytest", *RULES, *(["--no-skips"] if strict else [])]
    with tempfile.TemporaryDirectory(prefix="taiji-test-", ignore_cleanup_errors=True) as data:
        env = environment(data)
        if exploring_for:
            return exploring.explore(exploring_for, [*pytest, "-q", *SHARED], env)
        if chosen:
            return subprocess.run([str(PYTHON), "-m", *pytest, *chosen], cwd=ROOT, env=env).returncode
        return _run_all([*pytest, "-q"], env, chaos=strict, audit=audit)


def _run_all(pytest: list[str], env: dict[str, str], *, chaos: bool, audit: bool) -> int:
    """Run everything; `chaos` also breaks a whole installation for a while.

    `audit` asks the package index which locked packages have known faults, so it needs one that answers that.
    """
    report = Report()
    for name, module in {**CHECKS, **(AUDITS if audit else {})}.items():
        report.run(name, module, env)
    on_sqlite = [*pytest, *SHARED, "--not-on-two", "-m", "not system and not browser"]
    report.run("tests on SQLite", on_sqlite, env)
    # In processes of their own: a driven browser keeps an event loop, and tests that run one cannot.
    report.run("tests in a browser", [*pytest, *BY_FILE, "-m", "browser"], env)
    with postgres.server() as url:
        on_postgres = [*pytest, *SHARED, "--only-database", "-m", "not system and not browser"]
        report.run("tests on PostgreSQL", on_postgres, env | {"DATABASE_URL": url})
    # One after the other: each starts whole products, whose times would be those of the others.
    report.run("tests of the whole product", [*pytest, "-m", "system"], env)
    if chaos:
        report.run("three minutes of chaos", ["tests.chaos", "--minutes", "3", "--seed", DEEDS], env)
    return report.close()


def environment(data: str) -> dict[str, str]:
    """Return an environment with throw-away secrets, and without settings of a product that is in use."""
    kept = {name: value for name, value in os.environ.items() if name.startswith((RECORDED, *CLUSTER))}
    env = {name: value for name, value in os.environ.items() if not name.startswith("TAIJI_")} | kept
    for name in ("DATABASE_URL", "REDIS_URL", "DJANGO_SETTINGS_MODULE"):
        env.pop(name, None)
    if env.pop("PYTHONDONTWRITEBYTECODE", ""):
        # Nothing is to be written beside the sources. Without any bytecode, though, each of the many programs
        # that tests start compiles all that it imports: 3.6 s of work for one of Django's instead of 1.3 s.
        env["PYTHONPYCACHEPREFIX"] = f"{data}/bytecode"
    return env | {
        "DJANGO_SETTINGS_MODULE": "taiji_site.settings",
        "TAIJI_DATA": data,
        "TAIJI_SECRET_KEY": MADE["secret_key"](),
        "TAIJI_VAULT_KEYS": MADE["vault_keys"](),
        "TAIJI_JOIN_TOKEN": MADE["join_token"](),
    }


@dataclass(frozen=True, slots=True)
class Needed:
    """What some tests use of Debian's packages."""

    name: str
    packages: tuple[str, ...]
    programs: tuple[str, ...]
    tests: str  # that are skipped without it
    font: bool = False

    def there(self) -> bool:
        """Return whether it is installed."""
        return all(map(shutil.which, self.programs)) and (not self.font or _has_chinese_font())


NEEDED = (
    Needed(
        name="Chromium with the font WenQuanYi Micro Hei",
        packages=("chromium", "fonts-wqy-microhei"),
        programs=("chromium",),
        tests="tests of pages in a browser",
        font=True,
    ),
    Needed(
        name="Podman",
        packages=("podman", "runc", "conmon", "busybox-static"),
        programs=("podman", "runc", "conmon", "busybox"),
        tests="tests of containers",
    ),
)


def _bring_programs(say: Progress) -> None:
    """Install what is missing where that is possible; without it some tests are skipped."""
    missing = [needed for needed in NEEDED if not needed.there()]
    if not missing:
        return
    if os.getuid() != 0 or not shutil.which("apt-get"):
        for needed in missing:
            named = ", ".join(needed.packages)
            warn(f"{needed.name} is missing: install the packages {named}; until then the {needed.tests}")
            warn("are skipped.")
        return
    say(f"Installing {' and '.join(needed.name for needed in missing)} with apt-get")
    packages = [package for needed in missing for package in needed.packages]
    env = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    for command in (["update"], ["install", "-y", "--no-install-recommends", *packages]):
        done = subprocess.run(["apt-get", "-q", *command], env=env, capture_output=True, text=True)
        if done.returncode != 0:
            raise Refusal(f"apt-get {command[0]} failed: {done.stderr.strip().splitlines()[-1:]}")


def _has_chinese_font() -> bool:
    listed = shutil.which("fc-list") and subprocess.run(["fc-list", ":lang=zh"], capture_output=True).stdout
    return bool(listed)
