"""Businesses, their members and quotas, and the keys to the API, for operators."""

from typing import Any

from django.contrib import admin
from django.db.models import Model, QuerySet
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.utils.translation import gettext_lazy as _

from cluster import hints
from quotas.access import is_operator
from quotas.models import ApiToken, Business, DefaultGpuType, Member, Quota, Reservation, digest


class MemberInline(admin.TabularInline):
    """Who belongs to a business."""

    model = Member
    autocomplete_fields = ("user",)
    extra = 0


class DefaultGpuTypeInline(admin.TabularInline):
    """Which types a task of the business tries where it names none."""

    model = DefaultGpuType
    extra = 0


class QuotaInline(admin.TabularInline):
    """How many cards the business may hold."""

    model = Quota
    extra = 0


@admin.register(Business)
class BusinessAdmin(admin.ModelAdmin):
    """Businesses; one whose tasks are known cannot be deleted."""

    inlines = (QuotaInline, DefaultGpuTypeInline, MemberInline)
    list_display = ("flag", "name", "quota_in_short")
    search_fields = ("flag", "name")

    def get_queryset(self, request: HttpRequest) -> QuerySet[Business]:
        """Read the quotas of all rows in one query."""
        return super().get_queryset(request).prefetch_related("quotas__gpu_type", "quotas__region")

    @admin.display(description=_("quota"))
    def quota_in_short(self, business: Business) -> str:
        """Return the quotas in one line."""
        quotas = business.quotas.all()
        return ", ".join(f"{q.gpu_type} {q.cards}{f' ({q.region})' if q.region else ''}" for q in quotas)

    def save_related(self, request: HttpRequest, form: Any, formsets: Any, change: bool) -> None:
        """Let the next pass see new quotas now."""
        super().save_related(request, form, formsets, change)
        hints.wake_pass()


@admin.register(Quota)
class QuotaAdmin(admin.ModelAdmin):
    """Quotas. Lowering one under what runs ends nothing."""

    list_display = ("business", "gpu_type", "region", "cards", "elastic_cards", "user_elastic_cards")
    list_filter = ("gpu_type", "region")
    list_select_related = ("business", "gpu_type", "region")
    search_fields = ("business__flag", "business__name")
    autocomplete_fields = ("business",)

    def save_model(self, request: HttpRequest, obj: Quota, form: Any, change: bool) -> None:
        """Let the next pass see it now."""
        super().save_model(request, obj, form, change)
        hints.wake_pass()


@admin.register(Reservation)
class ReservationAdmin(admin.ModelAdmin):
    """Cards kept for a business. They go before the guarantee of others, and grant no quota."""

    list_display = ("business", "gpu_type", "region", "cards", "kind", "starts_at", "ends_at", "note")
    list_filter = ("kind", "gpu_type", "region")
    list_select_related = ("business", "gpu_type", "region")
    search_fields = ("business__flag", "note")
    autocomplete_fields = ("business",)

    def save_model(self, request: HttpRequest, obj: Reservation, form: Any, change: bool) -> None:
        """Let the next pass see it now."""
        super().save_model(request, obj, form, change)
        hints.wake_pass()


@admin.register(ApiToken)
class ApiTokenAdmin(admin.ModelAdmin):
    """Keys to the API: made here, shown once, ended by deleting them."""

    fields = ("user", "name")
    list_display = ("name", "user", "created_at")
    list_select_related = ("user",)
    search_fields = ("name", "user__username")
    autocomplete_fields = ("user",)

    def has_add_permission(self, request: HttpRequest) -> bool:
        """Only operators: whoever makes a token for somebody can act as him."""
        return is_operator(request.user)

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        """Nobody: a token that changed hands would be somebody else's key."""
        return False

    def save_model(self, request: HttpRequest, obj: ApiToken, form: Any, change: bool) -> None:
        """Make the token; its text goes to this answer alone."""
        secret = ApiToken.objects.issue(obj.user, obj.name)
        obj.pk = ApiToken.objects.get(digest=digest(secret)).pk
        obj.secret = secret  # type: ignore[attr-defined]  # for response_add

    def response_add(
        self, request: HttpRequest, obj: ApiToken, post_url_continue: str | None = None
    ) -> HttpResponse:
        """Show the token, in a page that is kept nowhere."""
        context = {**self.admin_site.each_context(request), "title": _("The new token"), "opts": self.opts}
        context |= {"token": obj, "secret": obj.secret}  # type: ignore[attr-defined]  # set by save_model
        return TemplateResponse(request, "admin/quotas/apitoken/issued.html", context)
