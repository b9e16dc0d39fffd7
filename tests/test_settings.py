"""The settings that the environment decides."""

import json
import os
import subprocess
import sys

import pytest

from launch.places import ROOT


def options_of(url: str) -> dict[str, object]:
    """Return the database options of a process that is started with this address."""
    code = "import json; from taiji_site import settings as s; print(json.dumps(s.DATABASES['default']['OPTIONS']))"
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env={**os.environ, "DATABASE_URL": url},
        capture_output=True,
        text=True,
        check=True,
    )
    return dict(json.loads(done.stdout))


def test_what_the_address_of_a_database_asks_for_holds() -> None:
    assert options_of("postgres://u:p@h/n?sslmode=require")["sslmode"] == "require"


def test_the_pool_has_room_for_pages_beside_the_threads_that_keep_their_connections() -> None:
    pool = options_of("postgres://u:p@h/n")["pool"]
    assert isinstance(pool, dict)
    assert pool["max_size"] > 4 + 4


@pytest.mark.parametrize(
    ("name", "value", "check"),
    [
        ("TAIJI_TIME_ZONE", "Mars", "taiji.E007"),
        ("DATABASE_URL", "mysql://x", "taiji.E008"),
        ("DATABASE_URL", "postgres://u:p@h:port/n", "taiji.E008"),
        ("TAIJI_PASS_PERIOD", "0", "taiji.E003"),
        ("TAIJI_DEBUG", "maybe", "taiji.E002"),
        ("TAIJI_IMAGE", "Team/Image:1", "taiji.E011"),
        ("TAIJI_IMAGE", "a b", "taiji.E011"),
        ("TAIJI_MAIL_URL", "smtp://mail:many", "taiji.E024"),
        ("TAIJI_OPERATORS_MAIL", "the operators", "taiji.E025"),
    ],
)
def test_a_wrong_value_is_a_fault_with_its_name_and_a_way_out(name: str, value: str, check: str) -> None:
    done = subprocess.run(
        [sys.executable, "manage.py", "check"],
        cwd=ROOT,
        env={**os.environ, name: value},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    assert f"({check}) {name}" in done.stderr
    assert "HINT: " in done.stderr
    assert "Traceback" not in done.stderr


def checked(**settings: str) -> list[str]:
    """Return what the checks say of mail with these settings alone, without the way out."""
    names = ("TAIJI_MAIL_URL", "TAIJI_MAIL_FROM", "TAIJI_OPERATORS_MAIL")
    env = {name: value for name, value in os.environ.items() if name not in names} | settings
    done = subprocess.run(
        [sys.executable, "manage.py", "check"], cwd=ROOT, env=env, capture_output=True, text=True
    )
    return [line for line in done.stderr.splitlines() if "MAIL" in line and "HINT" not in line]


def test_mail_without_a_server_or_anybody_to_send_it_to_is_a_fault() -> None:
    url, operators = "smtp://mail.example.com", "ann@example.com, bob@example.com"
    assert checked(TAIJI_MAIL_URL=url, TAIJI_MAIL_FROM=" ") == [
        "?: (taiji.E026) TAIJI_MAIL_FROM is not set, and TAIJI_MAIL_URL is.",
        "?: (taiji.E026) TAIJI_OPERATORS_MAIL is not set, and TAIJI_MAIL_URL is.",
    ]
    assert checked(TAIJI_OPERATORS_MAIL=operators, TAIJI_MAIL_FROM="taiji@example.com") == [
        "?: (taiji.E026) TAIJI_MAIL_URL is not set, and TAIJI_MAIL_FROM is."
    ]
    whole = {"TAIJI_MAIL_FROM": "taiji@example.com", "TAIJI_OPERATORS_MAIL": operators}
    assert checked(TAIJI_MAIL_URL=url, **whole) == checked() == []
