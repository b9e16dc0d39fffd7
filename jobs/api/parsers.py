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
    default_detail = _("The body is larger than is taken.")


class DocumentParser(BaseParser):
    """JSON in UTF-8, of bounded length."""

    media_type = "application/json"
    longest = LONGEST  # bytes

    def parse(
        self,
        stream: IO[Any],
        media_type: str | None = None,
        parser_context: Mapping[str, Any] | None = None,
    ) -> Any:
        """Return the values of the body; raises TooLarge or ParseError."""
        body = stream.read(self.longest + 1)
        if len(body) > self.longest:
            raise TooLarge(_("The body is larger than %d KiB.") % (self.longest // 1024))
        try:
            return json.loads(body.decode(), parse_constant=_no_constant)
        except RecursionError:
            raise ParseError(_("The body is nested too deeply."), code="malformed") from None
        except ValueError as error:
            place = f" ({error.msg}, line {error.lineno})" if isinstance(error, json.JSONDecodeError) else ""
            way = _("Quotes, commas and brackets are what breaks it most often; comments are none of JSON.")
            raise ParseError(_("The body is not JSON.") + f"{place} {way}", code="malformed") from None


class ManyDocumentsParser(DocumentParser):
    """The same for many documents in one body."""

    longest = 2 * 1024 * 1024  # of what the door of the web process lets in


def _no_constant(name: str) -> float:
    raise ValueError(name)
