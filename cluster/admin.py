"""Regions, GPU types, hosts and cards for operators."""

from typing import Any

from django import forms
from django.contrib import admin, messages
from django.db import transaction
from django.db.models import Count, Model, Q, QuerySet
from django.http import HttpRequest
from django.utils import timezone
from django.utils.formats import date_format
from django.utils.html import format_html_join
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _

from cluster import card_faults, clock, fencing, hints, host_events, host_moves, in_use
from cluster.characters import bad_character
from cluster.host_states import MOVES, VERBS, State
from cluster.kept_admin import KeepsHistory, RefusesInUse
from cluster.large_admin import ShortPaginator
from cluster.models import Card, GpuType, Host, HostEvent, Region

EVENTS_SHOWN = 50


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


@admin.register(Region)
class RegionAdmin(RefusesInUse):
    """Regions."""

    list_display = ("name", "hosts_here")
    ordering = ("name",)  # said here, since what is counted along forgets that of the model
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


def _bad_alias(gpu_type: GpuType, alias: str) -> str:
    return "" if alias in gpu_type.aliases else bad_character(alias, lines=False)


class GpuTypeForm(forms.ModelForm):
    """A type's name must not mean another type."""

    def clean(self) -> dict[str, Any] | None:
        """Refuse names that another type has or had."""
        cleaned = super().clean() or self.cleaned_data
        aliases = cleaned.get("aliases") or []
        if not isinstance(aliases, list) or not all(isinstance(alias, str) and alias for alias in aliases):
            self.add_error("aliases", gettext('Write a list of names, such as ["P40", "Tesla P40"].'))
            return cleaned
        cleaned["aliases"] = aliases  # a null is no list
        taken = GpuType.objects.exclude(pk=self.instance.pk).by_name()
        for field, name in [("name", cleaned.get("name", "")), *(("aliases", alias) for alias in aliases)]:
            if "," in name or "，" in name:
                self.add_error(field, gettext("A name has no comma: commas stand between names."))
            if field == "aliases" and (bad := _bad_alias(self.instance, name)):
                self.add_error(field, gettext("The character %s is not allowed here; remove it.") % bad)
            if other := taken.get(name.casefold()):
                words = {"name": name, "other": other.name}
                self.add_error(field, gettext("%(name)s means %(other)s already.") % words)
        if fault := in_use.still_said(self.instance, [cleaned.get("name", ""), *aliases]):
            self.add_error("aliases", fault)
        return cleaned


@admin.register(GpuType)
class GpuTypeAdmin(RefusesInUse, KeepsHistory):
    """GPU types; a renamed one keeps all that it has, and answers to its earlier names."""

    kept_by = ("defaultgputype",)
    form = GpuTypeForm
    list_display = ("name", "aliases", "cards_there")
    ordering = ("name",)
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


class HostForm(forms.ModelForm):
    """What operators want of a host, and why."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Offer only the states that the host may go to."""
        super().__init__(*args, **kwargs)
        if "state" in self.fields:
            now = State(self.instance.state)
            after = [state for state, verb in MOVES[now].items() if verb in VERBS]
            self.fields["state"].choices = [  # type: ignore[attr-defined]  # a choice field has them
                (value, word) for value, word in Host.State.choices if value in {now, *after}
            ]
            self.fields["state"].show_hidden_initial = True  # what the page showed

    def clean(self) -> dict[str, Any] | None:
        """Ask why a host is taken out; a ready host needs no reason."""
        cleaned = super().clean() or self.cleaned_data
        reason = (cleaned.get("state_reason") or "").strip()
        taken_out = cleaned.get("state") not in {State.READY, State.QUARANTINED}
        if fault := host_moves.fault_of("cordon" if taken_out else "uncordon", reason):
            self.add_error("state_reason", fault)
        now = self.initial.get("state")
        if State.REMOVED == cleaned.get("state") != now and (fault := in_use.still_held(self.instance)):
            self.add_error("state", fault)
        if self.data.get(self.add_initial_prefix("state"), now) != now:
            text = gettext("%s was changed by somebody else just now: look again.") % self.instance.name
            self.add_error("state", text)
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
        "why",
        "trouble",
        "cards_there",
        "last_seen_at",
        "agent_version",
    )
    list_filter = ("state", "region", ("lost_since", admin.EmptyFieldListFilter))
    list_select_related = ("region",)
    ordering = ("name",)
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
        "to_look_at",
        "happened",
    )
    readonly_fields = tuple(name for name in fields if name not in {"state", "state_reason"})
    actions = ("reset_token", "accept_machine")
    show_full_result_count = False

    def get_queryset(self, request: HttpRequest) -> QuerySet[Host]:
        """Count the cards in the same query."""
        there = ~Q(cards__state=Card.State.MISSING)
        rows: QuerySet[Host] = super().get_queryset(request).annotate(number=Count("cards", filter=there))
        return rows

    @admin.display(description=_("state"), ordering="state")
    def condition(self, host: Host) -> str:
        """Return `lost` where the host is silent, else its state, in the reader's language."""
        is_lost = host.lost_since and host.state != State.REMOVED  # who is removed is silent soon
        return gettext("lost") if is_lost else host.get_state_display()

    @admin.display(description=_("reason"), ordering="state_reason")
    def why(self, host: Host) -> str:
        """Return why it is in its state."""
        return host_events.reason(host.state_reason, host.state_args)

    @admin.display(description=_("to look at"))
    def to_look_at(self, host: Host) -> str:
        """Return what operators should look at."""
        return "; ".join(host_events.warnings(host_events.Facts.of(host), clock.now()))

    @admin.display(description=_("what happened"))
    def happened(self, host: Host) -> str:
        """Return the last events: when, what, who, why."""
        rows = host.events.select_related("actor").order_by("-id")[:EVENTS_SHOWN]
        return format_html_join(
            "",
            "<div>{} — {}{}</div>",
            ((date_format(timezone.localtime(row.at), "Y-m-d H:i:s"), *_said(row)) for row in rows),
        )

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
        """Move the host as operators decide; a report that comes in at the same time is not undone."""
        old, new, who = State(form.initial["state"]), State(obj.state), int(request.user.pk or 0)
        reason = obj.state_reason.strip()
        if new == State.READY and "state_reason" not in form.changed_data:
            reason = ""  # it said why the host was taken out
        if old == new:
            if "state_reason" in form.changed_data:
                host_moves.explain(obj.pk, old, actor_id=who, reason=reason)
        elif not host_moves.move(obj.pk, old, new, actor_id=who, reason=reason):
            text = gettext("%s was changed by somebody else just now: look again.") % obj.name
            self.message_user(request, text, messages.ERROR)

    @admin.action(description=_("Reset token: the agent must register again"), permissions=["change"])
    def reset_token(self, request: HttpRequest, hosts: QuerySet[Host]) -> None:
        """Make the tokens of the hosts invalid and free their names for a new registration."""
        chosen = list(hosts)
        self.log_change_of(request, chosen)
        number = Host.objects.filter(pk__in=[host.pk for host in chosen]).update(token_hash="")
        for host in chosen:
            host_events.note(host.pk, "token_reset", actor_id=request.user.pk)
            hints.publish(hints.host_topic(host.pk))  # a waiting call of the old agent ends now
        done = ngettext("%d host may register again.", "%d hosts may register again.", number) % number
        self.message_user(request, done, messages.SUCCESS)

    @admin.action(description=_("Let another machine speak for it"), permissions=["change"])
    def accept_machine(self, request: HttpRequest, hosts: QuerySet[Host]) -> None:
        """Forget on which machines the agents of these hosts are: the next that calls with the token is taken.

        Not of one whose agent is alive: two would speak for one host, each with tasks of its own.
        """
        now = clock.now()
        chosen = [host for host in hosts if not fencing.is_heard(host.last_seen_at, now)]
        if heard := [host.name for host in hosts if host not in chosen]:
            self.message_user(request, _still_heard(heard), messages.ERROR)
        if not chosen:
            return
        with transaction.atomic():
            Host.objects.filter(pk__in=[host.pk for host in chosen]).update(machine="", seat="")
            for host in chosen:
                host_events.note(host.pk, "machine_accepted", actor_id=request.user.pk)
                self.log_change(request, host, gettext("Another machine may speak for it."))
        words = ngettext(
            "The next agent that calls with the token of %d host is taken.",
            "The next agents that call with the tokens of %d hosts are taken.",
            len(chosen),
        )
        self.message_user(request, words % len(chosen), messages.SUCCESS)

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
    paginator = ShortPaginator
    actions = ("clear_faults",)

    def has_clear_permission(self, request: HttpRequest) -> bool:
        """Those who may change hosts."""
        return bool(request.user.has_perm("cluster.change_host"))

    @admin.action(description=_("Take their faults for cured: offer them again"), permissions=["clear"])
    def clear_faults(self, request: HttpRequest, cards: QuerySet[Card]) -> None:
        """Have the agents offer cards again that a fault took out; one that fails still, fails anew."""
        with transaction.atomic():
            for card in cards.exclude(fault=""):
                self.log_change(request, card, gettext("Faults taken for cured."))
            number = card_faults.clear(list(cards.values_list("pk", flat=True)), request.user.pk)
        done = ngettext("%d card is offered again.", "%d cards are offered again.", number) % number
        if number < cards.count():
            done += " " + gettext("The others have no fault, or one that lasts as long as it is seen.")
        self.message_user(request, done, messages.SUCCESS if number else messages.WARNING)


def _still_heard(names: list[str]) -> str:
    """Return why no other machine may speak for these hosts yet, with the way out."""
    said = ngettext(
        "The agent of %(hosts)s was heard less than %(quiet)d s ago. Stop it, or switch its machine off; once it is "
        "silent for %(quiet)d s, choose this again.",
        "The agents of %(hosts)s were heard less than %(quiet)d s ago. Stop them, or switch their machines off; once "
        "they are silent for %(quiet)d s, choose this again.",
        len(names),
    )
    return said % {"hosts": ", ".join(names), "quiet": round(fencing.QUIET_S)}


def _said(event: HostEvent) -> tuple[str, str]:
    """Return what an event says, and behind it who did it and why."""
    behind = [str(event.actor) if event.actor else "", event.reason]
    said = ": ".join(part for part in behind if part)
    return host_events.sentence(event.code, event.args), f" ({said})" if said else ""
