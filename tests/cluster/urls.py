"""The agents' addresses, where the site mounts them."""

from django.urls import include, path

urlpatterns = [path("api/agent/", include("cluster.urls"))]
