"""Quotas, businesses and members as tables: written out, and read in after the difference was looked at."""

from collections.abc import Mapping
from typing import Any

from django.contrib.auth.models import User
from django.core.exceptions import ValidationError
from django.utils.html import format_html
from django.utils.translation import gettext as _
from import_export.fields import Field
from import_export.resources import Diff, ModelResource
from import_export.widgets import IntegerWidget, Widget

from cluster import hints
from cluster.models import GpuType, Region
from quotas.models import Business, DefaultGpuType, Member, Quota

REASON = "reason"  # of the whole import, asked by its form


class Named(Widget):
    """A row of another table by the name that people know it by; blank for none."""

    def __init__(self, kind: str, find: Any, name: str) -> None:
        """Look rows up by `find`, from a name; `name` is the attribute that holds it."""
        super().__init__()
        self._kind, self._find, self._name = kind, find, name

    def clean(self, value: Any, row: Mapping[str, Any] | None = None, **kwargs: Any) -> Any:
        """Return the row of this name. Raises ValueError."""
        text = str(value or "").strip()
        found = self._find(text) if text else None
        if text and found is None:
            raise ValueError(
                _("there is no %(kind)s called %(name)s") % {"kind": _(self._kind), "name": text}
            )
        return found

    def render(self, value: Any, obj: Any = None, **kwargs: Any) -> str:
        """Return its name."""
        return getattr(value, self._name) if value else ""


class Whole(IntegerWidget):
    """A whole number; no other is cut to one."""

    def clean(self, value: Any, row: Mapping[str, Any] | None = None, **kwargs: Any) -> Any:
        """Return the number, None where the cell is blank. Raises ValueError."""
        text = str(value if value is not None else "").strip()
        if text and not text.removeprefix("-").isdecimal():
            raise ValueError(_("%s is no whole number") % text)
        return super().clean(text, row, **kwargs)


def _business(flag: str) -> Business | None:
    return Business.objects.filter(flag=flag).first()


def _gpu_type(name: str) -> GpuType | None:
    return GpuType.objects.all().by_name().get(name.casefold())


def _region(name: str) -> Region | None:
    return Region.objects.filter(name=name).first()


def _user(name: str) -> User | None:
    return User.objects.filter(username=name).first()


class Shown(Diff):
    """What a row changes, as it is written out, in marks that take no style of their own: the CSP would refuse it."""

    def __init__(self, resource: Any, instance: Any, new: bool) -> None:
        """Read what the row is before."""
        self.left = _written(resource, instance)
        self.right: list[Any] = []
        self.new = new

    def compare_with(self, resource: Any, instance: Any) -> None:
        """Read what the row is afterwards."""
        self.right = _written(resource, instance)

    def as_html(self) -> list[Any]:
        """Return each column with what it was struck out and what it becomes marked."""
        return [self._cell(old, new) for old, new in zip(self.left, self.right, strict=True)]

    def _cell(self, old: Any, new: Any) -> Any:
        old, new = str(old if old is not None else ""), str(new if new is not None else "")
        if self.new:
            return format_html("<ins>{}</ins>", new)
        return new if old == new else format_html("<del>{}</del> <ins>{}</ins>", old, new)


def _written(resource: Any, instance: Any) -> list[Any]:
    return [resource.export_field(field, instance) for field in resource.get_import_fields()]


class Table(ModelResource):
    """What all of them have in common: found by names, checked like a form, kept with the reason of the import."""

    @classmethod
    def get_diff_class(cls) -> type[Diff]:
        """Say how a difference is shown."""
        return Shown

    def before_import(self, dataset: Any, **kwargs: Any) -> None:
        """Refuse a table that lacks a column which rows are found by, or has one twice. Raises ValueError."""
        self._lines: dict[tuple[str, ...], int] = {}
        heads = list(dataset.headers or [])
        if missing := [name for name in self.get_import_id_fields() if name not in heads]:
            way_out = _("The first line names the columns, with commas between them.")
            raise ValueError(_("The columns %s are missing.") % ", ".join(missing) + " " + way_out)
        if twice := sorted({name for name in heads if heads.count(name) > 1}):
            raise ValueError(_("The columns %s are there twice.") % ", ".join(twice))

    def before_import_row(self, row: Any, **kwargs: Any) -> None:
        """Refuse a row that the table has already: which of both holds would be chance. Raises ValueError."""
        key = tuple(str(row.get(name) or "").strip() for name in self.get_import_id_fields())
        number = kwargs.get("row_number") or 0
        if any(key) and self._lines.setdefault(key, number) != number:
            raise ValueError(_("it stands in row %d already") % self._lines[key])

    def before_save_instance(self, instance: Any, row: Any, **kwargs: Any) -> None:
        """Hand the reason to the history."""
        instance._change_reason = kwargs.get(REASON, "")

    def after_import(self, dataset: Any, result: Any, **kwargs: Any) -> None:
        """Let the next pass see it now."""
        if not kwargs.get("dry_run"):
            hints.wake_pass()


class QuotaTable(Table):
    """Quotas by business, type and region."""

    business = Field(
        column_name="business", attribute="business", widget=Named("business", _business, "flag")
    )
    gpu_type = Field(
        column_name="gpu_type", attribute="gpu_type", widget=Named("GPU type", _gpu_type, "name")
    )
    region = Field(column_name="region", attribute="region", widget=Named("region", _region, "name"))
    cards = Field(column_name="cards", attribute="cards", widget=Whole())
    elastic_cards = Field(column_name="elastic_cards", attribute="elastic_cards", widget=Whole())
    user_elastic_cards = Field(
        column_name="user_elastic_cards", attribute="user_elastic_cards", widget=Whole()
    )

    class Meta:
        model = Quota
        fields = ("business", "gpu_type", "region", "cards", "elastic_cards", "user_elastic_cards")
        import_id_fields = ("business", "gpu_type", "region")
        clean_model_instances = skip_unchanged = True
        use_transactions = True

    def get_queryset(self) -> Any:
        """Read names with the rows."""
        rows = super().get_queryset().select_related("business", "gpu_type", "region")
        return rows.order_by("business__flag", "gpu_type__name", "region__name")

    def get_instance(self, instance_loader: Any, row: Mapping[str, Any]) -> Quota | None:
        """Find a row also where no region is named, which no look-up by equality does."""
        key = {name: self.fields[name].clean(row) for name in self.get_import_id_fields() if name in row}
        return Quota.objects.filter(
            business=key.get("business"),
            gpu_type=key.get("gpu_type"),
            **({"region": key["region"]} if key.get("region") else {"region__isnull": True}),
        ).first()


class BusinessTable(Table):
    """Businesses by flag, with the types that they try by default."""

    default_gpu_types = Field(column_name="default_gpu_types")

    class Meta:
        model = Business
        fields = ("flag", "name", "default_gpu_types")
        import_id_fields = ("flag",)
        clean_model_instances = skip_unchanged = True
        use_transactions = True

    def dehydrate_default_gpu_types(self, business: Business) -> str:
        """Return their names in order; while a table is read in, those that it asks for."""
        if (asked := getattr(business, "asked_types", None)) is not None:
            return ", ".join(gpu_type.name for gpu_type in asked)
        if business._state.adding:
            return ""
        rows = DefaultGpuType.objects.filter(business=business).select_related("gpu_type")
        return ", ".join(row.gpu_type.name for row in rows)

    def import_instance(self, instance: Any, row: Mapping[str, Any], **kwargs: Any) -> None:
        """Read the types, too. Raises ValidationError."""
        super().import_instance(instance, row, **kwargs)
        if "default_gpu_types" not in row:
            return
        names = [name.strip() for name in str(row["default_gpu_types"] or "").split(",") if name.strip()]
        found = [_gpu_type(name) for name in names]
        if unknown := [name for name, gpu_type in zip(names, found, strict=True) if gpu_type is None]:
            raise ValidationError(
                {"default_gpu_types": _("There is no such GPU type: %s.") % ", ".join(unknown)}
            )
        instance.asked_types = list(dict.fromkeys(found))

    def skip_row(self, instance: Any, original: Any, row: Any, import_validation_errors: Any = None) -> bool:
        """Skip a row only where its types are the same too."""
        types = [self.dehydrate_default_gpu_types(one) for one in (instance, original)]
        same = types[0] == types[1]
        return same and bool(super().skip_row(instance, original, row, import_validation_errors))

    def after_save_instance(self, instance: Any, row: Any, **kwargs: Any) -> None:
        """Write the types."""
        asked = getattr(instance, "asked_types", None)
        if asked is None:
            return
        DefaultGpuType.objects.filter(business=instance).exclude(gpu_type__in=asked).delete()
        for position, gpu_type in enumerate(asked):
            DefaultGpuType.objects.update_or_create(
                business=instance, gpu_type=gpu_type, defaults={"position": position}
            )


class MemberTable(Table):
    """Members by business and user."""

    business = Field(
        column_name="business", attribute="business", widget=Named("business", _business, "flag")
    )
    user = Field(column_name="user", attribute="user", widget=Named("user", _user, "username"))

    class Meta:
        model = Member
        fields = ("business", "user", "role")
        import_id_fields = ("business", "user")
        clean_model_instances = skip_unchanged = True
        use_transactions = True

    def get_queryset(self) -> Any:
        """Read names with the rows."""
        rows = super().get_queryset().select_related("business", "user")
        return rows.order_by("business__flag", "user__username")

    def get_instance(self, instance_loader: Any, row: Mapping[str, Any]) -> Member | None:
        """Find a row by both names."""
        business, user = (self.fields[name].clean(row) for name in ("business", "user"))
        return Member.objects.filter(business=business, user=user).first()

    def before_save_instance(self, instance: Any, row: Any, **kwargs: Any) -> None:
        """Keep what operators decide: the identity provider changes it no more."""
        super().before_save_instance(instance, row, **kwargs)
        instance.provider = False
