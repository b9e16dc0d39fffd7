"""The operator of the first start: `admin`, with a password and an API token that lie in the data folder."""

import os
import secrets
from pathlib import Path

from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import Q

from quotas.models import ApiToken


def make_operator(data: Path) -> None:
    """Make the operator `admin` where there is neither an operator nor a user of that name.

    One who was demoted stays so: `manage.py createsuperuser` makes another.
    """
    if User.objects.filter(Q(is_superuser=True) | Q(username="admin")).exists():
        return
    # The files come first: after a crash in between, the next start writes them anew.
    password = _write(data / "admin-password", secrets.token_urlsafe(12))
    token = _write(data / "admin-token", secrets.token_urlsafe(32))
    with transaction.atomic():
        user = User.objects.create_superuser("admin", password=password)
        ApiToken.objects.issue(user, "first start", token)


def _write(path: Path, text: str) -> str:
    path.unlink(missing_ok=True)
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(text + "\n")
    return text
