"""Every address of the product."""

from django.contrib import admin
from django.urls import URLPattern, URLResolver, include, path
from django.utils.translation import gettext_lazy as _

from taiji_site import health

admin.site.site_header = admin.site.site_title = "Taiji"
admin.site.index_title = _("Operations")

urlpatterns: list[URLPattern | URLResolver] = [
    path("healthz/", health.healthz, name="healthz"),
    path("admin/", admin.site.urls),
    path("api/agent/", include("cluster.urls")),
    path("api/v1/", include("jobs.api.urls")),
    path("i18n/", include("django.conf.urls.i18n")),
    path("", include("jobs.portal.urls")),
]
