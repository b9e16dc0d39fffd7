"""Quotas, businesses and members as tables: by which names rows are found, and what else they hold."""

from collections.abc import Mapping
from typing import Any

from django.core.exceptions import ValidationError
from django.db.models import Prefetch
from django.utils.translation import gettext as _
from import_export.fields import Field

from cluster import hints
from quotas import default_types, presence
from quotas.models import Business, DefaultGpuType, Member, Quota
from quotas.named import Named, businesses, gpu_types, regions, text, users
from quotas.table import Table, Whole


class QuotaTable(Table):
    """Quotas by business, type and region."""

    business = Field(
        column_name="business", attribute="business", widget=Named("business", businesses, "flag")
    )
    gpu_type = Field(
        column_name="gpu_type", attribute="gpu_type", widget=Named("GPU type", gpu_types, "name")
    )
    region = Field(column_name="region", attribute="region", widget=Named("region", regions, "name"))
    cards = Field(column_name="cards", attribute="cards", widget=Whole())
    elastic_cards = Field(column_name="elastic_cards", attribute="elastic_cards", widget=Whole())
    user_elastic_cards = Field(
        column_name="user_elastic_cards", attribute="user_elastic_cards", widget=Whole()
    )

    class Meta:
        model = Quota
        fields = ("business", "gpu_type", "region", "cards", "elastic_cards", "user_elastic_cards")
        import_id_fields = ("business", "gpu_type", "region")

    def get_queryset(self) -> Any:
        """Read names with the rows."""
        rows = super().get_queryset().select_related("business", "gpu_type", "region")
        return rows.order_by("business__flag", "gpu_type__name", "region__name")

    def after_bulk(self, written: list[Any]) -> None:
        """Let pages that show what is left of them look anew."""
        if written:
            hints.publish("cards")


class BusinessTable(Table):
    """Businesses by flag, with the types that they try by default."""

    default_gpu_types = Field(column_name="default_gpu_types")

    class Meta:
        model = Business
        fields = ("flag", "name", "default_gpu_types")
        import_id_fields = ("flag",)

    def get_queryset(self) -> Any:
        """Read types with the rows."""
        types = DefaultGpuType.objects.select_related("gpu_type")
        return super().get_queryset().prefetch_related(Prefetch("defaultgputype_set", types))

    def dehydrate_default_gpu_types(self, business: Business) -> str:
        """Return their names in order; while a table is read in, those that it asks for."""
        if (asked := getattr(business, "asked_types", None)) is not None:
            return ", ".join(gpu_type.name for gpu_type in asked)
        if business._state.adding:
            return ""
        return ", ".join(row.gpu_type.name for row in business.defaultgputype_set.all())

    def before_import(self, dataset: Any, **kwargs: Any) -> None:
        """Read the types, too."""
        self._types = Named("GPU type", gpu_types, "name")
        super().before_import(dataset, **kwargs)
        if "default_gpu_types" in dataset.headers:
            cells = dataset["default_gpu_types"]
            self._types.look_up(name for cell in cells for name in _names(cell))

    def import_instance(self, instance: Any, row: Mapping[str, Any], **kwargs: Any) -> None:
        """Read the types, too. Raises ValidationError."""
        super().import_instance(instance, row, **kwargs)
        if "default_gpu_types" not in row:
            return
        named = {name: self._types.named(name) for name in _names(row["default_gpu_types"])}
        if unknown := [name for name, gpu_type in named.items() if gpu_type is None]:
            raise ValidationError(
                {"default_gpu_types": _("There is no such GPU type: %s.") % ", ".join(unknown)}
            )
        instance.asked_types = list(dict.fromkeys(named.values()))

    def after_bulk(self, written: list[Any]) -> None:
        """Write the types."""
        default_types.write(
            {row.pk: [one.pk for one in row.asked_types] for row in written if hasattr(row, "asked_types")}
        )


def _names(cell: Any) -> list[str]:
    return [name.strip() for name in text(cell).split(",") if name.strip()]


class MemberTable(Table):
    """Members by business and user."""

    business = Field(
        column_name="business", attribute="business", widget=Named("business", businesses, "flag")
    )
    user = Field(column_name="user", attribute="user", widget=Named("user", users, "username"))

    class Meta:
        model = Member
        fields = ("business", "user", "role")
        import_id_fields = ("business", "user")

    def get_queryset(self) -> Any:
        """Read names with the rows."""
        rows = super().get_queryset().select_related("business", "user")
        return rows.order_by("business__flag", "user__username")

    def before_save_instance(self, instance: Any, row: Any, **kwargs: Any) -> None:
        """Keep what operators decide: the identity provider changes it no more."""
        super().before_save_instance(instance, row, **kwargs)
        instance.provider = False

    def after_bulk(self, written: list[Any]) -> None:
        """Let what these users have open look anew."""
        hints.publish(*(presence.topic(member.user_id) for member in written))
