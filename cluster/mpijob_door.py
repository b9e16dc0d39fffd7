"""The door at which an API server asks whether an MPIJob may come in; it reads and changes nothing of ours."""

import json

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_POST

from cluster import mpijob_review

LARGEST = 8 * 2**20  # bytes: of a change both objects are sent, each of up to 1.5 MiB, as much as etcd keeps


@csrf_exempt
@require_POST
def review(request: HttpRequest) -> HttpResponse:
    """Answer an AdmissionReview of admission.k8s.io/v1; `?prefix=oidc:` is taken off the names of people."""
    try:
        asked = json.loads(request.read(LARGEST))  # not `body`, which takes no more than a page's form
        return JsonResponse(mpijob_review.answer(asked, request.GET.get("prefix", "")))
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError):
        return JsonResponse({"error": "This is no AdmissionReview of an MPIJob."}, status=400)
