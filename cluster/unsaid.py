"""What a page said to its user before it turned out not to be so."""

from django.contrib.messages.storage import default_storage
from django.http import HttpRequest


def unsay(request: HttpRequest) -> None:
    """Forget the messages of this request, and keep those that came before it."""
    request._messages = default_storage(request)  # type: ignore[attr-defined]  # where Django keeps them
