"""The settings that the environment decides."""

import json
import os
import subprocess
import sys

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
