"""Files of pages, where Django answers asynchronously; the short way of the API, in one thread, has none of them."""

from asyncio import iscoroutinefunction
from collections.abc import Callable
from typing import Any

from django.utils.decorators import sync_and_async_middleware
from servestatic.middleware import ServeStaticMiddleware


@sync_and_async_middleware
def serve(get_response: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Serve static files. In one thread ServeStatic would begin an event loop for each request."""
    if iscoroutinefunction(get_response):
        made: Callable[[Any], Any] = ServeStaticMiddleware(get_response)
        return made
    return get_response
