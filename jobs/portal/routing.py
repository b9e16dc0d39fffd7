"""Addresses of the sockets."""

from django.urls import path

from jobs.portal.live import Live

websocket_urlpatterns = [path("ws/live/", Live.as_asgi())]
