"""Who belongs to a business, as operators change it: with a line in the audit, and the history that the admin shows."""

from django.contrib.auth.models import User
from django.db import transaction

from quotas import audit
from quotas.models import Business, Member


def put(business: Business, user: User, role: str, *, by: User) -> tuple[Member, bool]:
    """Let the user be this in the business; return the membership, and whether it is new."""
    with transaction.atomic():
        business.lock()  # of two who take him in at once, the second finds him there
        member = Member.objects.select_for_update().filter(business=business, user=user).first()
        new = member is None
        member = member or Member(business=business, user=user)
        if new or member.role != role or member.provider:
            member.role = role
            member.provider = False  # what operators decide, the identity provider changes no more
            member.save()
            audit.note(f"member.{'added' if new else 'changed'}", by=by, on=member, role=role)
    return member, new


def remove(member: Member, *, by: User) -> None:
    """Put somebody out of a business, and end at once what he opened with it."""
    with transaction.atomic():
        if Member.objects.select_for_update().filter(pk=member.pk).exists():  # else somebody was quicker
            audit.note("member.removed", by=by, on=member)
            member.delete()
