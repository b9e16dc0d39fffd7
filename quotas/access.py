"""Who may see and do what: the one place where that is decided."""

from collections.abc import Callable

from django.contrib.auth.base_user import AbstractBaseUser
from django.contrib.auth.models import AnonymousUser
from django.db.models import QuerySet

from quotas.models import Business, Member

AnyUser = AbstractBaseUser | AnonymousUser


def is_operator(user: AnyUser) -> bool:
    """Say whether `user` runs the platform; operators act for any business."""
    return bool(user.is_active and getattr(user, "is_superuser", False))


def businesses_of(user: AnyUser) -> QuerySet[Business]:
    """Return the businesses that `user` may submit for and whose tasks he sees."""
    if is_operator(user):
        return Business.objects.all()
    if not user.is_authenticated or not user.is_active:
        return Business.objects.none()
    return Business.objects.filter(member__user=user.pk)


def businesses_led_by(user: AnyUser) -> QuerySet[Business]:
    """Return the businesses that `user` is a lead of."""
    return Business.objects.filter(member__user=user.pk, member__role=Member.Role.LEAD)


def may_steer(user: AnyUser, business_id: int, owner_id: int) -> bool:
    """Say whether `user` may stop, hold, release or free a task of `owner_id` in the business."""
    if is_operator(user):
        return True
    mine = Member.objects.filter(business=business_id, user=user.pk)
    return (mine if owner_id == user.pk else mine.filter(role=Member.Role.LEAD)).exists()


def steering(user: AnyUser) -> Callable[[int, int], bool]:
    """Return `may_steer` of `user` for many tasks: two queries now, none for each of them."""
    if is_operator(user):
        return lambda _business, _owner: True
    mine = set(businesses_of(user).values_list("pk", flat=True))
    led = mine & set(businesses_led_by(user).values_list("pk", flat=True))
    return lambda business, owner: business in led or (business in mine and owner == user.pk)
