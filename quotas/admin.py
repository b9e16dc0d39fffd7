"""Businesses, their members and quotas, for operators."""

from typing import Any, ClassVar

from django import forms
from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy as _

from cluster import hints
from cluster.careful_admin import CarefulTable
from cluster.kept_admin import AsksWhyDeleted, KeepsHistory, ReasonForm, RefusesInUse
from quotas import audit_admin, identity_admin, reservation_admin  # noqa: F401  # they register theirs
from quotas.exchange import Exchange
from quotas.models import Business, DefaultGpuType, Member, Quota
from quotas.resources import BusinessTable, MemberTable, QuotaTable

MEMBERS_INLINE = 100  # more of them have their own list: a form takes so many fields, and nobody reads more


class MemberInline(CarefulTable):
    """Who belongs to a business."""

    model = Member
    autocomplete_fields = ("user",)
    extra = 0


class DefaultGpuTypeInline(CarefulTable):
    """Which types a task of the business tries where it names none."""

    model = DefaultGpuType
    autocomplete_fields = ("gpu_type",)
    extra = 0


class QuotaForm(ReasonForm):
    """How many cards, and why."""

    class Meta:
        model = Quota
        fields = ("business", "gpu_type", "region", "cards", "elastic_cards", "user_elastic_cards")


class BusinessForm(forms.ModelForm):
    """A business; what its flag may be stands under it before it is refused."""

    class Meta:
        model = Business
        fields = ("flag", "name")
        help_texts: ClassVar = {
            "flag": _("What tasks say; without / and \\, and without a dot or a blank at its beginning.")
        }


class QuotaInline(CarefulTable):
    """How many cards the business may hold; a row is deleted on its own page, with a reason."""

    model = Quota
    form = QuotaForm
    autocomplete_fields = ("gpu_type", "region")
    can_delete = False
    show_change_link = True
    extra = 0


@admin.register(Business)
class BusinessAdmin(Exchange, RefusesInUse, KeepsHistory):
    """Businesses; one whose tasks are known cannot be deleted. A renamed one keeps all that it has."""

    form = BusinessForm
    resource_classes = (BusinessTable,)
    inlines = (QuotaInline, DefaultGpuTypeInline, MemberInline)
    list_display = ("flag", "name", "quota_in_short")
    search_fields = ("flag", "name")
    readonly_fields = ("page", "members_list")
    show_full_result_count = False

    def get_fields(self, request: HttpRequest, obj: Any = None) -> tuple[str, ...]:
        """Lead to what it uses, once it is there."""
        return ("flag", "name", *(self.readonly_fields if obj else ()))

    def get_inlines(self, request: HttpRequest, obj: Any) -> tuple[Any, ...]:
        """Leave the members of a large business to their own list."""
        many = obj is not None and Member.objects.filter(business=obj)[: MEMBERS_INLINE + 1].count()
        return self.inlines[:-1] if many and many > MEMBERS_INLINE else self.inlines

    @admin.display(description=_("page"))
    def page(self, business: Business) -> SafeString:
        """Lead to the page of the business."""
        return format_html('<a href="{}">{}</a>', reverse("business", args=[business.pk]), business)

    @admin.display(description=_("members"))
    def members_list(self, business: Business) -> SafeString:
        """Lead to the list of all its members."""
        address = f"{reverse('admin:quotas_member_changelist')}?business__id__exact={business.pk}"
        return format_html('<a href="{}">{}</a>', address, _("all members"))

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
class QuotaAdmin(Exchange, AsksWhyDeleted):
    """Quotas. Lowering one under what runs ends nothing, nor does deleting it."""

    form = QuotaForm
    resource_classes = (QuotaTable,)
    fields = (*QuotaForm.Meta.fields, "reason", "seen")
    list_display = ("business", "gpu_type", "region", "cards", "elastic_cards", "user_elastic_cards")
    list_filter = ("gpu_type", "region")
    list_select_related = ("business", "gpu_type", "region")
    search_fields = ("business__flag", "business__name")
    autocomplete_fields = ("business", "gpu_type", "region")
    show_full_result_count = False

    def save_model(self, request: HttpRequest, obj: Quota, form: Any, change: bool) -> None:
        """Let the next pass see it now."""
        super().save_model(request, obj, form, change)
        hints.wake_pass()


@admin.register(Member)
class MemberAdmin(Exchange, KeepsHistory):
    """Who belongs to which business."""

    resource_classes = (MemberTable,)
    fields = ("business", "user", "role")
    list_display = ("user", "business", "role", "provider")
    list_filter = ("role",)
    list_select_related = ("user", "business")
    search_fields = ("user__username", "business__flag", "business__name")
    autocomplete_fields = ("user", "business")
    show_full_result_count = False

    def lookup_allowed(self, lookup: str, value: Any, request: HttpRequest) -> bool:
        """Let the page of a business lead to its members."""
        return lookup == "business__id__exact" or super().lookup_allowed(lookup, value, request)

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[Member]) -> None:
        """Remove the chosen ones one by one: each ends what it opened."""
        for member in queryset:
            member.delete()

    def save_model(self, request: HttpRequest, obj: Member, form: Any, change: bool) -> None:
        """Keep what operators decide: the identity provider changes it no more."""
        obj.provider = False
        super().save_model(request, obj, form, change)
