"""The checks that Django has for production, with the settings of one."""

import os
import subprocess
import sys

import pytest

from launch.places import ROOT

PRODUCTION = {
    "TAIJI_BEHIND_TLS_PROXY": "1",
    "TAIJI_HTTPS_ONLY": "1",
    "TAIJI_ALLOWED_HOSTS": "taiji.example.com",
    "TAIJI_TRUSTED_PROXIES": "10.0.0.5",
}


def check(**given: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "manage.py", "check", "--deploy", "--fail-level", "WARNING"],
        cwd=ROOT,
        env={**os.environ, **given},
        capture_output=True,
        text=True,
    )


def test_the_settings_of_a_production_leave_nothing_to_warn_of() -> None:
    done = check(**PRODUCTION)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("given", "warnings"),
    [
        (
            {"TAIJI_BEHIND_TLS_PROXY": "0", "TAIJI_HTTPS_ONLY": "0", "TAIJI_ALLOWED_HOSTS": ""},
            ["taiji.W002", "security.W004", "security.W012"],
        ),
        (
            {
                "TAIJI_TRUSTED_PROXIES": "",
                "TAIJI_DEBUG": "1",
                "TAIJI_OIDC_ISSUER": "https://login.example.com",
            },
            ["taiji.W001", "security.W018", "taiji.E023"],
        ),
        (
            {"TAIJI_TRUSTED_PROXIES": "the proxy", "TAIJI_OIDC_ISSUER": "login.example.com"},
            ["taiji.E021", "taiji.E022"],
        ),
    ],
)
def test_each_of_them_that_is_missing_or_wrong_is_told(given: dict[str, str], warnings: list[str]) -> None:
    done = check(**{**PRODUCTION, **given})
    assert done.returncode == 1
    assert [warning for warning in warnings if f"({warning})" not in done.stderr] == []
    assert "Traceback" not in done.stderr
