"""Tokens for programs: made, listed and revoked by their users, those for one business by its leads too."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django import forms
from django.contrib import messages
from django.contrib.auth.models import User
from django.shortcuts import get_object_or_404
from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from cluster import clock
from jobs.portal.doors import PortalRequest
from jobs.values import bad_character
from quotas import access, issuing
from quotas.models import ApiToken, Business
from quotas.tokens import Scope

DAYS = (30, 90, 365)
FOR_EVER = "never"
SCOPES: dict[str, Promise] = {
    Scope.READ: gettext_lazy("read: look at tasks, logs, hosts and quotas"),
    Scope.SUBMIT: gettext_lazy("submit: also submit, upload and steer tasks"),
    Scope.MANAGE: gettext_lazy("manage: all that you may do"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """A token that was made just now; its text is shown this once."""

    name: str
    secret: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A token as lists show it."""

    id: int
    name: str
    hint: str
    user: str
    scope: str
    business: str
    created_at: datetime
    expires_at: datetime | None
    expired: bool
    last_used_at: datetime | None
    revocable: bool


class TokenForm(forms.Form):
    """What a token is called, and how far and how long it goes."""

    name = forms.CharField(
        label=gettext_lazy("What it is for"),
        max_length=64,
        widget=forms.TextInput(attrs={"class": "form-control", "autocomplete": "off"}),
    )
    scope = forms.ChoiceField(
        label=gettext_lazy("What it may do"),
        choices=list(SCOPES.items()),
        initial=Scope.SUBMIT,
        widget=forms.Select(attrs={"class": "form-select"}),
    )
    days = forms.ChoiceField(
        label=gettext_lazy("How long it is valid"),
        initial=str(DAYS[1]),
        widget=forms.Select(attrs={"class": "form-select"}),
    )
    business = forms.ModelChoiceField(
        label=gettext_lazy("For which business"),
        queryset=Business.objects.none(),
        required=False,
        empty_label=gettext_lazy("All of mine"),
        widget=forms.Select(attrs={"class": "form-select"}),
    )

    def __init__(self, data: Any, *, user: User) -> None:
        super().__init__(data)
        self._user = user
        days, business = self.fields["days"], self.fields["business"]
        assert isinstance(days, forms.ChoiceField)
        assert isinstance(business, forms.ModelChoiceField)
        days.choices = [
            *((str(days), ngettext("%d day", "%d days", days) % days) for days in DAYS),
            (FOR_EVER, _("until it is revoked")),
        ]
        business.queryset = Business.objects.filter(member__user=user)

    def clean_name(self) -> str:
        """Refuse what no line can show."""
        name = str(self.cleaned_data["name"]).strip()
        if bad_character(name, lines=False):
            raise forms.ValidationError(_("Write printable characters."))
        return name

    def clean(self) -> dict[str, Any]:
        """Refuse one too many."""
        if not issuing.has_room(self._user):
            raise forms.ValidationError(_full())
        return self.cleaned_data


def _full() -> str:
    return _("You have %d tokens: revoke one first.") % issuing.MOST


def make(user: User, form: TokenForm) -> Made | None:
    """Make the token that a valid form describes; None, and a fault of the form, where it is one too many now."""
    said = form.cleaned_data
    days = said["days"]
    until = None if days == FOR_EVER else clock.now() + timedelta(days=int(days))
    try:
        _token, secret = issuing.issue(
            user, said["name"], scope=said["scope"], expires_at=until, business=said["business"]
        )
    except issuing.Full:
        form.add_error(None, _full())
        return None
    return Made(name=said["name"], secret=secret)


def revoke(request: PortalRequest, pk: int) -> None:
    """End a token at once; one that the user may not deal with is not there for him."""
    token = get_object_or_404(issuing.revocable_by(request.user), pk=pk)
    issuing.revoke(token, request.user)
    messages.success(request, _("The token “%(name)s” is revoked.") % {"name": token.name})


def own(user: User) -> list[Row]:
    """Return the tokens of the user, newest first."""
    return _rows(ApiToken.objects.filter(user=user), lambda _business: True)


def of_businesses(user: User) -> list[Row]:
    """Return the tokens of others that are for one of the businesses which the user leads or oversees."""
    led = set(access.businesses_led_by(user).values_list("pk", flat=True))
    seen = ApiToken.objects.filter(business__in=access.businesses_overseen_by(user)).exclude(user=user)
    return _rows(seen, led.__contains__)


def _rows(tokens: Any, revocable: Any) -> list[Row]:
    return [
        Row(
            id=token.pk,
            name=token.name,
            hint=token.hint,
            user=token.user.get_username(),
            scope=token.get_scope_display(),
            business=token.business.flag if token.business else "",
            created_at=token.created_at,
            expires_at=token.expires_at,
            expired=token.has_expired,
            last_used_at=token.last_used_at,
            revocable=revocable(token.business_id),
        )
        for token in tokens.select_related("user", "business").order_by("-pk")
    ]
