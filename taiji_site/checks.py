"""Checks of the settings: each fault has an id and a way out."""

from collections.abc import Sequence
from typing import Any

from cryptography.fernet import Fernet
from django.apps import AppConfig
from django.conf import settings
from django.core.checks import CheckMessage, Error, Tags, Warning, register

from jobs.values import Invalid, image
from taiji_site import env

WAY_OUT = "Run script/up once, which makes the secrets in the data folder, or set {}."


@register()
def environment_is_right(app_configs: Sequence[AppConfig] | None, **kwargs: Any) -> list[CheckMessage]:
    """Report every variable of the environment whose value was not understood."""
    return [Error(wrong, hint=way_out, id=check_id) for check_id, wrong, way_out in env.problems()]


@register()
def secrets_are_there(app_configs: Sequence[AppConfig] | None, **kwargs: Any) -> list[CheckMessage]:
    """Report secrets that are missing or not keys."""
    faults: list[CheckMessage] = []
    if not settings.SECRET_KEY_GIVEN:
        faults.append(
            Error("There is no secret key.", hint=WAY_OUT.format("TAIJI_SECRET_KEY"), id="taiji.E001")
        )
    if not settings.VAULT_KEYS or not all(map(_is_key, settings.VAULT_KEYS)):
        wrong = "A key of the vault is not a Fernet key." if settings.VAULT_KEYS else "The vault has no key."
        faults.append(Error(wrong, hint=WAY_OUT.format("TAIJI_VAULT_KEYS"), id="taiji.E005"))
    if not settings.JOIN_TOKEN:
        wrong = "There is no token for hosts to join with."
        faults.append(Error(wrong, hint=WAY_OUT.format("TAIJI_JOIN_TOKEN"), id="taiji.E006"))
    return faults


@register()
def default_image_has_a_name(app_configs: Sequence[AppConfig] | None, **kwargs: Any) -> list[CheckMessage]:
    """Report an image for all tasks that no engine could pull: no task that names none would ever start."""
    try:
        image(settings.DEFAULT_IMAGE)
    except Invalid:
        wrong = f"TAIJI_IMAGE={settings.DEFAULT_IMAGE!r} is not the name of an image."
        way_out = "Write it such as registry.example.com/team/name:tag, or unset TAIJI_IMAGE."
        return [Error(wrong, hint=way_out, id="taiji.E011")]
    return []


@register()
def provider_is_whole(app_configs: Sequence[AppConfig] | None, **kwargs: Any) -> list[CheckMessage]:
    """Report an identity provider without the name and secret by which it knows the platform."""
    names = {
        "TAIJI_OIDC_CLIENT_ID": settings.OIDC_RP_CLIENT_ID,
        "TAIJI_OIDC_CLIENT_SECRET": settings.OIDC_RP_CLIENT_SECRET,
    }
    missing = [name for name, value in names.items() if settings.OIDC_ISSUER and not value]
    way_out = "Take it from where the platform is registered with the provider, or unset TAIJI_OIDC_ISSUER."
    return [
        Error(f"{name} is not set, and TAIJI_OIDC_ISSUER is.", hint=way_out, id="taiji.E023")
        for name in missing
    ]


@register()
def mail_is_whole(app_configs: Sequence[AppConfig] | None, **kwargs: Any) -> list[CheckMessage]:
    """Report settings of mail that are set without the others: no mail would come, and nobody would know why."""
    names = ("TAIJI_MAIL_URL", "TAIJI_MAIL_FROM", "TAIJI_OPERATORS_MAIL")
    given = [name for name in names if env.text(name, "")]
    way_out = f"Set all of {', '.join(names)}, or none of them: then no mails are sent."
    return [
        Error(f"{name} is not set, and {given[0]} is.", hint=way_out, id="taiji.E026")
        for name in names
        if given and name not in given
    ]


@register(Tags.security, deploy=True)
def proxies_are_named(app_configs: Sequence[AppConfig] | None, **kwargs: Any) -> list[CheckMessage]:
    """Warn where everybody would seem to come from the proxy."""
    if settings.SECURE_PROXY_SSL_HEADER is None or settings.TRUSTED_PROXIES:
        return []
    wrong = (
        "TAIJI_BEHIND_TLS_PROXY is set, and TAIJI_TRUSTED_PROXIES is not: all seem to come from the proxy."
    )
    way_out = "Name the addresses of your proxies in TAIJI_TRUSTED_PROXIES, such as 10.0.0.5."
    return [Warning(wrong, hint=way_out, id="taiji.W001")]


@register(Tags.security, deploy=True)
def hosts_are_named(app_configs: Sequence[AppConfig] | None, **kwargs: Any) -> list[CheckMessage]:
    """Warn where the server answers to any name, so that links could lead elsewhere."""
    if "*" not in settings.ALLOWED_HOSTS:
        return []
    way_out = "Set it to the name that people type, such as taiji.example.com."
    return [Warning("TAIJI_ALLOWED_HOSTS is not set.", hint=way_out, id="taiji.W002")]


def _is_key(text: str) -> bool:
    try:
        Fernet(text)
    except ValueError:
        return False
    return True
