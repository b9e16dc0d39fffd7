"""One's own password, over HTTP: it is read once, and stands in no answer, log or audit."""

from django.contrib.auth import update_session_auth_hash
from django.contrib.auth.models import User
from django.db import transaction
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from rest_framework.exceptions import PermissionDenied, Throttled
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from jobs.api import bodies, shapes
from jobs.api.described import described
from jobs.api.tasks import caller
from jobs.config import Fault, Invalid
from jobs.values import refuse, wrong_type
from quotas import access, passwords


def _password(value: object) -> str:
    """Take a text as it is: what stands at its ends is part of it."""
    if not isinstance(value, str):
        wrong_type(value, _('a text in quotes, such as "demo"'))
    if len(value) > passwords.LONGEST:
        most = passwords.LONGEST
        message = ngettext("At most %d character is taken.", "At most %d characters are taken.", most)
        refuse("length", message % most)
    if half := next((each for each in value if "\ud800" <= each <= "\udfff"), ""):
        refuse("character", _("The character %s is not allowed here; remove it.") % f"U+{ord(half):04X}")
    return value


FIELDS = {"old_password": _password, "new_password": _password}


class Password(APIView):
    """The caller's password."""

    @described(request=shapes.body(shapes.PASSWORD_BODY), responses=shapes.answers_without_body())
    def post(self, request: Request) -> Response:
        """Change one's own password: all other sessions end, tokens stay.

        It takes the old one, at which nobody may guess often (429), and a token that is for no business alone.
        """
        user = caller(request)
        if hasattr(user, access.BOUND):
            raise PermissionDenied(_("A token for one business alone changes no password."))
        given, faults = bodies.gathered(request.data, FIELDS, required=FIELDS)
        if not user.has_usable_password():
            message = _("You have no password here: the identity provider of your company lets you in.")
            raise Invalid([*faults, Fault("", "no_password", message)])
        if "old_password" in given and not _is_old(user, given["old_password"]):
            faults.append(Fault("old_password", "wrong", _("This is not your password.")))
        if "new_password" in given:
            refused = passwords.faults(user, given["new_password"])
            faults += [Fault("new_password", code, said) for code, said in refused]
        if faults:
            raise Invalid(faults)
        _change(request, user, given["new_password"])
        return Response(status=204)


def _is_old(user: User, given: str) -> bool:
    try:
        return passwords.is_old(user, given)
    except passwords.TooManyTries as tries:
        raise Throttled(wait=tries.wait_s) from None


def _change(request: Request, user: User, new: str) -> None:
    """Change it; who came with the session of a page stays in with that one."""
    with transaction.atomic():
        passwords.change(user, new, keep=None if request.auth else request._request.session.session_key)
        if not request.auth:
            update_session_auth_hash(request._request, user)
