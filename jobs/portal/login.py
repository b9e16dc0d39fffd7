"""The door of the product: logging in and out, with tries counted, and changing one's password."""

from typing import Any, cast

from django.conf import settings
from django.contrib import auth, messages
from django.contrib.auth import views
from django.contrib.auth.forms import AuthenticationForm, PasswordChangeForm
from django.contrib.auth.models import User
from django.core.exceptions import ValidationError
from django.db import transaction
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import redirect
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_POST

from jobs.portal import oidc_login
from jobs.portal.doors import PortalRequest, page
from quotas import audit, oidc, origin, passwords, presence, throttle

TOO_MANY = "too_many"  # code of a refusal


class LoginForm(AuthenticationForm):
    """User name and password, each try of which counts."""

    wait_s = 0

    def clean(self) -> dict[str, Any]:
        """Let in who knows the password and did not fail too often; refuses all others in the same time."""
        name = self.cleaned_data.get("username") or ""
        if not name or not self.cleaned_data.get("password"):
            return super().clean()
        request = cast(HttpRequest, self.request)
        counted = throttle.limits(
            name, origin.of(request).address, request.COOKIES.get(throttle.DEVICE_COOKIE, "")
        )
        self.wait_s = throttle.claim(counted)
        if self.wait_s:
            audit.note("login.refused", by=None, name=_known(name))
            raise ValidationError(too_many(self.wait_s), code=TOO_MANY)
        try:
            found = super().clean()
        except ValidationError:
            audit.note("login.failed", by=None, name=_known(name))
            raise
        throttle.forgive(counted)
        return found


def _known(name: str) -> str:
    """Return the name where somebody has it: what others typed may be a password, in the wrong field."""
    return name if User.objects.filter(username=name).exists() else ""


def too_many(wait_s: int) -> str:
    """Say how long to wait."""
    minutes = max(1, round(wait_s / 60))
    return (
        ngettext(
            "Too many tries failed. Wait %d minute, then try again; a browser that you used before may go on.",
            "Too many tries failed. Wait %d minutes, then try again; a browser that you used before may go on.",
            minutes,
        )
        % minutes
    )


class Login(views.LoginView):
    """Log in with a password."""

    authentication_form = LoginForm
    redirect_authenticated_user = True

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        """Name the company's provider where there is one."""
        return super().get_context_data(**kwargs) | {"provider": settings.OIDC_NAME if oidc.is_on() else ""}

    def form_valid(self, form: AuthenticationForm) -> HttpResponse:
        """Log in, and mark the browser as one that is known."""
        user = form.get_user()
        with transaction.atomic():
            answer = super().form_valid(form)
            audit.note("login", by=user, name="")
        remember_browser(self.request, answer, user)
        return answer

    def form_invalid(self, form: AuthenticationForm) -> HttpResponse:
        """Say why not."""
        answer = super().form_invalid(form)
        if wait_s := cast(LoginForm, form).wait_s:
            answer.status_code = 429
            answer["Retry-After"] = str(wait_s)
        return answer


def remember_browser(request: HttpRequest, answer: HttpResponseBase, user: User) -> None:
    """Let the browser bear the mark that the user logged in with it."""
    answer.set_cookie(
        throttle.DEVICE_COOKIE,
        throttle.device_cookie(user.get_username()),
        max_age=throttle.DEVICE_AGE_S,
        secure=request.is_secure(),
        httponly=True,
        samesite="Lax",
        path="/login/",
    )


class Logout(views.LogoutView):
    """Log out, in all windows of this browser at once."""

    def post(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        """End the session and the sockets that came with it."""
        user = request.user
        id_token = str(request.session.get(oidc_login.ID_TOKEN, ""))
        with transaction.atomic():
            if user.is_authenticated:
                audit.note("logout", by=user, name="")
                presence.rights_changed(user.pk)
            answer = super().post(request, *args, **kwargs)
        return oidc_login.leave(id_token, request) if id_token else answer


@page
@require_POST
def log_out_everywhere(request: PortalRequest) -> HttpResponse:
    """End all other sessions of the user; his tokens stay."""
    with transaction.atomic():
        ended = presence.end_sessions(request.user.pk, keep=request.session.session_key)
        audit.note("logout.everywhere", by=request.user, name="", sessions=ended)
    said = ngettext("%d other session was ended.", "%d other sessions were ended.", ended) % ended
    messages.success(request, said)
    return redirect("account")


class OwnPasswordForm(PasswordChangeForm):
    """The old password, each try of which counts, and the new one twice."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for field in self.fields.values():
            field.widget.attrs |= {"class": "form-control"}
            field.widget.attrs.pop("autofocus", None)  # the form is a part of a page

    def clean_old_password(self) -> str:
        """Refuse a wrong one."""
        given = str(self.cleaned_data["old_password"])
        try:
            right = passwords.is_old(self.user, given)
        except passwords.TooManyTries as tries:
            raise ValidationError(too_many(tries.wait_s), code=TOO_MANY) from None
        if not right:
            raise ValidationError(self.error_messages["password_incorrect"], code="password_incorrect")
        return given


def change_password(request: PortalRequest, form: OwnPasswordForm) -> None:
    """Set the new password, and log the user out everywhere else."""
    with transaction.atomic():
        passwords.change(request.user, form.cleaned_data["new_password1"], keep=request.session.session_key)
        auth.update_session_auth_hash(request, request.user)
    messages.success(request, _("Your password is changed; everywhere else you are logged out."))
