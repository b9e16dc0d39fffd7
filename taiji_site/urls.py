"""Every address of the product."""

from django.contrib import admin
from django.templatetags.static import static
from django.urls import URLPattern, URLResolver, include, path
from django.views.generic import RedirectView

from cluster import mpijob_door
from taiji_site import health

urlpatterns: list[URLPattern | URLResolver] = [
    # Browsers ask for it where a page names none, such as an answer of the API.
    path("favicon.ico", RedirectView.as_view(url=static("img/taiji.svg"))),
    path("healthz/", health.healthz, name="healthz"),
    path("admin/", admin.site.urls),
    path("api/agent/", include("cluster.urls")),
    path("kubernetes/admission/mpijobs/", mpijob_door.review, name="mpijob-review"),
    path("api/v1/", include("jobs.api.urls")),
    path("i18n/", include("django.conf.urls.i18n")),
    path("", include("jobs.portal.urls")),
]

handler400 = "taiji_site.refusals.bad_request"
handler404 = "taiji_site.refusals.not_found"
