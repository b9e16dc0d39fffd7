"""Regions, GPU types, hosts and cards for operators."""

from typing import Any

from django import forms
from django.contrib import admin, messages
from django.db.models import Count, ForeignObjectRel, Model, Q, QuerySet
from django.http import HttpRequest
from django.utils import timezone
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _

from cluster import hints
from cluster.models import Card, GpuType, Host, Region


class ReadOnlyAdmin(admin.ModelAdmin):
    """Rows that only the platform writes."""

    show_full_result_count = False

    def has_add_permission(self, request: HttpRequest) -> bool:
        """Nobody."""
        return False

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        """Nobody."""
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        """Nobody."""
        return False


def is_used(row: Model) -> bool:
    """Say whether any other row names this one; deleting it would take them along or fail half-way."""
    return any(
        relation.related_model._default_manager.filter(**{relation.field.name: row.pk}).exists()
        for relation in row._meta.get_fields(include_hidden=True)
        if isinstance(relation, ForeignObjectRel)
    )


@admin.register(Region)
class RegionAdmin(admin.ModelAdmin):
    """Regions."""

    list_display = ("name", "hosts_here")
    search_fields = ("name",)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Region]:
        """Count the hosts in the same query."""
        here = ~Q(hosts__state=Host.State.REMOVED)
        rows: QuerySet[Region] = super().get_queryset(request).annotate(number=Count("hosts", filter=here))
        return rows

    @admin.display(description=_("hosts"), ordering="number")
    def hosts_here(self, region: Any) -> int:
        """Return how many hosts stand there."""
        return int(region.number)

    def has_delete_permission(self, request: HttpRequest, obj: Region | None = None) -> bool:
        """Only while nothing stands there."""
        return super().has_delete_permission(request, obj) and not (obj and is_used(obj))


class GpuTypeForm(forms.ModelForm):
    """A type's name must not mean another type."""

    def clean(self) -> dict[str, Any] | None:
        """Refuse names that another type has or had."""
        cleaned = super().clean() or self.cleaned_data
        aliases = cleaned.get("aliases") or []
        if not isinstance(aliases, list) or not all(isinstance(alias, str) and alias for alias in aliases):
            self.add_error("aliases", gettext('Write a list of names, such as ["P40", "Tesla P40"].'))
            return cleaned
        taken = GpuType.objects.exclude(pk=self.instance.pk).by_name()
        for field, name in [("name", cleaned.get("name", "")), *(("aliases", alias) for alias in aliases)]:
            if "," in name or "，" in name:
                self.add_error(field, gettext("A name has no comma: commas stand between names."))
            if other := taken.get(name.casefold()):
                words = {"name": name, "other": other.name}
                self.add_error(field, gettext("%(name)s means %(other)s already.") % words)
        return cleaned


@admin.register(GpuType)
class GpuTypeAdmin(admin.ModelAdmin):
    """GPU types."""

    form = GpuTypeForm
    list_display = ("name", "aliases", "cards_there")
    search_fields = ("name", "aliases")

    def get_queryset(self, request: HttpRequest) -> QuerySet[GpuType]:
        """Count the cards in the same query."""
        there = ~Q(cards__state=Card.State.MISSING)
        rows: QuerySet[GpuType] = super().get_queryset(request).annotate(number=Count("cards", filter=there))
        return rows

    @admin.display(description=_("cards"), ordering="number")
    def cards_there(self, gpu_type: Any) -> int:
        """Return how many cards there are."""
        return int(gpu_type.number)

    def save_model(self, request: HttpRequest, obj: GpuType, form: Any, change: bool) -> None:
        """Keep the earlier name of a renamed type: agents and documents go on using it."""
        before = form.initial.get("name", "")
        known = {obj.name.casefold(), *(alias.casefold() for alias in obj.aliases)}
        if change and before and before.casefold() not in known:
            obj.aliases = [*obj.aliases, before]
        super().save_model(request, obj, form, change)

    def has_delete_permission(self, request: HttpRequest, obj: GpuType | None = None) -> bool:
        """Only while nothing names it."""
        return super().has_delete_permission(request, obj) and not (obj and is_used(obj))


class HostForm(forms.ModelForm):
    """What operators want of a host, and why."""

    def clean(self) -> dict[str, Any] | None:
        """Ask why a host is taken out; a ready host needs no reason."""
        cleaned = super().clean() or self.cleaned_data
        if cleaned.get("state") != Host.State.READY and not cleaned.get("state_reason", "").strip():
            self.add_error("state_reason", gettext("Say why, for those who wait for this host."))
        return cleaned


class CardInline(admin.TabularInline):
    """The cards of a host."""

    model = Card
    fields = readonly_fields = ("index", "gpu_type", "uuid", "memory_mib", "state", "state_reason")
    extra = 0
    can_delete = False

    def get_queryset(self, request: HttpRequest) -> QuerySet[Card]:
        """Read the types with them."""
        return super().get_queryset(request).select_related("gpu_type")

    def has_add_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        """Agents report cards."""
        return False


@admin.register(Host)
class HostAdmin(admin.ModelAdmin):
    """Hosts: they register themselves; operators say what they are used for."""

    form = HostForm
    inlines = (CardInline,)
    list_display = (
        "name",
        "region",
        "condition",
        "state_reason",
        "trouble",
        "cards_there",
        "last_seen_at",
        "agent_version",
    )
    list_filter = ("state", "region", ("lost_since", admin.EmptyFieldListFilter))
    list_select_related = ("region",)
    search_fields = ("name", "address", "state_reason")
    fields = (
        "name",
        "region",
        "state",
        "state_reason",
        "state_changed_at",
        "trouble",
        "lost_since",
        "last_seen_at",
        "address",
        "agent_version",
        "clock_offset_s",
    )
    readonly_fields = tuple(name for name in fields if name not in {"state", "state_reason"})
    actions = ("reset_token",)
    show_full_result_count = False

    def get_queryset(self, request: HttpRequest) -> QuerySet[Host]:
        """Count the cards in the same query."""
        there = ~Q(cards__state=Card.State.MISSING)
        rows: QuerySet[Host] = super().get_queryset(request).annotate(number=Count("cards", filter=there))
        return rows

    @admin.display(description=_("state"), ordering="state")
    def condition(self, host: Host) -> str:
        """Return `lost` where the host is silent, else its state, in the reader's language."""
        return gettext("lost") if host.lost_since else host.get_state_display()

    @admin.display(description=_("cards"), ordering="number")
    def cards_there(self, host: Any) -> int:
        """Return how many cards it has."""
        return int(host.number)

    def has_add_permission(self, request: HttpRequest) -> bool:
        """Agents register their hosts."""
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Host | None = None) -> bool:
        """A host that is gone is set to `removed`: what ran on it stays known."""
        return False

    def save_model(self, request: HttpRequest, obj: Host, form: Any, change: bool) -> None:
        """Write only what operators decide, so that a report coming in at the same time is not undone."""
        fields = ["state", "state_reason"]
        if "state" in form.changed_data:
            obj.state_changed_at = timezone.now()
            fields.append("state_changed_at")
        obj.save(update_fields=fields)
        hints.publish(hints.host_topic(obj.pk), "cards")
        hints.wake_pass()

    @admin.action(description=_("Reset token: the agent must register again"), permissions=["change"])
    def reset_token(self, request: HttpRequest, hosts: QuerySet[Host]) -> None:
        """Make the tokens of the hosts invalid and free their names for a new registration."""
        chosen = list(hosts)
        self.log_change_of(request, chosen)
        number = Host.objects.filter(pk__in=[host.pk for host in chosen]).update(token_hash="")
        for host in chosen:
            hints.publish(hints.host_topic(host.pk))  # a waiting call of the old agent ends now
        done = ngettext("%d host may register again.", "%d hosts may register again.", number) % number
        self.message_user(request, done, messages.SUCCESS)

    def log_change_of(self, request: HttpRequest, hosts: list[Host]) -> None:
        """Note in the history who reset the tokens."""
        for host in hosts:
            self.log_change(request, host, gettext("Token reset."))


@admin.register(Card)
class CardAdmin(ReadOnlyAdmin):
    """Cards, as their hosts report them."""

    list_display = ("host", "index", "gpu_type", "state", "state_reason", "memory_mib", "uuid")
    list_filter = ("state", "gpu_type", "host__region")
    list_select_related = ("host", "gpu_type")
    search_fields = ("host__name", "uuid")
