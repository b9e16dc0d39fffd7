"""What a call takes behind its question mark and gives back: said once, for the description and for what is refused."""

import logging
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

from django.contrib.auth.models import User
from django.db import IntegrityError, connection
from django.utils.translation import gettext
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.exceptions import AuthenticationFailed
from rest_framework.request import Request

from jobs.api import asking

Method = Callable[..., Any]
TASK_BY_TASK = "/api/v1/tasks/bulk/"  # what was done of it by then stays done, and is not to be done twice
log = logging.getLogger(__name__)


def described(*, parameters: Sequence[OpenApiParameter] = (), **said: Any) -> Callable[[Method], Method]:
    """Describe a method of a view, and refuse what an address asks for by a name that is not described here."""
    names = [each.name for each in parameters if each.location == OpenApiParameter.QUERY]

    def describe(method: Method) -> Method:
        @wraps(method)
        def calling(view: Any, request: Request, *args: Any, **kwargs: Any) -> Any:
            asking.nothing_else(request, names)
            try:
                return method(view, request, *args, **kwargs)
            except IntegrityError as error:
                _ask_once_more(request, error)
                return method(view, request, *args, **kwargs)

        calling.refuses_other_names = True  # type: ignore[attr-defined]  # for the test that looks at every method
        return extend_schema(parameters=list(parameters), **said)(calling)

    return describe


def _ask_once_more(request: Request, error: IntegrityError) -> None:
    """Let a call be made again that the database refused at its end: it finds things as they are now, and says so.

    Others changed what it names at this moment, such as the business that it is for, and nothing of it was done.
    Raises AuthenticationFailed where the caller himself is gone; the error where some of it may still go on.
    """
    if connection.in_atomic_block or request.path.startswith(TASK_BY_TASK):
        raise error
    log.warning("%s is asked once more: %s", request.path, error)
    if not User.objects.filter(pk=request.user.pk or 0).exists():
        raise AuthenticationFailed(gettext("This user is not known (any more)."))
