"""The door at which an API server asks whether an MPIJob may come in; it reads and changes nothing of ours."""

import json

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_POST

from cluster import mpijob_review


@csrf_exempt
@require_POST
def review(request: HttpRequest) -> HttpResponse:
    """Answer an AdmissionReview of admission.k8s.io/v1; `?prefix=oidc:` is taken off the names of people."""
    try:
        asked = json.loads(request.body)
        return JsonResponse(mpijob_review.answer(asked, request.GET.get("prefix", "")))
    except (ValueError, KeyError, TypeError, AttributeError):
        return JsonResponse({"error": "This is no AdmissionReview of an MPIJob."}, status=400)
