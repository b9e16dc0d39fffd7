"""Everything between installed and started, in one process: database, operator, world, static files."""

import hashlib
import shutil
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management import BaseCommand, call_command

from taiji_site import first_start


class Command(BaseCommand):
    """Bring database and static files to the state that this version needs."""

    help = "Migrate, make the operator where there is none, and collect the static files where they changed."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Take the cards that the small world is about."""
        parser.add_argument("--world", nargs="*", metavar="TYPE:NUMBER", help="also make the small world")

    def handle(self, *args: Any, **options: Any) -> None:
        """Do all of it; each step leaves alone what is there."""
        call_command("migrate", interactive=False, verbosity=0)
        first_start.make_operator(settings.DATA_DIR)
        if options["world"] is not None:
            call_command("setup_world", *options["world"])
        _collect_static()


def _collect_static() -> None:
    root = Path(settings.STATIC_ROOT)
    stamp, wanted = root / ".taiji", _static_mark()
    if stamp.exists() and stamp.read_text() == wanted:
        return
    # Made anew: a file that an older version left would be served for ever.
    shutil.rmtree(root, ignore_errors=True)
    call_command("collectstatic", interactive=False, verbosity=0)
    stamp.write_text(wanted)


def _static_mark() -> str:
    """Return a fingerprint of what is collected: our own files, and the packages that bring theirs."""
    mark = hashlib.sha256()
    for name in ("requirements.txt", "requirements-dev.txt"):
        mark.update((settings.BASE_DIR / name).read_bytes())
    for path in sorted((settings.BASE_DIR / "static").rglob("*")):
        if path.is_file():
            found = path.stat()
            mark.update(f"{path}\0{found.st_size}\0{found.st_mtime_ns}\n".encode())
    return mark.hexdigest()
