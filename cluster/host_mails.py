"""Mails to operators about hosts: rows until the mail server has taken them, so that no pass ever waits for one.

A mail is sent once: whoever sends it takes its row first. Only a worker that is ended between the server's "taken" and
the row's end leaves it to be sent again, under the same Message-ID.
"""

import logging
from datetime import datetime, timedelta

from django.conf import settings
from django.core.mail import EmailMessage
from django.db.models import F
from django.urls import reverse
from django.utils import timezone, translation
from django.utils.encoding import punycode
from django.utils.translation import gettext as _

from cluster import clock, host_events
from cluster.models import HostEvent, HostMail

log = logging.getLogger(__name__)
TAKEN = timedelta(minutes=10)  # so long nobody else sends it: longer than a slow mail server can take
WAIT_S = 60  # after the first try that failed; doubles
WAIT_AT_MOST_S = 3600
GIVEN_UP = timedelta(days=3)  # what is older is no news


def keep(event: HostEvent) -> None:
    """Note that operators are told of the event, in the caller's transaction; nothing where mail is not set up."""
    if settings.MAIL_OPERATORS:
        HostMail.objects.create(event=event, next_at=event.at)


def send_due() -> None:
    """Send what is due, until the mail server does not take one: then it is asked again the next time."""
    now = clock.now()
    _give_up(now)
    if not settings.MAIL_OPERATORS:  # any more: what is left goes with time
        return
    due = HostMail.objects.filter(next_at__lte=now).select_related("event__host__region")
    for mail in due.order_by("id"):
        if _take(mail) and not _send(mail):
            return


def _give_up(now: datetime) -> None:
    old = HostMail.objects.filter(event__at__lt=now - GIVEN_UP)
    for mail in old.select_related("event__host"):
        log.error("operators were not told by mail of %s: tried %d times", mail.event.host, mail.tries)
        mail.delete()


def _take(mail: HostMail) -> bool:
    """Say whether this is the one who sends it."""
    untaken = HostMail.objects.filter(pk=mail.pk, next_at=mail.next_at)
    return bool(untaken.update(next_at=clock.now() + TAKEN, tries=F("tries") + 1))


def _send(mail: HostMail) -> bool:
    """Say whether the mail server took it; if not, it is tried again later."""
    try:
        message(mail.event).send()
    except OSError as fault:  # the library's own, of the server's answers, are such
        wait_s = min(WAIT_S * 2**mail.tries, WAIT_AT_MOST_S)
        HostMail.objects.filter(pk=mail.pk).update(next_at=clock.now() + timedelta(seconds=wait_s))
        log.warning("no mail of %s, again in %d s: %s", mail.event.host, wait_s, fault)
        return False
    mail.delete()
    return True


def message(event: HostEvent) -> EmailMessage:
    """Return the mail that tells operators of a host that was quarantined."""
    host, domain = event.host, punycode(settings.DEFAULT_FROM_EMAIL.rpartition("@")[2])
    with translation.override(settings.MAIL_LANGUAGE):
        words = {
            "host": _line(host.name),
            "region": _line(host.region.name),
            "at": f"{timezone.localtime(event.at):%F %R %Z}",
        }
        subject = _("Taiji: host %(host)s is quarantined") % words
        what = _(
            "The host %(host)s in %(region)s was quarantined at %(at)s: it takes no starts. Tasks on it run on."
        )
        why = _line(event.reason or host_events.sentence(event.code, event.args))
        way_out = _(
            "Look what is wrong with it, and uncordon it when it is well: it takes tasks again then, and what failed "
            "on it before counts no more."
        )
    link = [settings.PUBLIC_URL + reverse("host", args=[host.pk])] if settings.PUBLIC_URL else []
    return EmailMessage(
        subject,
        "\n\n".join([what % words, why, *link, way_out]) + "\n",
        to=settings.MAIL_OPERATORS,
        headers={
            "Message-ID": f"<taiji-{event.pk}-{event.at.timestamp():.0f}@{domain}>",
            "Auto-Submitted": "auto-generated",  # nobody's holiday answers it
        },
    )


def _line(text: str) -> str:
    """Return it as one line: a line break would begin a header."""
    return " ".join("".join(one if one.isprintable() else " " for one in text).split())
