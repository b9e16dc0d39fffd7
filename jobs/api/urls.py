"""Addresses of the API, all below /api/v1/."""

from django.urls import path, re_path
from drf_spectacular.views import SpectacularAPIView, SpectacularSwaggerSplitView

from cluster import host_states
from jobs.api import cards, hosts, inventory, logs, scheduler, tasks, uploads
from jobs.api.errors import NotFound
from jobs.services import STEERING

urlpatterns = [
    path("tasks/", tasks.Tasks.as_view(), name="api-tasks"),
    path("tasks/preview/", tasks.Preview.as_view(), name="api-preview"),
    path("tasks/<int:pk>/", tasks.OneTask.as_view(), name="api-task"),
    *(
        path(f"tasks/<int:pk>/{verb}/", tasks.Steer.as_view(verb=verb), name=f"api-{verb}")
        for verb in STEERING
    ),
    path("tasks/<int:pk>/retry/", tasks.Retry.as_view(), name="api-retry"),
    path("tasks/<int:pk>/cards/", cards.Cards.as_view(), name="api-task-cards"),
    path("tasks/<int:pk>/log/", logs.Log.as_view(), name="api-log"),
    path("tasks/<int:pk>/log/search/", logs.Search.as_view(), name="api-log-search"),
    path("uploads/<str:digest>/", uploads.Uploads.as_view(), name="api-upload"),
    path("models/", uploads.Models.as_view(), name="api-models"),
    path("datasets/", uploads.Datasets.as_view(), name="api-datasets"),
    path("scheduler/", scheduler.Scheduler.as_view(), name="api-scheduler"),
    path("free-cards/", inventory.FreeCards.as_view(), name="api-free-cards"),
    path("hosts/", inventory.Hosts.as_view(), name="api-hosts"),
    path("hosts/<int:pk>/events/", hosts.Events.as_view(), name="api-host-events"),
    *(
        path(f"hosts/<int:pk>/{verb}/", hosts.Steer.as_view(verb=verb), name=f"api-host-{verb}")
        for verb in host_states.VERBS
    ),
    path("quotas/", inventory.Quotas.as_view(), name="api-quotas"),
    path("businesses/", inventory.Businesses.as_view(), name="api-businesses"),
    path("templates/", inventory.Templates.as_view(), name="api-templates"),
    path("schema/", SpectacularAPIView.as_view(), name="api-schema"),
    # The split view: the page's script is a file of its own, as the content policy wants it.
    path("docs/", SpectacularSwaggerSplitView.as_view(url_name="api-schema"), name="api-docs"),
    re_path(r"", NotFound.as_view()),
]
