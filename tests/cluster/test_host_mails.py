"""Operators are told by mail of hosts that are quarantined: once, later where the server is away, never in a pass."""

import logging
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from smtplib import SMTPServerDisconnected

import pytest
import time_machine
from django.core.mail import EmailMessage
from django.core.mail.backends.base import BaseEmailBackend
from django.db import connection, transaction
from django.utils import timezone
from pytest_django import Settings

from cluster import host_mails, host_moves
from cluster.host_states import State
from cluster.models import Host, HostEvent, HostMail
from jobs import tasks
from tests.world import World

OPERATORS = ["ann@example.com", "bob@example.com"]


@pytest.fixture(autouse=True)
def _mail(settings: Settings) -> None:
    """Set mail up, with a server that keeps what it gets."""
    settings.MAIL_OPERATORS = OPERATORS
    settings.DEFAULT_FROM_EMAIL = "taiji@example.com"


class Server(BaseEmailBackend):
    """A mail server that is away, or is not."""

    away = True
    got: list[EmailMessage] = []

    def send_messages(self, messages: Sequence[EmailMessage]) -> int:
        """Take them, if it is there."""
        if self.away:
            raise SMTPServerDisconnected("Connection unexpectedly closed")
        self.got.extend(messages)
        return len(messages)


@pytest.fixture
def server(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> type[Server]:
    """Let mails go to a server that is away at first."""
    settings.EMAIL_BACKEND = f"{__name__}.Server"
    monkeypatch.setattr(Server, "away", True)
    monkeypatch.setattr(Server, "got", [])
    return Server


def quarantine(world: World, name: str = "h1") -> Host:
    """Return a host that the platform took out."""
    host = world.host(name, 1)
    assert host_moves.move(host.pk, State.READY, State.QUARANTINED, args={"failed": [7, 8, 9]})
    return host


def test_a_quarantined_host_is_told_to_all_operators_by_one_mail(
    world: World, mailoutbox: list[EmailMessage]
) -> None:
    with time_machine.travel("2026-01-01 12:00:30+00:00", tick=False):
        quarantine(world)
        assert mailoutbox == []  # whoever moves a host waits for no mail server
        tasks.send_host_mails()
        tasks.send_host_mails()
    (mail,) = mailoutbox
    assert (mail.to, mail.from_email) == (OPERATORS, "taiji@example.com")
    assert mail.subject == "Taiji: host h1 is quarantined"
    assert mail.body == (
        "The host h1 in SZ was quarantined at 2026-01-01 12:00 UTC: it takes no starts. Tasks on it run on.\n\n"
        "3 tasks failed at start here: 7, 8, 9\n\n"
        "Look what is wrong with it, and uncordon it when it is well: it takes tasks again then, and what failed "
        "on it before counts no more.\n"
    )
    assert not HostMail.objects.exists()


def test_a_mail_leads_to_the_page_of_the_host_where_the_address_of_the_platform_is_known(
    world: World, settings: Settings, mailoutbox: list[EmailMessage]
) -> None:
    settings.ROOT_URLCONF, settings.PUBLIC_URL = "taiji_site.urls", "https://taiji.example.com"
    host = quarantine(world)
    host_mails.send_due()
    assert f"\n\nhttps://taiji.example.com/hosts/{host.pk}/\n\n" in mailoutbox[0].body


def test_a_mail_is_in_the_language_of_the_setting(
    world: World, settings: Settings, mailoutbox: list[EmailMessage]
) -> None:
    settings.MAIL_LANGUAGE = "zh-hans"
    quarantine(world)
    host_mails.send_due()
    assert mailoutbox[0].subject == "太极：母机 h1 已被隔离"
    assert "SZ 的母机 h1 已于" in mailoutbox[0].body
    assert "3 个任务" in mailoutbox[0].body


def test_a_line_break_in_a_name_or_a_reason_makes_no_header_and_no_line(
    world: World, mailoutbox: list[EmailMessage]
) -> None:
    quarantine(world, "h1\r\nBcc: eve@example.com\x0b\u2028x\x1f")
    HostEvent.objects.update(reason="a\n\nb\rc")
    host_mails.send_due()
    (mail,) = mailoutbox
    assert mail.subject == "Taiji: host h1 Bcc: eve@example.com x is quarantined"
    assert mail.message()["Bcc"] is None
    assert mail.recipients() == OPERATORS
    assert "\n\na b c\n\n" in mail.body


def test_nothing_is_sent_or_kept_where_mail_is_not_set_up_nor_told_when_it_is(
    world: World, settings: Settings, mailoutbox: list[EmailMessage]
) -> None:
    settings.MAIL_OPERATORS = []
    quarantine(world)
    host_mails.send_due()
    assert not HostMail.objects.exists()
    settings.MAIL_OPERATORS = OPERATORS
    host_mails.send_due()
    assert mailoutbox == []


def test_what_was_kept_before_mail_was_taken_out_of_the_settings_goes_with_time(
    world: World, settings: Settings, mailoutbox: list[EmailMessage]
) -> None:
    quarantine(world)
    settings.MAIL_OPERATORS = []
    with time_machine.travel(timezone.now() + timedelta(days=2)):
        host_mails.send_due()
        assert HostMail.objects.exists()
    with time_machine.travel(timezone.now() + timedelta(days=4)):
        host_mails.send_due()
    assert not HostMail.objects.exists()
    assert mailoutbox == []


def test_what_an_operator_does_to_a_host_is_not_told_by_mail(world: World) -> None:
    host = quarantine(world)
    HostMail.objects.all().delete()
    host_moves.act(Host.objects.get(pk=host.pk), "cordon", actor_id=world.operator().pk, reason="fan")
    host_moves.act(Host.objects.get(pk=host.pk), "uncordon", actor_id=world.operator().pk, reason="")
    assert not HostMail.objects.exists()


def test_a_move_that_is_rolled_back_is_not_told(world: World) -> None:
    with transaction.atomic():
        quarantine(world)
        transaction.set_rollback(True)
    assert not HostMail.objects.exists()


def test_a_host_that_is_quarantined_again_is_told_again(world: World, mailoutbox: list[EmailMessage]) -> None:
    host = quarantine(world)
    host_moves.act(Host.objects.get(pk=host.pk), "uncordon", actor_id=world.operator().pk, reason="")
    quarantine(world)
    host_mails.send_due()
    first, second = (mail.message()["Message-ID"] for mail in mailoutbox)
    assert first != second


def test_while_the_mail_server_is_away_it_is_asked_more_and_more_rarely_and_the_mail_comes_once(
    world: World, server: type[Server], caplog: pytest.LogCaptureFixture
) -> None:
    begin = timezone.now()
    with time_machine.travel(begin, tick=False) as now:
        quarantine(world)
        waits = []
        for _ in range(8):
            host_mails.send_due()
            due = HostMail.objects.get().next_at
            waits.append(round((due - timezone.now()).total_seconds()))
            now.move_to(due - timedelta(seconds=1))
            host_mails.send_due()  # not due yet
            now.move_to(due)
        assert waits == [60, 120, 240, 480, 960, 1920, 3600, 3600]
        assert len(caplog.records) == len(waits)
        assert "no mail of h1, again in 60 s: Connection unexpectedly closed" in caplog.text
        server.away = False
        host_mails.send_due()
        host_mails.send_due()
    assert [mail.subject for mail in server.got] == ["Taiji: host h1 is quarantined"]


def test_a_mail_server_that_is_away_is_asked_once_a_time_however_many_mails_wait(
    world: World, server: type[Server], caplog: pytest.LogCaptureFixture
) -> None:
    for name in ("h1", "h2", "h3"):
        quarantine(world, name)
    host_mails.send_due()
    assert len(caplog.records) == 1
    server.away = False
    host_mails.send_due()
    assert [mail.subject[12:14] for mail in server.got] == ["h2", "h3"]  # h1 waits its minute
    with time_machine.travel(timezone.now() + timedelta(seconds=61)):
        host_mails.send_due()
    assert len(server.got) == 3


def test_what_no_server_took_for_days_is_given_up_and_said_so(
    world: World, server: type[Server], caplog: pytest.LogCaptureFixture
) -> None:
    quarantine(world)
    host_mails.send_due()
    server.away = False
    with time_machine.travel(timezone.now() + timedelta(days=3, seconds=1)):
        host_mails.send_due()
    assert (server.got, HostMail.objects.count()) == ([], 0)
    (said,) = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert said.getMessage() == "operators were not told by mail of h1: tried 1 times"


def test_two_workers_send_a_mail_once(
    world: World, server: type[Server], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other one looks while the first is at it; another read the same row and was slower."""
    server.away = False
    quarantine(world)
    slower = HostMail.objects.get()
    taken: list[bool] = []
    send = server.send_messages

    def meanwhile(self: Server, messages: Sequence[EmailMessage]) -> int:
        host_mails.send_due()
        taken.append(host_mails._take(slower))
        return send(self, messages)

    monkeypatch.setattr(server, "send_messages", meanwhile)
    host_mails.send_due()
    assert (len(server.got), taken) == (1, [False])


@pytest.mark.django_db(transaction=True)
def test_workers_that_look_at_the_same_moment_send_each_mail_once(world: World, server: type[Server]) -> None:
    server.away = False
    for number in range(12):
        quarantine(world, f"h{number}")
    together = threading.Barrier(3)

    def look() -> None:
        together.wait(60)
        host_mails.send_due()
        connection.close()

    with ThreadPoolExecutor(3) as pool:
        for one in [pool.submit(look) for _ in range(3)]:
            one.result(60)
    subjects = [mail.subject for mail in server.got]
    assert (len(subjects), len(set(subjects)), HostMail.objects.count()) == (12, 12, 0)


def test_a_mail_whose_worker_was_killed_is_sent_by_another(
    world: World, server: type[Server], monkeypatch: pytest.MonkeyPatch
) -> None:
    quarantine(world)

    def killed(*_: object) -> int:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(server, "send_messages", killed)
        with pytest.raises(KeyboardInterrupt):
            host_mails.send_due()
    server.away = False
    host_mails.send_due()
    assert server.got == []  # for all that anybody knows it is on its way
    with time_machine.travel(timezone.now() + host_mails.TAKEN):
        host_mails.send_due()
    assert len(server.got) == 1
