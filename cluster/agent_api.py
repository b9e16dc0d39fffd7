"""The doors that agents knock at: register, sync, log, code (see cluster/agent/protocol.py)."""

import asyncio
import functools
import hmac
import json
import uuid
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from django.conf import settings
from django.core.exceptions import RequestDataTooBig
from django.db.models import Q
from django.http import HttpRequest, HttpResponseBase, JsonResponse, StreamingHttpResponse
from django.utils.translation import gettext as _
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from cluster import (
    admission,
    bundles,
    clock,
    fencing,
    hints,
    hub,
    inventory,
    logs,
    pod_tokens,
    reports,
    sync,
    threads,
)
from cluster.agent.protocol import OLDEST, PROTOCOL
from cluster.fields import Fault, Fields, Malformed
from cluster.models import Host, Instance

LONGEST_WAIT_S = 30.0
P = ParamSpec("P")
R = TypeVar("R")


class Refused(Exception):
    """The call is answered with this status and these faults."""

    def __init__(self, status: int, *faults: Fault, **more: object) -> None:
        """Keep the answer."""
        super().__init__(status)
        self.answer = JsonResponse({"errors": [asdict(fault) for fault in faults], **more}, status=status)


def _refuse(status: int, code: str, message: str, field: str = "", **more: object) -> Refused:
    return Refused(status, Fault(field=field, code=code, message=message), **more)


def _answers(view: Callable[P, JsonResponse]) -> Callable[P, JsonResponse]:
    """Answer with what a refusal says."""

    @functools.wraps(view)
    def answering(*args: P.args, **kwargs: P.kwargs) -> JsonResponse:
        try:
            return view(*args, **kwargs)
        except Refused as refused:
            return refused.answer

    return answering


@csrf_exempt
@require_POST
async def register(request: HttpRequest) -> JsonResponse:
    """Take in a host that knows the join token, and give it a token of its own."""
    return await threads.run(_register, request)


@_answers
def _register(request: HttpRequest) -> JsonResponse:
    if not settings.JOIN_TOKEN or not hmac.compare_digest(
        _secret(request).encode(), str(settings.JOIN_TOKEN).encode()
    ):
        raise _refuse(401, "join_token", _("The join token is not right."))
    document = _document(request)
    fields = Fields(document)
    name, region = fields.name("name", 128), fields.name("region", 64, blank=True)
    address = fields.name("address", 255, blank=True)
    try:
        fields.check()
        host, secret = inventory.register(name, region, address)
    except Malformed as error:
        raise Refused(400, *error.faults) from error
    except inventory.NameTaken as error:
        raise _refuse(
            409,
            "taken",
            _(
                "A host named %(name)s is registered already. An operator can free the name on the page of "
                "the host in the admin; then register again."
            )
            % {"name": name},
            "name",
        ) from error
    return JsonResponse({"host": host, "token": secret}, status=201)


@csrf_exempt
@require_POST
async def sync_host(request: HttpRequest) -> JsonResponse:
    """Take a host's report and answer with what it should run, as soon as that is news to it."""
    mark = hub.mark()
    try:
        report, host, desired = await threads.run(_take, request)
        if desired.version == report.have and report.wait_s > 0:
            desired = await _wait(host, report, desired, mark)
    except Refused as refused:
        return refused.answer
    except sync.Late:
        return _refuse(409, "late", _("A newer report of this host was taken before.")).answer
    return JsonResponse(desired.document(clock.now()))


async def _wait(host: Host, report: reports.Report, desired: sync.Desired, mark: hub.Mark) -> sync.Desired:
    """Return what the host should run once that is news, or what it knows when it waited long enough.

    Nothing is read again where nothing was told since the mark, not even at the end: the agent's next report
    follows at once, and a hint that was lost costs no more.
    """
    loop = asyncio.get_running_loop()
    until = loop.time() + min(report.wait_s, LONGEST_WAIT_S)
    async with hub.listen(hints.host_topic(host.pk), read_after=mark) as listener:
        while desired.version == report.have and await listener.changed(until - loop.time()):
            desired = await threads.run(sync.desired, host, report)
    return desired


def _take(request: HttpRequest) -> tuple[reports.Report, Host, sync.Desired]:
    clock.follow()
    host = _host(request)
    document = _document(request, host)
    try:
        report = reports.read(document)
        return report, host, sync.take(host, report, clock.now())
    except Malformed as error:
        raise Refused(400, *error.faults) from error
    except sync.NotKnown as error:
        raise _not_known() from error
    except fencing.Refused as refused:
        raise _refuse(409, refused.code, admission.sentence(refused, host.name)) from refused


@require_GET
async def packed_code(request: HttpRequest, digest: str) -> HttpResponseBase:
    """Send the packed code that an instance of the calling host, or the calling pod, needs."""
    try:
        path, size = await threads.run(_packed_code, request, digest)
    except Refused as refused:
        return refused.answer
    response = StreamingHttpResponse(bundles.stream(path), content_type="application/gzip")
    response["Content-Length"] = str(size)
    return response


def _packed_code(request: HttpRequest, digest: str) -> tuple[Path, int]:
    asks = pod_tokens.instance_of(_secret(request))
    theirs = Q(pk=asks) if asks else Q(host=_host(request))
    # Also one that is wanted no more: its host may not know yet, and would take a refusal for a fault of the code.
    live = Instance.objects.filter(theirs).exclude(phase=Instance.Phase.GONE)
    needed = ((spec.get("code") or {}).get("digest") for spec in live.values_list("spec", flat=True))
    if digest not in needed:  # the same answer for what is not there: a host learns only of its own
        raise _refuse(404, "unknown", _("No instance of this host needs such code."))
    path = bundles.path_of(digest)
    try:
        return path, path.stat().st_size
    except FileNotFoundError as error:
        raise _refuse(404, "gone", _("The platform has this code no more: upload it again.")) from error


@csrf_exempt
@require_http_methods(["PUT"])
async def append_log(request: HttpRequest, instance: uuid.UUID) -> JsonResponse:
    """Append to the log of an instance of the calling host."""
    return await threads.run(_append, request, instance)


@_answers
def _append(request: HttpRequest, instance: uuid.UUID) -> JsonResponse:
    host = _host(request)
    known = Instance.objects.filter(pk=instance, host=host).values_list("gang", "log_removed_at").first()
    if known is None:
        raise _refuse(404, "unknown", _("This host has no such instance."))
    gang, removed_at = known
    if removed_at is not None:
        raise _refuse(410, "removed", _("This log was old and is removed: nothing is added to it."))
    part = _part(request)
    try:
        end = logs.append(instance, _offset(request), part)
    except logs.Gap as gap:
        raise _refuse(409, "gap", _("Bytes in between are missing."), "offset", end=gap.end) from gap
    except logs.Full as full:
        raise _refuse(413, "full", _("The log is full: what follows is not kept."), end=full.end) from full
    except logs.NoSpace as error:
        raise _refuse(507, "no_space", _("The platform's disk is full; send it again later.")) from error
    if part:  # an empty one only asks for the end
        hints.publish(f"log.{gang}")
    return JsonResponse({"end": end})


def _offset(request: HttpRequest) -> int:
    value = request.GET.get("offset", "")
    if not (value.isascii() and value.isdigit() and len(value) <= 18):
        raise _refuse(400, "value", _("A number of bytes is needed."), "offset")
    return int(value)


def _part(request: HttpRequest) -> bytes:
    data = request.read(logs.PART_AT_MOST + 1)
    if len(data) > logs.PART_AT_MOST:
        raise _refuse(
            413, "too_big", _("At most %(most)d bytes are taken at a time.") % {"most": logs.PART_AT_MOST}
        )
    return data


def _secret(request: HttpRequest) -> str:
    kind, _space, secret = request.headers.get("Authorization", "").partition(" ")
    return secret.strip() if kind.lower() == "bearer" else ""


def _host(request: HttpRequest) -> Host:
    host = sync.host_of(_secret(request))
    if host is None:
        raise _not_known()
    return host


def _not_known() -> Refused:
    return _refuse(401, "token", _("The host's token is not valid, or not any more."))


def _document(request: HttpRequest, host: Host | None = None) -> Any:
    """Return the JSON document of a call, in a protocol that is spoken here; `host` calls, where it is known."""
    try:
        document = json.loads(request.body)
    except RequestDataTooBig as error:
        raise _refuse(413, "too_big", _("The document is too big.")) from error
    except (ValueError, RecursionError) as error:  # the second: nested too deeply
        raise _refuse(400, "json", _("The body is not JSON: %(error)s.") % {"error": error}) from error
    protocol = reports.protocol_of(document)
    if protocol is None:
        raise _refuse(400, "required", _("The protocol's number is needed."), "protocol")
    if protocol < OLDEST:
        if host is not None:
            admission.note_too_old(host, protocol, clock.now())
        raise _too_old(protocol)
    return document


def _too_old(protocol: int) -> Refused:
    return _refuse(
        426,
        "too_old",
        _(
            "This agent speaks protocol %(theirs)d, the platform %(ours)d and the one before: install a newer agent, "
            "of the platform's version. What runs on the host runs on meanwhile."
        )
        % {"theirs": protocol, "ours": PROTOCOL},
        "protocol",
    )
