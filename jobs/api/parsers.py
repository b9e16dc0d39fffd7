"""Read JSON bodies: bounded in size and depth, so that no body can cost more than it is worth."""

import json
from collections.abc import Mapping
from typing import IO, Any

from django.utils.translation import gettext_lazy as _
from rest_framework.exceptions import APIException, ParseError
from rest_framework.parsers import BaseParser

from jobs.parse import LONGEST


class TooLarge(APIException):
    """The body is longer than any document needs."""

    status_code = 413
    default_code = "too_large"
    default_detail = _("The body is larger than 256 KiB.")


class DocumentParser(BaseParser):
    """JSON in UTF-8, at most LONGEST bytes."""

    media_type = "application/json"

    def parse(
        self,
        stream: IO[Any],
        media_type: str | None = None,
        parser_context: Mapping[str, Any] | None = None,
    ) -> Any:
        """Return the values of the body; raises TooLarge or ParseError."""
        body = stream.read(LONGEST + 1)
        if len(body) > LONGEST:
            raise TooLarge
        try:
            return json.loads(body.decode(), parse_constant=_no_constant)
        except RecursionError:
            raise ParseError(_("The body is nested too deeply."), code="malformed") from None
        except ValueError as error:
            place = f" ({error.msg}, line {error.lineno})" if isinstance(error, json.JSONDecodeError) else ""
            raise ParseError(_("The body is not JSON.") + place, code="malformed") from None


def _no_constant(name: str) -> float:
    raise ValueError(name)
