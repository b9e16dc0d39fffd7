"""The threads in which asynchronous views use the database: a few that keep their connections.

A thread and a connection per request, Django's way, costs 5 ms each on SQLite, and a thousand of both while
a thousand agents wait for news.
"""

from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import ParamSpec, TypeVar

from asgiref.sync import sync_to_async
from django.db import connection

P = ParamSpec("P")
R = TypeVar("R")

# Tests set None: then the work is done in the request's own thread, on the connection of the test.
pool: ThreadPoolExecutor | None = ThreadPoolExecutor(4, thread_name_prefix="database")
# What pages ask for of themselves, a thousand of them at once: it may not keep agents from being answered.
PAGES = 3
_pages = ThreadPoolExecutor(PAGES, thread_name_prefix="pages")


def run(call: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> Awaitable[R]:
    """Run `call`, which may use the database, in one of the threads."""
    return run_in(pool, call, *args, **kwargs)


def run_for_pages(call: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> Awaitable[R]:
    """Run it in one of the threads that work for open pages."""
    return run_in(_pages, call, *args, **kwargs)


def run_in(
    some: ThreadPoolExecutor | None, call: Callable[P, R], *args: P.args, **kwargs: P.kwargs
) -> Awaitable[R]:
    """Run it in one of some other threads, which keep their connections too."""
    if pool is None:
        return sync_to_async(call)(*args, **kwargs)
    return sync_to_async(_on_kept_connection(call), thread_sensitive=False, executor=some)(*args, **kwargs)


def _on_kept_connection(call: Callable[P, R]) -> Callable[P, R]:
    def calling(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return call(*args, **kwargs)
        finally:
            # After an error the connection may be dead; the next call makes a new one.
            if connection.errors_occurred:
                connection.close()

    return calling
