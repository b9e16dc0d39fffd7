"""What the submit form begins with, and where each of its values comes from."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from django.conf import settings
from django.contrib.auth.models import User
from django.utils.translation import gettext as _

from jobs.models import Task, Template

PLATFORM: dict[str, Any] = {"host_num": 1, "host_gpu_num": 1, "is_elasticity": False}
FROM_LAST = ("business_flag", "is_elasticity", "image_full_name")  # what people keep from task to task


@dataclass(slots=True)
class Start:
    """The first document, and by field a sentence on its value."""

    document: dict[str, Any] = field(default_factory=dict)
    origins: dict[str, str] = field(default_factory=dict)

    def lay(self, values: Mapping[str, Any], origin: str) -> None:
        """Put values over those that stand there."""
        self.document |= values
        self.origins |= dict.fromkeys(values, origin)

    def leave_out_foreign(self, businesses: Sequence[str], said: str) -> None:
        """Take out a business that is none of the user's, and say so in its place."""
        if "business_flag" in self.document and self.document["business_flag"] not in businesses:
            del self.document["business_flag"]
            self.origins["business_flag"] = said


def copy_of(task: Task, businesses: Sequence[str]) -> Start:
    """Return the document of a task that is copied."""
    start = Start()
    start.lay(task.config, _("From task #%(id)d.") % {"id": task.pk})
    start.leave_out_foreign(businesses, _("The task's business is not yours; choose one."))
    return start


def begin(
    user: User, businesses: Sequence[str], template: Template | None, clicked: Mapping[str, Any]
) -> Start:
    """Return what a new form begins with: each source goes before those above it."""
    start = Start()
    start.lay(PLATFORM, _("Default of the platform."))
    if businesses:
        only = _("Your only business.") if len(businesses) == 1 else _("The first of your businesses.")
        start.lay({"business_flag": businesses[0]}, only)
    _lay_last(start, user, businesses)
    if template:
        start.lay(template.config, _("From the template “%(name)s”.") % {"name": template.name})
        start.leave_out_foreign(businesses, _("The template's business is not yours; choose one."))
    if clicked:
        start.lay(clicked, _("From the free cards that you clicked."))
    return start


def _lay_last(start: Start, user: User, businesses: Sequence[str]) -> None:
    last = Task.objects.filter(user=user).order_by("-pk").values_list("pk", "config").first()
    if last is None:
        return
    pk, config = last
    values = {name: config[name] for name in FROM_LAST if name in config}
    if values.get("business_flag") in businesses:  # else nothing of it may fit any more
        start.lay(values, _("As in your last task, #%(id)d.") % {"id": pk})


def image() -> str:
    """Return what a task runs in where its form names no image."""
    if settings.DEFAULT_IMAGE:
        return _("Blank: %(image)s, as operators chose.") % {"image": settings.DEFAULT_IMAGE}
    return _("Blank: none, the task runs on the host itself.")
