"""The admin: operators change everything in it, auditors look, and for all others it does not exist."""

from collections.abc import Callable
from contextlib import nullcontext
from functools import wraps
from typing import Any, TypeVar
from urllib.parse import urlencode

from django.contrib.admin import AdminSite, ModelAdmin
from django.core.exceptions import BadRequest
from django.db import transaction
from django.db.models import Model, QuerySet
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase, HttpResponseRedirect
from django.urls import reverse
from django.utils.translation import gettext_lazy as _

from cluster.careful_admin import TOO_LARGE, Careful
from quotas import access, audit

View = TypeVar("View", bound=Callable[..., HttpResponseBase])


class Operations(AdminSite):
    """Django's admin with the doors of the product: who is who, where people log in, what the audit gets to know."""

    site_header = site_title = "Taiji"
    index_title = _("Operations")

    def has_permission(self, request: HttpRequest) -> bool:
        """Let in who has a role of the platform, and staff who were given permissions one by one."""
        user = request.user
        return access.sees_all(user) or bool(user.is_active and user.is_staff)

    def admin_view(self, view: View, cacheable: bool = False) -> View:
        """Lead whoever is not logged in to the login; for those who may not enter nothing is here."""
        inner = super().admin_view(view, cacheable)

        @wraps(inner)
        def enter(request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
            if request.user.is_authenticated and not self.has_permission(request):
                raise Http404
            return inner(request, *args, **kwargs)

        return enter  # type: ignore[return-value]  # the same call and answer

    def login(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        """Send to the one login of the product, where tries are counted."""
        back = request.GET.get("next") or reverse("admin:index", current_app=self.name)
        return HttpResponseRedirect(f"{reverse('login')}?{urlencode({'next': back})}")

    def autocomplete_view(self, request: HttpRequest) -> HttpResponse:
        """Find rows by what is typed into a field with a search. Raises BadRequest where no text holds that."""
        try:
            return super().autocomplete_view(request)
        except TOO_LARGE as error:
            raise BadRequest from error

    def register(self, model_or_iterable: Any, admin_class: Any = None, **options: Any) -> None:
        """Register with the audit in between, so that no page of the admin can be forgotten."""
        given = admin_class or ModelAdmin
        super().register(model_or_iterable, type(given.__name__, (Audited, given), {}), **options)


class Audited(Careful):
    """What the admin writes into its own history goes into the audit too, in the same transaction."""

    def construct_change_message(
        self, request: HttpRequest, form: Any, formsets: Any, add: bool = False
    ) -> Any:
        """Keep the reasons that were given, which the admin's own words leave out."""
        forms = [form, *(each for formset in formsets or () for each in formset.forms)]
        given = (getattr(each, "cleaned_data", {}).get("reason") for each in forms if each.has_changed())
        form.instance.reasons = "; ".join(dict.fromkeys(filter(None, given)))
        return super().construct_change_message(request, form, formsets, add)

    def log_addition(self, request: HttpRequest, obj: Model, message: Any) -> Any:
        """Write that a row was added."""
        _note("added", request, obj, message, getattr(obj, "reasons", ""))
        return super().log_addition(request, obj, message)

    def log_change(self, request: HttpRequest, obj: Model, message: Any) -> Any:
        """Write that a row was changed, and which fields."""
        _note("changed", request, obj, message, getattr(obj, "reasons", ""))
        return super().log_change(request, obj, message)

    def response_action(self, request: HttpRequest, queryset: QuerySet[Any], *args: Any) -> Any:
        """Do something to chosen rows; they are deleted, and that is written, in one transaction.

        Raises BadRequest where several things are asked for: which of them is done would be chance.
        """
        asked = set(request.POST.getlist("action"))
        if len(asked) > 1:
            raise BadRequest("several actions")
        together = asked == {"delete_selected"}  # others have transactions of their own
        with transaction.atomic() if together else nullcontext():
            return super().response_action(request, queryset, *args)

    def log_deletions(self, request: HttpRequest, queryset: Any) -> Any:
        """Write that rows are removed: those that nobody else has removed meanwhile, nor does now."""
        asked: list[Model] = list(queryset)
        rows = self.model._default_manager.filter(pk__in=[row.pk for row in asked]).order_by("pk")
        there = set(rows.select_for_update().values_list("pk", flat=True))
        removed = [row for row in asked if row.pk in there]
        for row in removed:
            _note("removed", request, row, "", request.POST.get("reason", "").strip())
        return super().log_deletions(request, removed) if removed else []  # type: ignore[arg-type]  # it goes through them


def _note(what: str, request: HttpRequest, row: Model, message: Any, reason: str) -> None:
    """Write a deed; the admin's own words name fields, never their values."""
    kind = row._meta.model_name or ""
    besides = {"said": message, "reason": reason}
    known = {name: value for name, value in besides.items() if value}
    audit.note(f"{kind}.{what}", by=request.user, on=row, **known)
