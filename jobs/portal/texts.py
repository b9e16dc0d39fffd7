"""The JSON beside the form: what of both was changed last, and so is meant."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.utils.translation import gettext as _

from jobs import document as documents
from jobs.portal.entries import dumped
from jobs.portal.masks import masked, restored
from jobs.values import Fault, Invalid


@dataclass(frozen=True, slots=True, kw_only=True)
class Beside:
    """The text in the box, and what box and form were when the page last made them equal."""

    text: str
    text_mark: str
    form_mark: str

    @property
    def changed(self) -> bool:
        """Say whether the text was changed, and not taken over into the form yet."""
        return bool(self.text.strip()) and mark(self.text) != self.text_mark


def beside(post: Mapping[str, Any]) -> Beside:
    """Return what was sent of the box; browsers send each end of line as CRLF."""
    return Beside(
        text=str(post.get("json", "")).replace("\r\n", "\n"),
        text_mark=str(post.get("json_was", "")),
        form_mark=str(post.get("form_was", "")),
    )


def mark(text: str) -> str:
    """Return what tells two texts apart."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def mark_of(document: Mapping[str, Any]) -> str:
    """Return the mark of a form with this document."""
    return mark(dumped(masked(document)))


def read(text: str, before: Mapping[str, Any]) -> dict[str, Any]:
    """Return the document in a text, with the secrets of `before` where it only marks them; raises Invalid."""
    found = documents.parse_text(text)
    if not isinstance(found, dict):
        raise Invalid(documents.normalise(found).faults)
    if deep := [fault for fault in documents.normalise(found).faults if fault.code == "nesting"]:
        raise Invalid(deep)
    merged: dict[str, Any] = restored(found, before)
    return merged


def taken_over(box: Beside, document: dict[str, Any]) -> dict[str, Any]:
    """Return the document that is meant: the form's, or the text's where only that was changed; raises Invalid."""
    if not box.changed:
        return document
    found = read(box.text, document)
    if mark_of(document) != box.form_mark:
        message = _(
            "The form and its JSON were both changed: fill the form from the JSON, or empty the JSON."
        )
        raise Invalid([Fault("", "both", message)])
    return found
