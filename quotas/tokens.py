"""Keys to the API: hashed at rest, shown once, each for so much, for so long, and perhaps for one business alone."""

import hashlib
import secrets
from datetime import datetime, timedelta
from typing import Any, ClassVar

from django.conf import settings
from django.contrib.auth.models import User
from django.db import connection, models
from django.utils.translation import gettext_lazy as _

from cluster import characters, clock
from cluster.kept_names import KeepsNames
from cluster.prepared import Prepared

NOTED_EVERY = timedelta(minutes=1)  # a use that follows an earlier one sooner is not written


class Scope(models.TextChoices):
    """What a token may be used for; each includes the ones before it."""

    READ = "read", _("read")  # look, and ask what would become of a document
    SUBMIT = "submit", _("submit")  # also submit, upload and steer tasks
    MANAGE = "manage", _("manage")  # whatever its user may do

    def includes(self, other: "Scope") -> bool:
        """Say whether a token of this scope may do what needs the other."""
        order = list(Scope)
        return order.index(self) >= order.index(other)


class ApiTokenQuerySet(models.QuerySet["ApiToken"]):
    """Look-ups and making of tokens."""

    def issue(
        self,
        user: User,
        name: str,
        secret: str | None = None,
        *,
        scope: str = Scope.MANAGE,
        expires_at: datetime | None = None,
        business_id: int | None = None,
    ) -> str:
        """Make a token for `user` and return its text, which is kept nowhere."""
        secret = secret or secrets.token_urlsafe(32)
        self.create(
            user=user,
            name=name,
            digest=digest(secret),
            hint=secret[:HINT],
            scope=scope,
            expires_at=expires_at,
            business_id=business_id,
        )
        return secret

    def by_secret(self, secret: str) -> "ApiToken | None":
        """Return the valid token with this text, its user and his role at hand, or None; one query."""
        for row in _by_digest.ask(digest(secret)):
            token = _with_user(row)
            if token.user.is_active and not token.has_expired:
                return token
        return None


HINT = 4  # first letters of a token, by which people tell theirs apart; 40 remain


class ApiToken(KeepsNames):
    """A user's key to the API."""

    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.CASCADE, verbose_name=_("user"), related_name="api_tokens"
    )
    name = models.CharField(_("name"), max_length=64, validators=[characters.one_line])
    digest = models.CharField(max_length=64, unique=True, editable=False)
    hint = models.CharField(_("begins with"), max_length=HINT, blank=True, editable=False)
    scope = models.CharField(_("scope"), max_length=8, choices=Scope.choices, default=Scope.MANAGE)
    business = models.ForeignKey(
        "quotas.Business",
        models.CASCADE,
        verbose_name=_("business"),
        null=True,
        blank=True,
        related_name="api_tokens",
        help_text=_(
            "With this token its user is no more than he is in this business. Blank: all that he is."
        ),
    )
    created_at = models.DateTimeField(_("created"), default=clock.now, editable=False)
    expires_at = models.DateTimeField(
        _("expires"), null=True, blank=True, help_text=_("Blank: it is valid until it is revoked.")
    )
    last_used_at = models.DateTimeField(_("last used"), null=True, editable=False)

    objects: ClassVar[ApiTokenQuerySet] = ApiTokenQuerySet.as_manager()  # type: ignore[assignment]  # typed by its methods

    class Meta:
        verbose_name = _("API token")
        verbose_name_plural = _("API tokens")

    def __str__(self) -> str:
        return self.name

    @property
    def has_expired(self) -> bool:
        """Say whether its time is over."""
        return self.expires_at is not None and self.expires_at <= clock.now()

    def note_use(self) -> None:
        """Write down that it is used now, once a minute at most."""
        now = clock.now()
        if self.last_used_at is None or self.last_used_at <= now - NOTED_EVERY:
            ApiToken.objects.filter(pk=self.pk, last_used_at=self.last_used_at).update(last_used_at=now)


# What of a token and its user each call needs, in the order of the models; what else is asked for is read then.
TOKEN = ("id", "user_id", "name", "scope", "business_id", "expires_at", "last_used_at")
USER = ("id", "is_superuser", "username", "is_staff", "is_active")
_by_digest = Prepared(
    lambda value: ApiToken.objects.filter(digest=value).values_list(
        *TOKEN, *(f"user__{name}" for name in USER), "user__platform_role__id", "user__platform_role__role"
    ),
    str,
)


def _with_user(row: tuple[Any, ...]) -> ApiToken:
    token = ApiToken.from_db(connection.alias, TOKEN, row[: len(TOKEN)])
    token.user = User.from_db(connection.alias, USER, row[len(TOKEN) : -2])
    has_role, role = row[-2:]
    roles: Any = User._meta.get_field("platform_role")
    found = roles.related_model(pk=has_role, user=token.user, role=role) if has_role else None
    roles.set_cached_value(token.user, found)  # None: he has none, which was asked already
    return token


def digest(secret: str) -> str:
    """Return what is stored of a random secret of 128 bits or more (a slow hash would add nothing)."""
    return hashlib.sha256(secret.encode()).hexdigest()
