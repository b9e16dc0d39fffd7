"""What the identity provider's groups make of people here, followed at each login."""

from collections.abc import Collection

from django.contrib.auth.models import User
from django.db import transaction

from quotas import audit
from quotas.models import GroupRule, Member, PlatformRole


def follow(user: User, groups: Collection[str]) -> None:
    """Make the user what his groups say: what an earlier login gave and they say no more is taken away.

    What operators gave by hand stays as it is.
    """
    rules = list(GroupRule.objects.filter(group__in=list(groups)).select_related("business"))
    with transaction.atomic():
        _follow_businesses(user, [rule for rule in rules if rule.business_id is not None])
        _follow_platform(user, {rule.role for rule in rules if rule.business_id is None})


def _follow_businesses(user: User, rules: list[GroupRule]) -> None:
    leads = {rule.business_id for rule in rules if rule.role == GroupRule.Gives.LEAD}
    wanted = {rule.business.pk: rule.business for rule in rules if rule.business}
    there = {
        member.business_id: member for member in Member.objects.filter(user=user).select_related("business")
    }
    for pk, member in there.items():
        if member.provider and pk not in wanted:
            audit.note("member.left", by=user, on=member.business)
            member.delete()
    for pk, business in wanted.items():
        role = Member.Role.LEAD if pk in leads else Member.Role.MEMBER
        found = there.get(pk)
        if found is None:
            Member.objects.create(user=user, business=business, role=role, provider=True)
            audit.note("member.joined", by=user, on=business, role=role.value)
        elif found.provider and found.role != role:
            found.role = role
            found.save()
            audit.note("member.joined", by=user, on=business, role=role.value)


def _follow_platform(user: User, roles: set[str]) -> None:
    best = PlatformRole.Role.OPERATOR if PlatformRole.Role.OPERATOR in roles else next(iter(roles), "")
    found = PlatformRole.objects.filter(user=user).first()
    if found is not None and not found.provider:
        return
    if found is not None and found.role == best:
        return
    if found is not None:
        audit.note("role.taken", by=user, name=found.role)
        found.delete()
    if best:
        PlatformRole.objects.create(user=user, role=best, provider=True)
        audit.note("role.given", by=user, name=best)
