"""Addresses of the API, all below /api/v1/."""

from django.urls import path, re_path
from drf_spectacular.views import SpectacularAPIView, SpectacularSwaggerSplitView

from cluster import host_states
from jobs import many
from jobs.api import (
    audit,
    bulk,
    businesses,
    cards,
    events,
    files,
    hosts,
    inventory,
    logs,
    members,
    passwords,
    reservations,
    scheduler,
    tasks,
    templates,
    tokens,
    uploads,
    usage,
    what_ifs,
)
from jobs.api.errors import NotFound
from jobs.services import STEERING

urlpatterns = [
    path("tasks/", tasks.Tasks.as_view(), name="api-tasks"),
    path("tasks/csv/", files.TaskFile.as_view(), name="api-tasks-csv"),
    path("tasks/preview/", tasks.Preview.as_view(), name="api-preview"),
    path("tasks/bulk/", bulk.Submit.as_view(), name="api-bulk-submit"),
    *(
        path(f"tasks/bulk/{verb}/", bulk.Steer.as_view(verb=verb), name=f"api-bulk-{verb}")
        for verb in many.VERBS
    ),
    path("tasks/<int:pk>/", tasks.OneTask.as_view(), name="api-task"),
    *(
        path(f"tasks/<int:pk>/{verb}/", tasks.Steer.as_view(verb=verb), name=f"api-{verb}")
        for verb in STEERING
    ),
    path("tasks/<int:pk>/retry/", tasks.Retry.as_view(), name="api-retry"),
    path("tasks/<int:pk>/cards/", cards.Cards.as_view(), name="api-task-cards"),
    path("tasks/<int:pk>/events/", events.Events.as_view(), name="api-task-events"),
    path("tasks/<int:pk>/log/", logs.Log.as_view(), name="api-log"),
    path("tasks/<int:pk>/log/search/", logs.Search.as_view(), name="api-log-search"),
    path("uploads/<str:digest>/", uploads.Uploads.as_view(), name="api-upload"),
    path("models/", uploads.Models.as_view(), name="api-models"),
    path("datasets/", uploads.Datasets.as_view(), name="api-datasets"),
    path("scheduler/", scheduler.Scheduler.as_view(), name="api-scheduler"),
    path("free-cards/", inventory.FreeCards.as_view(), name="api-free-cards"),
    path("free-cards/history/", inventory.FreeCardsHistory.as_view(), name="api-free-cards-history"),
    path("hosts/", inventory.Hosts.as_view(), name="api-hosts"),
    path("hosts/<int:pk>/", inventory.OneHost.as_view(), name="api-host"),
    path("hosts/<int:pk>/events/", hosts.Events.as_view(), name="api-host-events"),
    *(
        path(f"hosts/<int:pk>/{verb}/", hosts.Steer.as_view(verb=verb), name=f"api-host-{verb}")
        for verb in host_states.VERBS
    ),
    path("me/", businesses.Me.as_view(), name="api-me"),
    path("me/password/", passwords.Password.as_view(), name="api-password"),
    path("quotas/", businesses.Quotas.as_view(), name="api-quotas"),
    path("businesses/", businesses.Businesses.as_view(), name="api-businesses"),
    path("businesses/<int:pk>/members/", members.Members.as_view(), name="api-members"),
    path("businesses/<int:pk>/members/<str:user>/", members.OneMember.as_view(), name="api-member"),
    path("businesses/<int:pk>/usage/", usage.Usage.as_view(), name="api-usage"),
    path("businesses/<int:pk>/usage/csv/", files.UsageFile.as_view(), name="api-usage-csv"),
    path("audit/", audit.Audit.as_view(), name="api-audit"),
    path("audit/csv/", audit.AuditFile.as_view(), name="api-audit-csv"),
    path("reservations/", reservations.Reservations.as_view(), name="api-reservations"),
    path("reservations/<int:pk>/", reservations.OneReservation.as_view(), name="api-reservation"),
    path("tokens/", tokens.Tokens.as_view(), name="api-tokens"),
    path("tokens/<int:pk>/", tokens.OneToken.as_view(), name="api-token"),
    path("templates/", templates.Templates.as_view(), name="api-templates"),
    path("templates/<int:pk>/", templates.OneTemplate.as_view(), name="api-template"),
    path("views/", templates.Views.as_view(), name="api-views"),
    path("views/<int:pk>/", templates.OneView.as_view(), name="api-view"),
    path("what-ifs/", what_ifs.WhatIfs.as_view(), name="api-what-ifs"),
    path("what-ifs/<int:pk>/", what_ifs.OneWhatIf.as_view(), name="api-what-if"),
    path("what-ifs/<int:pk>/call-off/", what_ifs.CallOff.as_view(), name="api-what-if-call-off"),
    path("what-ifs/<int:pk>/apply/", what_ifs.Apply.as_view(), name="api-what-if-apply"),
    path("schema/", SpectacularAPIView.as_view(), name="api-schema"),
    # The split view and a page of ours: its script and style are files of their own, as the content policy wants it.
    path(
        "docs/",
        SpectacularSwaggerSplitView.as_view(
            url_name="api-schema", template_name="api_docs.html", content_negotiation_class=files.OneForm
        ),
        name="api-docs",
    ),
    re_path(r"", NotFound.as_view()),
]
