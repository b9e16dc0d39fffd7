"""Whether the product is well, for those who watch it."""

import hmac

from django.conf import settings
from django.db import DatabaseError, connection
from django.http import HttpRequest, JsonResponse

from cluster import clock, logs
from cluster.models import Host
from jobs.engine import pulse

RECENTLY_S = 60


def healthz(request: HttpRequest) -> JsonResponse:
    """Answer 200 with how many hosts reported in the last minute and how long ago a pass ended (seconds).

    `pass_late` is true where that is so long ago that nothing starts any more, and `pass_cause` says what is known
    of why: `silent` (no pass begins), `failing` (they break off) or `running` (one does not end).
    `beat_late` is true where passes may well be made, but what is due by the minute was not done for five.
    `clock_off_s`: by how many seconds the clock of the server that is asked, or of the one that made the last pass,
    whichever is off more, is ahead of the database's; negative: behind.
    `log_room` is false where the platform's disk is so full that the logs of tasks grow no further.
    503 where the database is away. To who shows the join token it also says, in seconds since the epoch,
    when that pass ended and when each host last reported.
    """
    try:
        rows = Host.objects.values_list("name", "last_seen_at")
        seen = {name: at.timestamp() for name, at in rows if at is not None}
        passes = pulse.look()
    except DatabaseError:
        connection.close()
        return JsonResponse({"database": False}, status=503)
    now = clock.now().timestamp()
    answer: dict[str, object] = {
        "database": True,
        "hosts": sum(at >= now - RECENTLY_S for at in seen.values()),
        "last_pass_s": None if passes.age_s is None else round(passes.age_s, 1),
        "pass_late": passes.late,
        "pass_cause": passes.cause or None,
        "beat_late": passes.beat_late,
        "clock_off_s": round(passes.clock_off_s, 1),
        "log_room": logs.has_room(),
    }
    if _shows_join_token(request):
        answer |= {"seen": seen, "passed": passes.last_at.timestamp() if passes.last_at else 0.0}
    return JsonResponse(answer, headers={"Cache-Control": "no-store"})


def _shows_join_token(request: HttpRequest) -> bool:
    wanted = f"Bearer {settings.JOIN_TOKEN}".encode()
    shown = request.headers.get("Authorization", "").encode(errors="replace")
    return bool(settings.JOIN_TOKEN) and hmac.compare_digest(shown, wanted)
