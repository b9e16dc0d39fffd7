"""Packages from the Python index: by uv, which takes seconds, else by pip; with pip's settings both ways."""

import os
import shutil
import subprocess
from pathlib import Path

from launch.steps import PYTHON, VENV, run, succeeds

UV = "uv==0.13.9"
OWN_UV = VENV / "bin" / "uv"
WORDS = {"index-url": "UV_DEFAULT_INDEX", "cert": "SSL_CERT_FILE", "trusted-host": "UV_INSECURE_HOST"}


def install(arguments: list[str], *, what: str) -> None:
    """Install packages into the virtual environment, or with `--target` elsewhere."""
    uv = _uv()
    if uv is None:
        command = [str(PYTHON), "-m", "pip", "install", "--quiet", "--retries=2", *arguments]
    else:
        command = [uv, "pip", "install", "--quiet", "--python", str(PYTHON), *arguments]
    run(command, what=what, env=_environment())


def can_install() -> bool:
    """Say whether something is there to install with."""
    uv_there = succeeds([str(OWN_UV), "--version"]) or bool(shutil.which("uv"))
    return uv_there or succeeds([str(PYTHON), "-m", "pip", "--version"])


def _uv() -> str | None:
    """Return uv's path, installing it where the machine has none; None where that fails."""
    if succeeds([str(OWN_UV), "--version"]):
        return str(OWN_UV)
    if system := shutil.which("uv"):
        return system
    pip = [str(PYTHON), "-m", "pip", "install", "--quiet", "--retries=2", UV]
    return str(OWN_UV) if succeeds(pip) and succeeds([str(OWN_UV), "--version"]) else None


def _environment() -> dict[str, str]:
    """Return the installer's environment: pip's settings in uv's words, since uv reads none of pip's."""
    env = dict(os.environ)
    settings = _pip_settings()
    for theirs, ours in WORDS.items():
        if theirs in settings:
            env.setdefault(ours, settings[theirs])
    extra = [url for url in settings.get("extra-index-url", "").split() if url.startswith("http")]
    if extra:
        env.setdefault("UV_INDEX", " ".join(extra))
        env.setdefault("UV_INDEX_STRATEGY", "unsafe-best-match")  # as pip does; the lock's hashes decide
    cache = Path(env.get("UV_CACHE_DIR") or env.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    if not any(os.access(place, os.W_OK) for place in (cache, cache.parent)):
        env["UV_NO_CACHE"] = "1"
    return env


def _pip_settings() -> dict[str, str]:
    """Return pip's settings by their bare names; what the environment says wins over the files."""
    listed = subprocess.run([str(PYTHON), "-m", "pip", "config", "list"], capture_output=True, text=True)
    found: dict[str, str] = {}
    for line in sorted(listed.stdout.splitlines(), key=lambda line: line.startswith(":env:")):
        name, _, value = line.partition("=")
        found[name.rpartition(".")[2]] = value.strip("'\"").replace("\\n", " ")
    return found
