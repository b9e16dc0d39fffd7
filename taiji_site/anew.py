"""A page that the database refuses at its end, since others changed at that moment what it names, is asked once more.

Two who add the same row, or one who names a business that another deletes: each looked before, and nothing was in the
way. Asked again it finds things as they are now, and says so where it always does, such as under a field.
"""

import logging
from asyncio import iscoroutinefunction

from django.contrib.auth.models import User
from django.contrib.auth.views import redirect_to_login
from django.db import IntegrityError, connection
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.utils.deprecation import MiddlewareMixin

from cluster.unsaid import unsay

log = logging.getLogger(__name__)


class OnceMore(MiddlewareMixin):
    """Ask a page again; what it refuses by then is a fault of ours, and its trace is in the log as ever."""

    def process_exception(self, request: HttpRequest, exception: Exception) -> HttpResponseBase | None:
        """Return what the page says the second time; None for all other exceptions."""
        found = request.resolver_match
        if not isinstance(exception, IntegrityError) or found is None or request.path.startswith("/api/"):
            return None
        if iscoroutinefunction(found.func) or connection.in_atomic_block:  # some of it may go on
            return None
        log.warning("%s is asked once more: %s", request.path, exception)
        if request.user.is_authenticated and not User.objects.filter(pk=request.user.pk).exists():
            return redirect_to_login(request.get_full_path())
        unsay(request)
        answer: HttpResponseBase = found.func(request, *found.args, **found.kwargs)
        return answer
