"""Addresses of the pages."""

from django.contrib.auth import views as auth
from django.urls import path

from jobs.portal import (
    bulk,
    export,
    home,
    listing,
    log_page,
    scheduler,
    submitting,
    task_page,
    template_list,
    views,
)

urlpatterns = [
    path("", home.home, name="home"),
    path("login/", auth.LoginView.as_view(redirect_authenticated_user=True), name="login"),
    path("logout/", auth.LogoutView.as_view(), name="logout"),
    path("scheduler/", scheduler.scheduler, name="scheduler"),
    path("tasks/", listing.tasks, name="tasks"),
    path("tasks/csv/", export.export, name="tasks-csv"),
    path("tasks/bulk/", bulk.bulk, name="bulk"),
    path("tasks/views/", views.save, name="save-view"),
    path("tasks/views/<int:pk>/remove/", views.remove, name="remove-view"),
    path("tasks/new/", submitting.submit, name="submit"),
    path("tasks/new/preview/", submitting.preview, name="preview"),
    path("tasks/new/fill/", submitting.fill, name="fill"),
    path("templates/", template_list.templates, name="templates"),
    path("templates/<int:pk>/remove/", template_list.remove_template, name="remove-template"),
    path("tasks/<int:pk>/", task_page.task, name="task"),
    path("tasks/<int:pk>/log/", log_page.log, name="task-log"),
    path("tasks/<int:pk>/<slug:verb>/", task_page.act, name="act"),
]
