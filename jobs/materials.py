"""What tasks bring along: uploads, and the code and the datasets that a business knows."""

from django.conf import settings
from django.db import models
from django.utils.translation import gettext_lazy as _

from cluster import clock
from quotas.models import Business


class Upload(models.Model):
    """Packed code that a member of a business sent; the bytes lie in cluster/bundles.py, once for all businesses."""

    business = models.ForeignKey(Business, models.CASCADE, related_name="uploads", db_index=False)
    digest = models.CharField(max_length=64)  # SHA-256 of the packed code, in hexadecimal
    size = models.BigIntegerField()  # bytes
    user = models.ForeignKey(settings.AUTH_USER_MODEL, models.PROTECT, related_name="+")
    created_at = models.DateTimeField(default=clock.now, editable=False)
    used_at = models.DateTimeField()  # when it was last sent, asked for or submitted with

    class Meta:
        verbose_name = _("upload")
        verbose_name_plural = _("uploads")
        constraints = [models.UniqueConstraint(fields=["business", "digest"], name="upload_once")]

    def __str__(self) -> str:
        return f"sha256:{self.digest}"


class Source(models.Model):
    """Something that a task named once, and later tasks of its business may name by number."""

    business = models.ForeignKey(Business, models.CASCADE, related_name="+", db_index=False)
    user = models.ForeignKey(settings.AUTH_USER_MODEL, models.PROTECT, related_name="+")  # who named it first
    name = models.CharField(_("name"), max_length=255, blank=True)
    params = models.JSONField()  # without secrets
    secrets = models.TextField(blank=True)  # in the vault
    # Of everything above but the user, keyed, so that asking for the same again finds it.
    fingerprint = models.CharField(max_length=64)
    created_at = models.DateTimeField(default=clock.now, editable=False)

    class Meta:
        abstract = True

    def __str__(self) -> str:
        return self.name or str(self.pk)


class Code(Source):
    """A "model" of the config document: code that was uploaded, or that lies in git."""

    class Kind(models.TextChoices):
        """Where it comes from."""

        UPLOAD = "upload", _("upload")
        GIT = "git", _("git")

    kind = models.CharField(max_length=8, choices=Kind.choices)

    class Meta:
        verbose_name = verbose_name_plural = _("known code")
        constraints = [models.UniqueConstraint(fields=["business", "fingerprint"], name="code_once")]


class Dataset(Source):
    """Private ceph folders to mount."""

    class Meta:
        verbose_name = _("known dataset")
        verbose_name_plural = _("known datasets")
        constraints = [models.UniqueConstraint(fields=["business", "fingerprint"], name="dataset_once")]
