"""People in the admin, what they are to the platform, and their keys to the API."""

from typing import Any

from django.contrib import admin
from django.contrib.auth.admin import UserAdmin
from django.contrib.auth.models import User
from django.db.models import Model, QuerySet
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from cluster.careful_admin import CarefulTable
from cluster.kept_admin import RefusesInUse
from quotas import presence
from quotas.access import is_operator
from quotas.models import ApiToken, GroupRule, Member, PlatformRole
from quotas.tokens import digest

ROLES_SAID = _(
    "Operators see and change everything, also here. Auditors see everything, also here, and change nothing. Neither "
    "needs another permission. Members and leads of a business stand with the business."
)


class RoleInline(CarefulTable):
    """What the user is to the whole platform."""

    model = PlatformRole
    extra = 0


class MembershipInline(CarefulTable):
    """The businesses of the user."""

    model = Member
    autocomplete_fields = ("business",)
    extra = 0


class PeopleAdmin(RefusesInUse, UserAdmin):
    """Users; one who submitted anything is made inactive, not deleted."""

    inlines = (RoleInline, MembershipInline)
    list_display = ("username", "first_name", "last_name", "email", "is_active", "last_login")

    def save_model(self, request: HttpRequest, obj: User, form: Any, change: bool) -> None:
        """Keep it; who is made inactive loses his sessions, tokens and sockets."""
        super().save_model(request, obj, form, change)
        if change and not obj.is_active:
            presence.shut_out(obj)

    def get_deleted_objects(self, objs: Any, request: HttpRequest) -> tuple[Any, Any, Any, Any]:
        """Return what would be deleted; nobody deletes himself, who has to stand beside what he deleted."""
        if any(user.pk == request.user.pk for user in objs):
            return [], {}, set(), [gettext("%s: this is you. Another operator can do it.") % request.user]
        return super().get_deleted_objects(objs, request)

    def delete_model(self, request: HttpRequest, obj: User) -> None:
        """Delete it, and end what the user is in by: sessions do not go with their users."""
        presence.shut_out(obj)
        super().delete_model(request, obj)

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[User]) -> None:
        """Delete the chosen ones, each as if alone."""
        for user in queryset:
            self.delete_model(request, user)

    def user_change_password(self, request: HttpRequest, id: str, form_url: str = "") -> HttpResponse:
        """Set a password; whoever was in with the old one is out."""
        before = User.objects.filter(pk=id).values_list("password", flat=True).first()
        answer = super().user_change_password(request, id, form_url)
        after = User.objects.filter(pk=id).values_list("password", flat=True).first()
        if before != after:
            keep = request.session.session_key if str(request.user.pk) == id else None
            presence.end_sessions(int(id), keep=keep)
        return answer


admin.site.unregister(User)
admin.site.register(User, PeopleAdmin)


@admin.register(PlatformRole)
class PlatformRoleAdmin(admin.ModelAdmin):
    """Who runs the platform, and who looks on; superusers are operators without a row."""

    list_display = ("user", "role", "provider")
    list_filter = ("role",)
    list_select_related = ("user",)
    search_fields = ("user__username",)
    autocomplete_fields = ("user",)
    fieldsets = ((None, {"fields": ("user", "role"), "description": ROLES_SAID}),)

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[PlatformRole]) -> None:
        """Remove the chosen ones one by one: each ends what it opened."""
        for role in queryset:
            role.delete()

    def save_model(self, request: HttpRequest, obj: PlatformRole, form: Any, change: bool) -> None:
        """Keep what operators decide: the identity provider changes it no more."""
        obj.provider = False
        super().save_model(request, obj, form, change)


@admin.register(GroupRule)
class GroupRuleAdmin(admin.ModelAdmin):
    """What groups of the identity provider make of people, from their next login on."""

    list_display = ("group", "role", "business")
    list_filter = ("role",)
    list_select_related = ("business",)
    search_fields = ("group", "business__flag")
    autocomplete_fields = ("business",)


@admin.register(ApiToken)
class ApiTokenAdmin(admin.ModelAdmin):
    """Keys to the API: made here, shown once, ended by deleting them."""

    fields = ("user", "name", "scope", "business", "expires_at")
    list_display = ("name", "user", "scope", "business", "created_at", "expires_at", "last_used_at")
    list_filter = ("scope",)
    list_select_related = ("user", "business")
    search_fields = ("name", "user__username", "business__flag")
    autocomplete_fields = ("user", "business")

    def has_add_permission(self, request: HttpRequest) -> bool:
        """Only operators: whoever makes a token for somebody can act as him."""
        return is_operator(request.user)

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        """Nobody: a token that changed hands would be somebody else's key."""
        return False

    def save_model(self, request: HttpRequest, obj: ApiToken, form: Any, change: bool) -> None:
        """Make the token; its text goes to this answer alone."""
        secret = ApiToken.objects.issue(
            obj.user, obj.name, scope=obj.scope, expires_at=obj.expires_at, business_id=obj.business_id
        )
        obj.pk = ApiToken.objects.get(digest=digest(secret)).pk
        obj.secret = secret  # type: ignore[attr-defined]  # for response_add

    def response_add(
        self, request: HttpRequest, obj: ApiToken, post_url_continue: str | None = None
    ) -> HttpResponse:
        """Show the token, in a page that is kept nowhere."""
        context = {**self.admin_site.each_context(request), "title": _("The new token"), "opts": self.opts}
        context |= {"token": obj, "secret": obj.secret}  # type: ignore[attr-defined]  # set by save_model
        return TemplateResponse(request, "admin/quotas/apitoken/issued.html", context)
