"""Tasks, attempts and what tasks bring along to look at, the policy and the templates to edit, for operators."""

import json
from typing import Any, cast

from django import forms
from django.conf import settings
from django.contrib import admin
from django.contrib.auth.models import User
from django.db.models import Model, Q, QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from cluster import clock, hints, in_use
from cluster.admin import ReadOnlyAdmin
from cluster.kept_admin import KeepsHistory, ReasonForm
from cluster.large_admin import Large, ShortPaginator
from cluster.models import GpuType
from jobs import document, filters, old_sources, priorities
from jobs.admin_filters import OpenByClass, OpenOrEvicted
from jobs.materials import Code, Dataset, Source, Upload
from jobs.models import Attempt, Policy, Priority, Task, Template
from jobs.policy_fields import DEFAULTS, policy_field
from jobs.scheduling import policy
from jobs.states import ACTIVE, WAITING
from quotas import access
from quotas.models import Business

NUMBER_DIGITS = 19  # so many no id has


def open_tasks_naming(gpu_type: Model) -> QuerySet[Model]:
    """Return the tasks that are not over and would take cards of the type, which stands in a list and is no key."""
    still = Task.objects.filter(state__in=WAITING | ACTIVE)
    return still.filter(filters.holding("gpu_types", "$", (gpu_type.pk,)))


in_use.ALSO[GpuType] = [open_tasks_naming]


def _as_json(value: object) -> SafeString:
    return format_html("<pre>{}</pre>", json.dumps(value, indent=2, ensure_ascii=False))


@admin.register(Task)
class TaskAdmin(Large, ReadOnlyAdmin):
    """Tasks: their owners and leads steer them on their pages."""

    list_display = (
        "id",
        "task_flag",
        "business",
        "user",
        "wanted_class",
        "state",
        "submitted_at",
        "ended_at",
    )
    list_filter = ("state", OpenByClass)
    sortable_by = ("id",)
    list_select_related = ("business", "user")
    search_fields = ("=id",)  # and what get_search_results adds
    search_help_text = _("A number, or the whole name of a business or a user. The portal's list finds more.")
    actions = ("set_low", "set_medium", "set_high")
    fields = (
        *("id", "task_flag", "business", "user", "origin", "wanted_class", "state", "reason_code", "region"),
        *("host_num", "host_gpu_num", "priority", "submitted_at", "queued_at", "ready_at", "ended_at"),
        *("document", "page"),
    )

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Task], search_term: str
    ) -> tuple[QuerySet[Task], bool]:
        """Find tasks by what has an index: their number, business and user."""
        term = search_term.strip()
        if not term:
            return queryset, False
        if term.isdecimal() and len(term) < NUMBER_DIGITS:
            return queryset.filter(pk=int(term)), False
        # Looked up first: a choice between two queries of other tables is made by reading every task.
        found = Q(pk=None)
        if business := Business.objects.filter(flag=term).first():
            found |= Q(business=business)
        if user := User.objects.filter(username=term).first():
            found |= Q(user=user)
        return queryset.filter(found), False

    def has_steer_permission(self, request: HttpRequest) -> bool:
        """Let operators."""
        return access.is_operator(request.user)

    @admin.action(description=_("Set the priority to low"), permissions=["steer"])
    def set_low(self, request: HttpRequest, chosen: QuerySet[Task]) -> None:
        """Let them come later than others of their business."""
        self._prioritise(request, chosen, Priority.LOW)

    @admin.action(description=_("Set the priority to medium"), permissions=["steer"])
    def set_medium(self, request: HttpRequest, chosen: QuerySet[Task]) -> None:
        """Let them come as most do."""
        self._prioritise(request, chosen, Priority.MEDIUM)

    @admin.action(description=_("Set the priority to high"), permissions=["steer"])
    def set_high(self, request: HttpRequest, chosen: QuerySet[Task]) -> None:
        """Let them come before others of their business."""
        self._prioritise(request, chosen, Priority.HIGH)

    def _prioritise(self, request: HttpRequest, chosen: QuerySet[Task], priority: Priority) -> None:
        ids = set(chosen.values_list("pk", flat=True))
        changed = priorities.give(ids, priority, cast(User, request.user))
        said = gettext("Changed: %(changed)d.") % {"changed": len(changed)}
        if left := len(ids - changed):
            said += " " + gettext("Left alone: %(left)d, which do not wait or had it already.") % {
                "left": left
            }
        self.message_user(request, said)

    @admin.display(description=_("config"))
    def document(self, task: Task) -> SafeString:
        """Return the config, which holds no secrets."""
        return _as_json(task.config)

    @admin.display(description=_("page"))
    def page(self, task: Task) -> SafeString:
        """Return the way to the task's page."""
        return format_html('<a href="{}">{}</a>', reverse("task", args=[task.pk]), task)


@admin.register(Attempt)
class AttemptAdmin(Large, ReadOnlyAdmin):
    """Attempts."""

    list_display = ("task", "number", "task_class", "gpu_type", "cards", "created_at", "ended_at", "outcome")
    list_filter = (OpenOrEvicted, "gpu_type")
    list_select_related = ("task", "gpu_type")
    search_fields = ("=task__id",)  # as get_search_results does
    search_help_text = _("The number of a task.")
    ordering = ("-pk",)
    fields = (
        *list_display,
        *("running_at", "keep_until", "ending", "ending_code", "ending_at", "outcome_code"),
        *("evicted_for", "evict_rule"),
    )

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Attempt], search_term: str
    ) -> tuple[QuerySet[Attempt], bool]:
        """Find the attempts of a task by its number; as a number, since its text has no index."""
        term = search_term.strip()
        if not term:
            return queryset, False
        is_number = term.isdecimal() and len(term) < NUMBER_DIGITS
        return queryset.filter(task=int(term)) if is_number else queryset.none(), False


@admin.register(Upload)
class UploadAdmin(ReadOnlyAdmin):
    """Packed code that members sent; what nobody uses goes by itself."""

    list_display = ("digest", "business", "user", "size", "created_at", "used_at")
    paginator = ShortPaginator
    list_select_related = ("business", "user")
    search_fields = ("digest", "business__flag", "user__username")
    fields = list_display


class SourceAdmin(ReadOnlyAdmin):
    """Something that tasks name by number; whether it has secrets is shown, what they are is not."""

    list_display: tuple[str, ...] = ("id", "name", "business", "user", "has_secrets", "created_at")
    list_select_related = ("business", "user")
    search_fields = ("=id", "name", "business__flag", "user__username")
    actions = ("remove_unneeded",)

    def has_remove_permission(self, request: HttpRequest) -> bool:
        """Let operators."""
        return access.is_operator(request.user)

    @admin.action(description=_("Remove those that no task needs"), permissions=["remove"])
    def remove_unneeded(self, request: HttpRequest, chosen: QuerySet[Source]) -> None:
        """Remove what neither a live nor a recent task nor a template needs; the others stay."""
        gone, stayed = old_sources.remove(chosen, clock.now(), by=cast(User, request.user))
        said = gettext("Removed: %(gone)d.") % {"gone": gone}
        if stayed:
            said += " " + gettext(
                "Kept: %(stayed)d, which a template names, or a task that is not over or ended in the last "
                "%(days)d days."
            ) % {"stayed": stayed, "days": settings.UPLOAD_KEEP_DAYS}
        self.message_user(request, said)

    def get_fields(self, request: HttpRequest, obj: Source | None = None) -> tuple[str, ...]:
        """Show what the list does, and where it lies."""
        return (*self.list_display, "place")

    @admin.display(description=_("secrets"), boolean=True)
    def has_secrets(self, source: Source) -> bool:
        """Say whether it has any."""
        return bool(source.secrets)

    @admin.display(description=_("place"))
    def place(self, source: Source) -> SafeString:
        """Return where it lies, which holds no secrets."""
        return _as_json(source.params)


@admin.register(Code)
class CodeAdmin(SourceAdmin):
    """Code by its number, `model_id`."""

    list_display = ("id", "kind", *SourceAdmin.list_display[1:])
    list_filter = ("kind",)


@admin.register(Dataset)
class DatasetAdmin(SourceAdmin):
    """Data by its number, `dataset_id`."""


class PolicyForm(ReasonForm):
    """One field per key; a blank one means the default."""

    class Meta:
        model = Policy
        fields = ()

    field_order = (*DEFAULTS, "reason", "seen")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Make the fields from the scheduler's own list."""
        super().__init__(*args, **kwargs)
        for key, default in DEFAULTS.items():
            self.fields[key] = policy_field(key, default)
            self.initial[key] = self.instance.values.get(key)

    def clean(self) -> dict[str, Any]:
        """Let the scheduler check each value."""
        cleaned = super().clean() or self.cleaned_data
        self.instance.values = {}
        for key in DEFAULTS:
            if (value := cleaned.get(key)) not in (None, ""):
                try:
                    self.instance.values[key] = policy.check(key, value)
                except ValueError as error:
                    self.add_error(key, str(error))
        return cleaned


@admin.register(Policy)
class PolicyAdmin(KeepsHistory):
    """The one policy."""

    form = PolicyForm

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> list[Any]:
        """Show every key; the framework knows only the model's fields."""
        return [(None, {"fields": [*DEFAULTS, "reason", "seen"]})]

    def get_form(self, request: HttpRequest, obj: Any = None, change: bool = False, **kwargs: Any) -> Any:
        """Return the form as it is: its fields are made when it is."""
        return PolicyForm

    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> HttpResponse:
        """Go straight to the one row, which is made at the first look."""
        Policy.objects.get_or_create(pk=1)
        return HttpResponseRedirect(reverse("admin:jobs_policy_change", args=[1]))

    def has_add_permission(self, request: HttpRequest) -> bool:
        """Nobody: there is one."""
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        """Nobody: there is one."""
        return False

    def save_model(self, request: HttpRequest, obj: Policy, form: Any, change: bool) -> None:
        """Let the next pass follow it now."""
        super().save_model(request, obj, form, change)
        hints.wake_pass()


class TemplateForm(forms.ModelForm):
    """A template is a config document that may lack what each user fills in."""

    def clean_config(self) -> dict[str, Any]:
        """Refuse what no task could have, and secrets: a template is shown to everyone."""
        normal = document.normalise(self.cleaned_data["config"])
        messages = [
            f"{fault.field}: {fault.message}" if fault.field else fault.message for fault in normal.faults
        ]
        if normal.token or any(normal.secrets.values()):
            messages.append(gettext("A template holds no secrets: leave their values out."))
        if messages:
            raise forms.ValidationError(messages)
        given: dict[str, Any] = self.cleaned_data["config"]
        return given


@admin.register(Template)
class TemplateAdmin(admin.ModelAdmin):
    """Templates."""

    form = TemplateForm
    list_display = ("name", "business", "user", "description")
    list_select_related = ("business", "user")
    search_fields = ("name", "description", "business__flag")
    autocomplete_fields = ("business", "user")
    show_full_result_count = False
