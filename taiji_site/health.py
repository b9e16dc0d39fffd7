"""Whether the product is well, for those who watch it."""

import hmac

from django.conf import settings
from django.db import DatabaseError, connection
from django.http import HttpRequest, JsonResponse
from django.utils import timezone

from cluster import logs
from cluster.models import Host
from jobs.models import PassLease

RECENTLY_S = 60


def healthz(request: HttpRequest) -> JsonResponse:
    """Answer 200 with how many hosts reported in the last minute and how long ago a pass ended (seconds).

    `log_room` is false where the platform's disk is so full that the logs of tasks grow no further.
    503 where the database is away. To who shows the join token it also says, in seconds since the epoch,
    when that pass ended and when each host last reported.
    """
    try:
        rows = Host.objects.values_list("name", "last_seen_at")
        seen = {name: at.timestamp() for name, at in rows if at is not None}
        passed = PassLease.objects.values_list("finished_at", flat=True).first()
    except DatabaseError:
        connection.close()
        return JsonResponse({"database": False}, status=503)
    now = timezone.now().timestamp()
    answer: dict[str, object] = {
        "database": True,
        "hosts": sum(at >= now - RECENTLY_S for at in seen.values()),
        "last_pass_s": round(now - passed.timestamp(), 1) if passed else None,
        "log_room": logs.has_room(),
    }
    if _shows_join_token(request):
        answer |= {"seen": seen, "passed": passed.timestamp() if passed else 0.0}
    return JsonResponse(answer, headers={"Cache-Control": "no-store"})


def _shows_join_token(request: HttpRequest) -> bool:
    wanted = f"Bearer {settings.JOIN_TOKEN}".encode()
    shown = request.headers.get("Authorization", "").encode(errors="replace")
    return bool(settings.JOIN_TOKEN) and hmac.compare_digest(shown, wanted)
