"""Addresses for agents, mounted at /api/agent/."""

from django.urls import path

from cluster import agent_api

urlpatterns = [
    path("register/", agent_api.register),
    path("sync/", agent_api.sync_host),
    path("instances/<uuid:instance>/log/", agent_api.append_log),
    path("code/<str:digest>/", agent_api.packed_code),
]
