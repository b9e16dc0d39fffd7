"""An operator takes a host out or gives it back: first whom it hits, then the reason, then the move."""

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods

from cluster import host_moves
from cluster.host_states import NEED_REASON, VERBS, State, target, verbs
from cluster.models import Host
from jobs import host_acts, host_words
from jobs.engine import host_preview
from jobs.portal.doors import PortalRequest, page
from jobs.portal.host_page import visible
from quotas import access


@page
@require_http_methods(["GET", "HEAD", "POST"])
def steer(request: PortalRequest, pk: int, verb: str) -> HttpResponse:
    """Ask before a host is moved, with whom it hits by a dry run of the scheduler; then move it."""
    if verb not in VERBS:
        raise Http404
    host = visible(request, pk)
    if not access.is_operator(request.user):
        raise PermissionDenied
    fault = ""
    if request.method == "POST":
        fault = _move(request, host, verb)
        if not fault:
            return redirect("host", pk=pk)
    return _question(request, host, verb, fault)


def _move(request: PortalRequest, host: Host, verb: str) -> str:
    """Do it from the state that the operator saw; return what keeps it from being done."""
    reason = request.POST.get("reason", "").strip()
    if fault := host_moves.fault_of(verb, reason):
        return fault
    seen = request.POST.get("seen", "")
    if seen != host.state:
        return _("%s was changed by somebody else just now: look again.") % host.name
    try:
        host_acts.act(host, verb, by=request.user, reason=reason)
    except host_moves.Refused as refused:
        return refused.message
    host.refresh_from_db()
    words = {"host": host.name, "state": host.get_state_display()}
    messages.success(request, _("%(host)s is %(state)s now.") % words)
    return ""


def _question(request: PortalRequest, host: Host, verb: str, fault: str) -> HttpResponse:
    new = target(State(host.state), verb)
    allowed = ", ".join(str(host_words.VERBS[known]) for known in verbs(State(host.state)))
    context = {
        "host": host,
        "verb": verb,
        "word": host_words.VERBS[verb],
        "does": host_words.WHAT_IT_DOES[verb],
        "legal": new is not None,
        "allowed": allowed,
        "hit": host_preview.preview(host, new) if new else None,
        "needs_reason": verb in NEED_REASON,
        "longest": host_moves.REASON_AT_MOST,
        "reason": request.POST.get("reason", ""),
        "fault": fault,
        "dangerous": verb in {"drain", "remove"},
    }
    return render(request, "host_verb.html", context, status=409 if fault else 200)
