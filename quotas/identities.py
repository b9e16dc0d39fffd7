"""Who is who at the identity provider, and what its groups make of people: rows that operators edit."""

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _

from cluster import characters
from cluster.kept_names import KeepsNames


class ProviderIdentity(models.Model):
    """A user as the provider knows him: names and addresses change hands, the subject does not."""

    user = models.OneToOneField(settings.AUTH_USER_MODEL, models.CASCADE, related_name="provider_identity")
    issuer = models.CharField(max_length=255)
    subject = models.CharField(max_length=255)

    class Meta:
        verbose_name = _("identity at the provider")
        verbose_name_plural = _("identities at the provider")
        constraints = [models.UniqueConstraint(fields=["issuer", "subject"], name="identity_once")]

    def __str__(self) -> str:
        return self.subject


class GroupRule(KeepsNames):
    """What being in a group of the provider makes of somebody here."""

    class Gives(models.TextChoices):
        """The role: of a business, or of the platform."""

        MEMBER = "member", _("member")
        LEAD = "lead", _("lead")
        AUDITOR = "auditor", _("auditor")
        OPERATOR = "operator", _("operator")

    group = models.CharField(
        _("group"),
        max_length=255,
        help_text=_("As the provider writes it."),
        validators=[characters.one_line],
    )
    role = models.CharField(_("role"), max_length=16, choices=Gives.choices, default=Gives.MEMBER)
    business = models.ForeignKey(
        "quotas.Business",
        models.CASCADE,
        verbose_name=_("business"),
        null=True,
        blank=True,
        related_name="+",
        help_text=_("For members and leads; blank for roles of the platform."),
    )

    class Meta:
        verbose_name = _("group of the provider")
        verbose_name_plural = _("groups of the provider")
        constraints = [
            models.CheckConstraint(
                condition=Q(role__in=["member", "lead"], business__isnull=False)
                | Q(role__in=["auditor", "operator"], business__isnull=True),
                name="group_rule_has_its_business",
                violation_error_message=_(
                    "Members and leads need a business; roles of the platform have none."
                ),
            ),
            models.UniqueConstraint(fields=["group", "role", "business"], name="group_rule_once"),
        ]

    def __str__(self) -> str:
        return f"{self.group}: {self.get_role_display()}"
