"""Encrypt all stored secrets with the newest key of the vault: manage.py rotate_secrets [--check]."""

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from jobs import rotation
from quotas import audit


class Command(BaseCommand):
    """Rotate the secrets."""

    help = "Encrypts all stored secrets with the first key of TAIJI_VAULT_KEYS. It may be broken off and repeated."

    def add_arguments(self, parser: CommandParser) -> None:
        """Say how."""
        parser.add_argument("--check", action="store_true", help="only say how many are left to do")
        parser.add_argument("--batch", type=int, default=rotation.BATCH, help="rows of one transaction")

    def handle(self, *args: Any, **options: Any) -> None:
        """Rotate, and say what was found; an exit status of 1 means: the old keys are still needed."""
        if options["batch"] < 1:
            raise CommandError("--batch: write a number from 1 on.")
        count = rotation.rotate(batch=options["batch"], write=not options["check"])
        if not options["check"]:
            audit.note(
                "secrets.rotated", by=None, name="", renewed=count.renewed, unreadable=count.unreadable
            )
        done = "to encrypt anew" if options["check"] else "encrypted anew"
        self.stdout.write(f"{count.renewed} {done}, {count.newest} with the newest key already")
        if count.unreadable:
            raise CommandError(
                f"{count.unreadable} cannot be read with any key: keep the older ones in TAIJI_VAULT_KEYS."
            )
        if options["check"] and count.renewed:
            raise CommandError("Keep the older keys, and run rotate_secrets.")
