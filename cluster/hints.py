"""Hints that something changed: they bring the next look forward, and losing one costs one period."""

import logging
import time
from collections.abc import Callable
from functools import cache
from typing import Any, TypeVar

import redis
from celery import current_app
from django.conf import settings
from django.db import transaction
from kombu.exceptions import OperationalError

T = TypeVar("T")

log = logging.getLogger(__name__)
CHANNEL = "taiji:"  # prefix of every Redis channel of the product
UNTAKEN_AT_MOST = 100  # requests of Celery that wait; a worker that comes back has done with them in a moment
SPARED_S = 5.0  # a Redis that did not answer in time is not asked for so long: each try holds up somebody
_spared_until = 0.0  # on this process's clock


@cache
def _redis() -> Any:
    return redis.Redis.from_url(settings.REDIS_URL, socket_timeout=1, socket_connect_timeout=1)


def _is_spared() -> bool:
    return time.monotonic() < _spared_until


def _failed(what: str, error: Exception) -> None:
    global _spared_until
    if isinstance(error, redis.TimeoutError):  # one that is away says so at once
        _spared_until = time.monotonic() + SPARED_S
    log.warning("%s: %s", what, error)


def ask(question: Callable[[Any], T]) -> T | None:
    """Return what the Redis answers; None where it gives no answer now, which whoever asks has to live with."""
    if _is_spared():
        return None
    try:
        return question(_redis())
    except redis.RedisError as error:
        _failed("no answer", error)
        return None


def are_taken() -> bool:
    """Say whether somebody takes what Celery is asked for; true also where that cannot be known now."""
    waiting = ask(lambda server: server.llen(current_app.conf.task_default_queue))
    return waiting is None or waiting < UNTAKEN_AT_MOST


def host_topic(host_id: int) -> str:
    """Return the topic that says: what this host should run has changed."""
    return f"host.{host_id}"


def publish(*topics: str, wake: bool = False) -> None:
    """Say, once the transaction at hand is committed, that each of `topics` (without spaces) changed.

    `wake`: ask for a pass as `wake_pass` does, in the same round to the Redis.
    """
    if topics:
        transaction.on_commit(lambda: _publish(topics, wake))


def _publish(topics: tuple[str, ...], wake: bool = False) -> None:
    # One message for all of them, since a pass names thousands: the first is its channel, the others its content.
    first, *others = dict.fromkeys(topics)
    if _is_spared():
        return
    try:
        if not wake:
            _redis().publish(CHANNEL + first, " ".join(others))
            return
        with _redis().pipeline(transaction=False) as both:
            both.publish(CHANNEL + first, " ".join(others))
            _mark_asked(both)
            _told, is_first = both.execute()
        if is_first:
            _send_pass()
    except (redis.RedisError, OperationalError) as error:
        _failed("hint not sent", error)


def wake_pass() -> None:
    """Ask for a scheduling pass as soon as the transaction at hand is committed."""
    transaction.on_commit(_wake_pass)


def _wake_pass() -> None:
    if _is_spared():
        return
    try:
        if _mark_asked(_redis()):
            _send_pass()
    except (redis.RedisError, OperationalError) as error:
        _failed("pass not woken", error)


def _mark_asked(client: Any) -> Any:
    # One message at a time is enough: the pass clears the mark before it reads the database.
    return client.set(CHANNEL + "pass-asked", b"1", nx=True, px=2000)


def _send_pass() -> None:
    if are_taken():
        current_app.send_task(settings.PASS_TASK, retry=False)


def pass_begins() -> None:
    """Note that a pass reads the database from here on: later changes must ask again."""
    if _is_spared():
        return
    try:
        _redis().delete(CHANNEL + "pass-asked")
    except redis.RedisError as error:
        _failed("mark of the pass not cleared", error)
