"""All of Django for one request, in the one thread that calls it, which keeps its connection to the database.

Django's own way hops between threads at every middleware, and opens a thread and a connection for each request.
"""

import threading
import time
from collections.abc import Callable, MutableMapping
from functools import cache
from io import BytesIO
from typing import Any

from django.core.handlers.asgi import ASGIRequest
from django.core.handlers.base import BaseHandler
from django.db import connection
from django.http.response import HttpResponseBase

RESTED_S = 5.0  # a connection that was not used for so long may be dead

_thread = threading.local()  # `used_at`: when its connection was last used


@cache
def _django() -> Callable[[Any], HttpResponseBase]:
    """Return Django with all its middleware, to be called in one thread."""
    handler = BaseHandler()
    handler.load_middleware(is_async=False)
    return handler.get_response


def answer(scope: MutableMapping[str, Any], body: bytes = b"") -> HttpResponseBase:
    """Return what Django answers; to be run in a thread of a pool (threads.py)."""
    rested_s = time.monotonic() - getattr(_thread, "used_at", time.monotonic())
    if rested_s > RESTED_S and connection.connection is not None and not connection.is_usable():
        connection.close()
    try:
        return _django()(ASGIRequest(dict(scope), BytesIO(body)))
    finally:
        _thread.used_at = time.monotonic()
