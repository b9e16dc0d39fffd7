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


def host_topic(host_id: int) -> str:
    """Return the topic that says: what this host should run has changed."""
    return f"host.{host_id}"


def publish(*topics: str) -> None:
    """Say, once the transaction at hand is committed, that each of `topics` (without spaces) changed."""
    if topics:
        transaction.on_commit(lambda: _publish(topics))


def _publish(topics: tuple[str, ...]) -> None:
    # One message for all of them, since a pass names thousands: the first is its channel, the others its content.
    first, *others = dict.fromkeys(topics)
    if _is_spared():
        return
    try:
        _redis().publish(CHANNEL + first, " ".join(others))
    except redis.RedisError as error:
        _failed("hint not sent", error)


def wake_pass() -> None:
    """Ask for a scheduling pass as soon as the transaction at hand is committed."""
    transaction.on_commit(_wake_pass)


def _wake_pass() -> None:
    if _is_spared():
        return
    try:
        # One message at a time is enough: the pass clears the mark before it reads the database.
        if _redis().set(CHANNEL + "pass-asked", b"1", nx=True, px=2000):
            current_app.send_task(settings.PASS_TASK, retry=False, expires=10)
    except (redis.RedisError, OperationalError) as error:
        _failed("pass not woken", error)


def pass_begins() -> None:
    """Note that a pass reads the database from here on: later changes must ask again."""
    if _is_spared():
        return
    try:
        _redis().delete(CHANNEL + "pass-asked")
    except redis.RedisError as error:
        _failed("mark of the pass not cleared", error)
