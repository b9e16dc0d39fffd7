"""What a call takes behind its question mark and gives back: said once, for the description and for what is refused."""

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.request import Request

from jobs.api import asking

Method = Callable[..., Any]


def described(*, parameters: Sequence[OpenApiParameter] = (), **said: Any) -> Callable[[Method], Method]:
    """Describe a method of a view, and refuse what an address asks for by a name that is not described here."""
    names = [each.name for each in parameters if each.location == OpenApiParameter.QUERY]

    def describe(method: Method) -> Method:
        @wraps(method)
        def calling(view: Any, request: Request, *args: Any, **kwargs: Any) -> Any:
            asking.nothing_else(request, names)
            return method(view, request, *args, **kwargs)

        calling.refuses_other_names = True  # type: ignore[attr-defined]  # for the test that looks at every method
        return extend_schema(parameters=list(parameters), **said)(calling)

    return describe
