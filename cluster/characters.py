"""Characters that no stored text may hold: what is not seen, or turns the reading direction of what follows."""

import unicodedata

from django.core.exceptions import ValidationError
from django.utils.translation import gettext as _

_BREAKS = "\u2028\u2029"  # lines to some, and none to others
_JOINERS = "\u200c\u200d"
_SKINS = range(0x1F3FB, 0x1F400)  # colours of emoji


def bad_character(value: str, *, lines: bool) -> str:
    """Return the first character (as U+XXXX) that no stored text may hold, or the empty text.

    A text of one line is told from others by what is seen of it: of two names nobody could say which is which if one
    had a character of no width. Where there may be `lines`, which are read by programs, those may stand.
    """
    if value.isprintable():  # as good as always, and told by one call
        return ""
    before = ""
    for character in value:
        if not _is_good(character, before, lines):
            return f"U+{ord(character):04X}"
        before = character
    return ""


def one_line(value: str) -> None:
    """Check a text for a field of a model or a form. Raises ValidationError."""
    if bad := bad_character(value, lines=False):
        raise ValidationError(_("The character %s is not allowed here; remove it.") % bad)


def _is_good(character: str, before: str, lines: bool) -> bool:
    if character.isprintable():
        return True
    kind = unicodedata.category(character)
    if lines:
        return character in "\n\r\t" or kind not in {"Cc", "Cs"}
    if character in _JOINERS:
        return before != "" and _is_joined(before)
    return kind not in {"Cc", "Cf", "Cs"} and character not in _BREAKS


def _is_joined(before: str) -> bool:
    """Say whether a joiner is seen behind this: in emoji made of several, and in scripts whose letters join."""
    is_sign = unicodedata.category(before) in {"So", "Mn"} or ord(before) in _SKINS
    return is_sign or unicodedata.bidirectional(before) == "AL"
