"""Mails arrive at a real mail server that wants STARTTLS and a password, as the environment names it."""

import asyncio
import os
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from datetime import timedelta
from email import message_from_bytes, policy
from email.message import EmailMessage
from pathlib import Path
from typing import Any

import pytest
import time_machine
from aiosmtpd.smtp import SMTP, AuthResult, Envelope, LoginPassword
from cryptography.fernet import Fernet
from django.utils import timezone
from pytest_django import Settings

from cluster import host_mails, host_moves
from cluster.host_states import State
from cluster.models import HostMail
from launch.places import ROOT
from taiji_site import env
from tests import certificates
from tests.world import World


class Post:
    """A mail server on a thread of its own."""

    def __init__(self, certificate: Path) -> None:
        """Listen on a free port."""
        self.got: list[Envelope] = []
        self.says = "250 OK"
        self._tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self._tls.load_cert_chain(certificate)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listening.getsockname()[1]
        asyncio.run_coroutine_threadsafe(self._open(), self._loop).result(60)

    async def _open(self) -> None:
        self._server = await self._loop.create_server(self._talk, sock=self._listening)

    def _talk(self) -> SMTP:
        return SMTP(
            self,
            tls_context=self._tls,
            require_starttls=True,
            auth_required=True,
            authenticator=self._knows,
            loop=self._loop,
        )

    def _knows(self, _server: Any, _session: Any, _envelope: Any, _way: str, said: Any) -> AuthResult:
        assert isinstance(said, LoginPassword)
        return AuthResult(success=(said.login, said.password) == (b"taiji", b"p#/s"), handled=False)

    async def handle_DATA(self, _server: Any, _session: Any, envelope: Envelope) -> str:
        """Take a mail, or say what is to be said."""
        if self.says.startswith("250"):
            self.got.append(envelope)
        return self.says

    async def _end(self) -> None:
        self._server.close()
        talks = asyncio.all_tasks() - {asyncio.current_task()}
        for talk in talks:
            talk.cancel()
        await asyncio.gather(*talks, return_exceptions=True)

    def close(self) -> None:
        """Go away."""
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result(60)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(60)
        self._loop.close()


@pytest.fixture
def post(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Post]:
    """Return a mail server whose certificate is trusted here."""
    certificate = certificates.of_this_machine(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    post = Post(certificate)
    monkeypatch.setenv("TAIJI_MAIL_URL", f"smtp+tls://taiji:p%23%2Fs@127.0.0.1:{post.port}")
    yield post
    post.close()


def read(envelope: Envelope) -> EmailMessage:
    content = envelope.content
    assert isinstance(content, bytes)
    return message_from_bytes(content, policy=policy.default)


def use(settings: Settings) -> None:
    """Send as the environment says."""
    server = env.mail_server("TAIJI_MAIL_URL")
    settings.EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
    settings.EMAIL_HOST, settings.EMAIL_PORT = server.host, server.port
    settings.EMAIL_HOST_USER, settings.EMAIL_HOST_PASSWORD = server.user, server.password
    settings.EMAIL_USE_TLS = True
    settings.DEFAULT_FROM_EMAIL = "taiji@example.com"
    settings.MAIL_OPERATORS = ["ann@example.com", "bob@example.com"]
    settings.MAIL_LANGUAGE = "zh-hans"


def test_a_quarantined_host_s_mail_arrives_once_the_server_takes_it(
    post: Post, world: World, settings: Settings
) -> None:
    use(settings)
    host = world.host("h1", 1)
    host_moves.move(host.pk, State.READY, State.QUARANTINED, args={"failed": [7]})
    post.says = "451 come again later"
    host_mails.send_due()
    assert (post.got, HostMail.objects.get().tries) == ([], 1)
    post.says = "250 OK"
    with time_machine.travel(timezone.now() + timedelta(seconds=61)):
        host_mails.send_due()
        host_mails.send_due()
    (envelope,) = post.got
    assert (envelope.mail_from, envelope.rcpt_tos) == ("taiji@example.com", settings.MAIL_OPERATORS)
    mail = read(envelope)
    assert (mail["Subject"], mail["To"]) == ("太极：母机 h1 已被隔离", "ann@example.com, bob@example.com")
    assert mail["Auto-Submitted"] == "auto-generated"
    assert mail["Message-ID"].endswith("@example.com>")
    assert "1 个任务" in mail.get_content()


def test_a_wrong_password_loses_no_mail(
    post: Post, world: World, settings: Settings, caplog: pytest.LogCaptureFixture
) -> None:
    use(settings)
    settings.EMAIL_HOST_PASSWORD = "other"
    host_moves.move(world.host("h1", 1).pk, State.READY, State.QUARANTINED, args={"failed": [7]})
    host_mails.send_due()
    assert (post.got, HostMail.objects.get().tries) == ([], 1)
    assert "no mail of h1, again in 60 s: (535" in caplog.text


def test_the_settings_are_tried_with_a_command(post: Post) -> None:
    secrets = {"SECRET_KEY": "secret", "VAULT_KEYS": Fernet.generate_key().decode(), "JOIN_TOKEN": "token"}
    given = {"MAIL_FROM": "taiji@example.com", "OPERATORS_MAIL": "ann@example.com", **secrets}
    done = subprocess.run(
        [sys.executable, "manage.py", "sendtestemail", "you@example.com"],
        cwd=ROOT,
        env=os.environ | {f"TAIJI_{name}": value for name, value in given.items()},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    (envelope,) = post.got
    assert (envelope.mail_from, envelope.rcpt_tos) == ("taiji@example.com", ["you@example.com"])
