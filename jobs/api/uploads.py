"""Code on its way in, and what the caller's businesses know: uploads, models, datasets."""

from typing import Any

from django.conf import settings
from django.http import Http404
from django.utils.translation import gettext as _
from drf_spectacular.types import OpenApiTypes
from rest_framework.exceptions import APIException, Throttled
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from cluster import bundles
from jobs import uploads
from jobs.api import asking, queries, shapes
from jobs.api.described import described
from jobs.api.tasks import caller
from jobs.api.upload_door import BUSY, LONGEST_NUMBER
from jobs.config import Fault, Invalid
from jobs.materials import Code, Dataset
from jobs.source_fields import DIGEST
from quotas import access
from quotas.models import Business
from quotas.tokens import Scope

BUSY_S = 10  # after which one that found too many others before it may try again
KNOWN = ("id", "business__flag", "name", "params", "created_at")


class TooLarge(APIException):
    """The upload is larger than one may be."""

    status_code = 413
    default_code = "too_large"


class DiskFull(APIException):
    """The platform cannot keep it now."""

    status_code = 507
    default_code = "disk_full"


class Uploads(APIView):
    """Packed code of a business, by its digest."""

    scopes = {"PUT": Scope.SUBMIT}

    @described(
        operation_id="upload_read",
        parameters=[queries.UPLOAD_BUSINESS],
        responses=shapes.answers(200, shapes.UPLOAD),
    )
    def get(self, request: Request, digest: str) -> Response:
        """Say whether the code is there; HEAD says the same without a body."""
        found = uploads.find(_business(request), _hexadecimal(digest))
        if found is None:
            raise Http404
        return Response({"upload": str(found), "size": found.size})

    @described(
        operation_id="upload_send",
        parameters=[queries.UPLOAD_BUSINESS],
        request={"application/gzip": OpenApiTypes.BINARY},
        responses=shapes.answers(201, shapes.UPLOAD, 413, 507) | {(200, "application/json"): shapes.UPLOAD},
    )
    def put(self, request: Request, digest: str) -> Response:
        """Take packed code, a tar.gz whose SHA-256 is its name; 200 where it is there already."""
        business, name = _business(request), _hexadecimal(digest)
        if found := uploads.find(business, name):
            return Response({"upload": str(found), "size": found.size})
        if getattr(request, "scope", {}).get(BUSY):
            raise Throttled(BUSY_S, _("Too much is uploaded at once; send it again a little later."))
        given = request.headers.get("Content-Length", "")
        is_number = given.isascii() and given.isdigit()
        if is_number and (len(given) > LONGEST_NUMBER or int(given) > settings.UPLOAD_MIB * uploads.MIB):
            raise _too_large()
        made = _receive(request, business, name)
        return Response({"upload": str(made), "size": made.size}, status=201)


def _receive(request: Request, business: Business, digest: str) -> Any:
    try:
        return uploads.receive(business, caller(request), digest, request.read)
    except bundles.TooLarge as error:
        raise _too_large() from error
    except uploads.Full as error:
        message = _(
            "%(flag)s has uploaded %(most)d MiB, which is the most; unused code goes after %(days)d days."
        )
        said = {"flag": business.flag, "most": settings.UPLOADS_MIB, "days": settings.UPLOAD_KEEP_DAYS}
        raise TooLarge(message % said, code="uploads_full") from error
    except bundles.NoSpace as error:
        raise DiskFull(_("The platform's disk is full; nothing was kept.")) from error
    except bundles.WrongDigest as error:
        message = _("What came is not what its digest says; send it again.")
        raise Invalid([Fault("digest", "digest", message)]) from error
    except bundles.Unsafe as error:
        message = _("This code cannot be taken: %s") % error
        raise Invalid([Fault("", "unsafe", message)]) from error


def _too_large() -> TooLarge:
    return TooLarge(_("An upload may have %d MiB at most, packed.") % settings.UPLOAD_MIB)


def _business(request: Request) -> Business:
    """Return the business that the upload is for; others than the caller's do not exist for him."""
    flag = asking.text(request, "business")
    found = access.businesses_of(request.user).filter(flag=flag).first()
    if found is None:
        code = "unknown" if flag else "required"
        raise Invalid([Fault("business", code, _("Name a business of yours in ?business=."))])
    return found


def _hexadecimal(name: str) -> str:
    digest = name.removeprefix(DIGEST)
    if not name.startswith(DIGEST) or not bundles.DIGEST.fullmatch(digest):
        message = _('Write the upload\'s digest, "sha256:" and 64 hexadecimal digits.')
        raise Invalid([Fault("digest", "format", message)])
    return digest


class Models(APIView):
    """Code that the caller's businesses know."""

    @described(parameters=queries.PAGE, responses=shapes.answers(200, shapes.page_of(shapes.MODEL)))
    def get(self, request: Request) -> Response:
        """List what model_id may name, newest first."""
        rows = Code.objects.filter(business__in=access.businesses_seen_by(request.user))
        page = asking.page(request, rows.values(*KNOWN, "kind"))
        page["results"] = [_known(row) for row in page["results"]]
        return Response(page)


class Datasets(APIView):
    """Datasets that the caller's businesses know."""

    @described(parameters=queries.PAGE, responses=shapes.answers(200, shapes.page_of(shapes.DATASET)))
    def get(self, request: Request) -> Response:
        """List what dataset_id may name, newest first."""
        rows = Dataset.objects.filter(business__in=access.businesses_seen_by(request.user))
        page = asking.page(request, rows.values(*KNOWN))
        page["results"] = [_known(row) for row in page["results"]]
        return Response(page)


def _known(row: dict[str, Any]) -> dict[str, Any]:
    return {"business": row.pop("business__flag"), **row}
