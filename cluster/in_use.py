"""What forbids deleting a row, removing a host or dropping a type's name: asked in bounded time, and told by name."""

from collections.abc import Callable, Iterable

from django.contrib.admin import AdminSite
from django.db.models import F, ForeignObjectRel, Model, QuerySet
from django.db.models.deletion import PROTECT, RESTRICT
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.text import capfirst
from django.utils.translation import gettext as _

from cluster.models import Card, GpuType, Host, Instance

SHOWN = 10  # rows of one kind that are named
COUNTED = 1000

Look = Callable[[Model], QuerySet[Model]]
ALSO: dict[type[Model], list[Look]] = {}  # what names a row in other ways than by a key, told by other rooms


def standing_in_the_way(rows: Iterable[Model], site: AdminSite, *cascades: str) -> list[object]:
    """Return a nested list for templates: each kind of row that needs one of `rows`, with the first few of it.

    Those of the relations `cascades` too, which the database would delete along.
    """
    found: list[object] = []
    for row in rows:
        for needing in _needing(row, cascades):
            named = list(_open_first(needing)[: SHOWN + 1])
            if named:
                found += [_title(row, needing), [_named(one, site) for one in named[:SHOWN]]]
    return found


def _needing(row: Model, cascades: tuple[str, ...]) -> Iterable[QuerySet[Model]]:
    for relation in row._meta.get_fields(include_hidden=True):
        if not isinstance(relation, ForeignObjectRel):
            continue
        related = relation.related_model
        if relation.on_delete in {PROTECT, RESTRICT} or related._meta.model_name in cascades:
            yield related._default_manager.filter(**{relation.field.name: row.pk})
    for look in ALSO.get(type(row), ()):
        yield look(row)


def _open_first(rows: QuerySet[Model]) -> QuerySet[Model]:
    """Put first what has not ended, where rows of this kind end."""
    names = {field.name for field in rows.model._meta.get_fields()}
    return (
        rows.order_by(F("ended_at").desc(nulls_first=True), "-pk")
        if "ended_at" in names
        else rows.order_by("pk")
    )


def _title(row: Model, needing: QuerySet[Model]) -> SafeString:
    number = needing.order_by()[: COUNTED + 1].count()
    kind = capfirst(str(needing.model._meta.verbose_name_plural))
    many = _("more than %d") % COUNTED if number > COUNTED else str(number)
    return format_html("{}: {} ({})", row, kind, many)


def _named(one: Model, site: AdminSite) -> SafeString | str:
    """Return a row's name, leading to where it can be looked at."""
    if type(one) not in site._registry:
        return str(one)
    address = reverse(f"admin:{one._meta.app_label}_{one._meta.model_name}_change", args=[one.pk])
    return format_html('<a href="{}">{}</a>', address, one)


def still_held(host: Host) -> str:
    """Return why a host cannot be taken away unseen: what is on it; blank where nothing is."""
    there = host.instances.exclude(phase=Instance.Phase.GONE).order_by("pk")
    if not (labels := list(there.values_list("label", flat=True)[: SHOWN + 1])):
        return ""
    return _(
        "It still holds %(what)s. Drain it and wait, or remove it on its page in the portal, which first shows whom "
        "that hits."
    ) % {"what": _some(labels)}


def still_said(gpu_type: GpuType, names: Iterable[str]) -> str:
    """Return why a type has to go on answering to a name that it had: hosts report their cards by it."""
    kept = {name.casefold() for name in names}
    cards = Card.objects.filter(gpu_type=gpu_type.pk).exclude(state=Card.State.MISSING)
    lost = [name for name in _former_names(gpu_type) if name.casefold() not in kept]
    if not lost or not cards.exists():
        return ""
    hosts = Host.objects.filter(pk__in=cards.values("host")).order_by("name")
    words = {
        "names": ", ".join(lost),
        "hosts": _some(list(hosts.values_list("name", flat=True)[: SHOWN + 1])),
    }
    return (
        _("Its earlier name has to stay: %(names)s. Hosts with such cards may report them by it: %(hosts)s.")
        % words
    )


def _former_names(gpu_type: GpuType) -> list[str]:
    """Return the names that a type had and still answers to."""
    before = GpuType.objects.filter(pk=gpu_type.pk).values_list("aliases", flat=True).first() or []
    had = {name.casefold() for name in GpuType.history.filter(id=gpu_type.pk).values_list("name", flat=True)}
    return [alias for alias in before if alias.casefold() in had]


def _some(names: list[str]) -> str:
    return ", ".join([*names[:SHOWN], *(["…"] if len(names) > SHOWN else [])])
