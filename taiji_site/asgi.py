"""The ASGI application: pages and API by Django, sockets by Channels."""

import os
from typing import cast

from channels.auth import AuthMiddlewareStack
from channels.routing import ProtocolTypeRouter, URLRouter
from channels.security.websocket import AllowedHostsOriginValidator
from django.core.asgi import get_asgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "taiji_site.settings")
django_application = get_asgi_application()

# The consumers import models, which are there only from here on.
from cluster import lane  # noqa: E402
from jobs.api import upload_door  # noqa: E402
from jobs.portal.routing import websocket_urlpatterns  # noqa: E402

application = ProtocolTypeRouter(
    {
        "http": lane.before(upload_door.before(cast("lane.Application", django_application))),
        "websocket": AllowedHostsOriginValidator(AuthMiddlewareStack(URLRouter(websocket_urlpatterns))),
    }
)
