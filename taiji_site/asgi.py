"""The ASGI application: pages and API by Django, sockets by Channels."""

import os
import sys
from typing import cast

from channels.auth import AuthMiddlewareStack
from channels.routing import ProtocolTypeRouter, URLRouter
from django.core.asgi import get_asgi_application

# The loop gives the interpreter away at each write, and would wait 5 ms to get it back from a thread that renders: of
# a thousand messages to open pages the last would be seconds late.
sys.setswitchinterval(0.0005)
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "taiji_site.settings")
django_application = get_asgi_application()

# The consumers import models, which are there only from here on.
from cluster import lane  # noqa: E402
from jobs.api import lane as api_lane  # noqa: E402
from jobs.api import upload_door  # noqa: E402
from jobs.portal import crowd, live, parts  # noqa: E402
from jobs.portal.routing import websocket_urlpatterns  # noqa: E402
from taiji_site import garbage, page_origins  # noqa: E402

routes = ProtocolTypeRouter(
    {
        "http": lane.before(
            crowd.before(
                parts.before(
                    api_lane.before(upload_door.before(cast("lane.Application", django_application)))
                )
            )
        ),
        "websocket": page_origins.only(live.straight(AuthMiddlewareStack(URLRouter(websocket_urlpatterns)))),
    }
)
application = garbage.in_calm(cast("lane.Application", routes))
