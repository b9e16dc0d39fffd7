"""Sessions of the web, kept with whose they are, so that all of one person can be ended."""

from typing import Any

from django.contrib.auth import SESSION_KEY
from django.contrib.sessions.backends import db
from django.contrib.sessions.base_session import AbstractBaseSession
from django.db import models


class OwnedSession(AbstractBaseSession):
    """A session, and who is logged in with it."""

    user_id = models.BigIntegerField(null=True, db_index=True)  # null: nobody is

    class Meta(AbstractBaseSession.Meta):
        db_table = "quotas_session"

    @classmethod
    def get_session_store_class(cls) -> "type[SessionStore]":
        """Return what reads and writes these."""
        return SessionStore


class SessionStore(db.SessionStore):
    """Django's sessions in the database, in the table of ours."""

    @classmethod
    def get_model_class(cls) -> type[OwnedSession]:
        """Return the table."""
        return OwnedSession

    def create_model_instance(self, data: dict[str, Any]) -> OwnedSession:
        """Return the row of a session that holds `data`."""
        row = super().create_model_instance(data)
        assert isinstance(row, OwnedSession)
        found = str(data.get(SESSION_KEY, ""))
        row.user_id = int(found) if found.isdigit() else None
        return row
