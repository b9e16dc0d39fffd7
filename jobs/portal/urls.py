"""Addresses of the pages."""

from django.contrib.auth import views as auth
from django.urls import path

from jobs.portal import home, listing, submitting, task_page

urlpatterns = [
    path("", home.home, name="home"),
    path("login/", auth.LoginView.as_view(redirect_authenticated_user=True), name="login"),
    path("logout/", auth.LogoutView.as_view(), name="logout"),
    path("tasks/", listing.tasks, name="tasks"),
    path("tasks/new/", submitting.submit, name="submit"),
    path("tasks/new/preview/", submitting.preview, name="preview"),
    path("tasks/<int:pk>/", task_page.task, name="task"),
    path("tasks/<int:pk>/<slug:verb>/", task_page.act, name="act"),
]
