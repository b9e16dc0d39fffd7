"""Who may see and do what: the one place where that is decided.

Of a business one is a member or a lead, of the platform an operator or an auditor. Operators (superusers among
them) see and do everything; auditors see everything and change nothing by that. Whoever is several of these may do
what any of them may. What somebody may not see does not exist for him.
"""

from collections.abc import Callable

from django.contrib.auth.base_user import AbstractBaseUser
from django.contrib.auth.models import AnonymousUser
from django.db import connection
from django.db.models import QuerySet

from cluster.prepared import Prepared
from quotas.models import Business, Member, PlatformRole

AnyUser = AbstractBaseUser | AnonymousUser
ROLE = "platform_role"  # of a user; read with the user where that saves a query
BOUND = "bound_to_business"  # of a user who comes with a token for one business alone


def bind(user: AnyUser, business_id: int) -> None:
    """Let this `user` be no more than what he is in the one business: his token was made for that alone."""
    setattr(user, BOUND, business_id)


def _platform_role(user: AnyUser) -> str:
    if not user.is_authenticated or not user.is_active or hasattr(user, BOUND):
        return ""
    if getattr(user, "is_superuser", False):
        return PlatformRole.Role.OPERATOR
    found = getattr(user, ROLE, None)  # none: the exception of a row that is missing is an AttributeError
    return found.role if found else ""


def is_operator(user: AnyUser) -> bool:
    """Say whether `user` runs the platform; operators act for any business."""
    return _platform_role(user) == PlatformRole.Role.OPERATOR


def is_auditor(user: AnyUser) -> bool:
    """Say whether `user` may look at everything, and by that change nothing."""
    return _platform_role(user) == PlatformRole.Role.AUDITOR


def sees_all(user: AnyUser) -> bool:
    """Say whether everything exists for `user`: for operators and auditors."""
    return bool(_platform_role(user))


def businesses_of(user: AnyUser) -> QuerySet[Business]:
    """Return the businesses that `user` may submit for."""
    return Business.objects.all() if is_operator(user) else _businesses(user)


_COLUMNS = ("id", "flag", "name")
_named = Prepared(lambda flag: Business.objects.filter(flag=flag).values_list(*_COLUMNS), str)
_of_member = Prepared(
    lambda user, flag: Business.objects.filter(member__user=user, flag=flag).values_list(*_COLUMNS),
    *(int, str),
)
_ids_of_member = Prepared(
    lambda user: Business.objects.filter(member__user=user).order_by("pk").values_list("pk"), int
)


def business_named(user: AnyUser, flag: str) -> Business | None:
    """Return the one of `businesses_of` with this name, by a query that is written already."""
    if is_operator(user):
        found = _named.ask(flag)
    else:
        found = _of_member.ask(user.pk, flag) if user.is_authenticated and user.is_active else []
    for row in found:
        if row[0] == getattr(user, BOUND, row[0]):
            return Business.from_db(connection.alias, _COLUMNS, row)
    return None


def businesses_seen_by(user: AnyUser) -> QuerySet[Business]:
    """Return the businesses that exist for `user`: he sees their tasks, quotas, code and datasets."""
    return Business.objects.all() if sees_all(user) else businesses_of(user)


def ids_seen_by(user: AnyUser) -> tuple[int, ...] | None:
    """Return the ids of `businesses_seen_by`, rising, by a query that is written already; None: all there are."""
    if sees_all(user):
        return None
    found = _ids_of_member.ask(user.pk) if user.is_authenticated and user.is_active else []
    return tuple(pk for (pk,) in found if pk == getattr(user, BOUND, pk))


def businesses_led_by(user: AnyUser) -> QuerySet[Business]:
    """Return the businesses that `user` leads: all their tasks, templates and tokens are his to deal with."""
    return Business.objects.all() if is_operator(user) else _businesses(user, role=Member.Role.LEAD)


def businesses_overseen_by(user: AnyUser) -> QuerySet[Business]:
    """Return the businesses of which `user` sees what leads see: their people, tokens and use by person."""
    return Business.objects.all() if sees_all(user) else businesses_led_by(user)


def leads(user: AnyUser, business_id: int) -> bool:
    """Say whether `user` may deal with all that belongs to the business."""
    return is_operator(user) or businesses_led_by(user).filter(pk=business_id).exists()


def may_steer(user: AnyUser, business_id: int, owner_id: int) -> bool:
    """Say whether `user` may stop, hold, release or free a task of `owner_id` in the business."""
    if is_operator(user):
        return True
    mine = _member(user).filter(business=business_id)
    return (mine if owner_id == user.pk else mine.filter(role=Member.Role.LEAD)).exists()


def steering(user: AnyUser) -> Callable[[int, int], bool]:
    """Return `may_steer` of `user` for many tasks: two queries now, none for each of them."""
    if is_operator(user):
        return lambda _business, _owner: True
    mine = set(businesses_of(user).values_list("pk", flat=True))
    led = mine & set(businesses_led_by(user).values_list("pk", flat=True))
    return lambda business, owner: business in led or (business in mine and owner == user.pk)


def _businesses(user: AnyUser, **member: str) -> QuerySet[Business]:
    """Return the businesses of which `user` is such a member; an inactive one is of none."""
    if not user.is_authenticated or not user.is_active:
        return Business.objects.none()
    found = Business.objects.filter(
        member__user=user.pk, **{f"member__{name}": value for name, value in member.items()}
    )
    return found.filter(pk=getattr(user, BOUND)) if hasattr(user, BOUND) else found


def _member(user: AnyUser) -> QuerySet[Member]:
    """Return the memberships of `user` that count: none of one who was put out."""
    if not user.is_authenticated or not user.is_active:
        return Member.objects.none()
    mine = Member.objects.filter(user=user.pk)
    return mine.filter(business=getattr(user, BOUND)) if hasattr(user, BOUND) else mine
