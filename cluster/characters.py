"""Characters of names that are made or changed: none that is not seen, or turns the reading direction of what follows.

Of what is looked up only what no database takes is refused: older rows hold what the rule refuses by now.
"""

import re
import unicodedata

from django.core.exceptions import ValidationError
from django.utils.translation import gettext as _

# Default_Ignorable_Code_Point of Unicode's DerivedCoreProperties.txt: nothing is shown of them.
_IGNORABLE = (
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164"
    "\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufff8\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
_UNSEEN = re.compile(f"[{_IGNORABLE}\u2800]")  # the last: braille without a dot
_NO_LINES = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff]")
_NOT_KEPT = re.compile("[\x00\ud800-\udfff]")
_SPACES = " \u3000"  # the second is as wide as the letters beside it
_JOINERS, _LOOKS = "\u200c\u200d", "\ufe0e\ufe0f"
# Scripts of which some letters change their form beside a joiner: Arabic to Myanmar, Khmer, Mongolian and others.
_JOINING = re.compile(
    "[\u0600-\u109f\u1700-\u1c7f\u1cd0-\u1cff\ua800-\uaaff\uabc0-\uabff\ufb50-\ufdff\ufe70-\ufefc"
    "\U00010a00-\U00011fff\U0001e900-\U0001e95f]"
)
_MONGOLIAN, _MONGOLIAN_SIGNS = re.compile("[\u1820-\u18aa]"), "\u180b\u180c\u180d\u180e\u180f\u202f"
_PICTURES = "\u203c\u2049\u2139\u3030\u303d"  # of two looks each, and no symbols by their category
# Pictures and ideographs, also those that this Python does not know yet.
_TO_COME = re.compile("[\U0001f000-\U0001faff\U00020000-\U0003fffd]")
_FLAGS = re.compile(  # of England, Scotland and Wales: the black flag with letters that are not seen
    "\U0001f3f4\U000e0067\U000e0062"
    "(?:\U000e0065\U000e006e\U000e0067|\U000e0073\U000e0063\U000e0074|\U000e0077\U000e006c\U000e0073)\U000e007f"
)


def bad_character(value: str, *, lines: bool) -> str:
    """Return the first character (as U+XXXX) that no text may be given, or the empty text.

    A text of one line is told from others by what is seen of it: of two names nobody could say which is which if one
    had a character of no width. Where there may be `lines`, which are read by programs, those may stand.
    """
    if lines:
        found = _NO_LINES.search(value)
        return _code(found[0]) if found else ""
    if value.isprintable() and not _UNSEEN.search(value):  # as good as always
        return ""
    signs = " " + _FLAGS.sub("\U0001f3f4", value) + " "
    for before, character, after in zip(signs, signs[1:], signs[2:], strict=False):
        if not _is_good(before, character, after):
            return _code(character)
    return ""


def one_line(value: str) -> None:
    """Check a text for a field of a model or a form. Raises ValidationError."""
    if bad := bad_character(value, lines=False):
        raise ValidationError(_("The character %s is not allowed here; remove it.") % bad)


def not_kept(value: str) -> str:
    """Return the first character (as U+XXXX) that no database takes, or the empty text: nothing is called so."""
    found = _NOT_KEPT.search(value)
    return _code(found[0]) if found else ""


def _code(character: str) -> str:
    return f"U+{ord(character):04X}"


def _is_good(before: str, character: str, after: str) -> bool:
    if character in _JOINERS:
        return _is_joined(before, after)
    if character in _LOOKS:
        return _is_symbol(before) or before in _PICTURES or (before in "#*0123456789" and after == "\u20e3")
    if character in _MONGOLIAN_SIGNS:
        return bool(_MONGOLIAN.match(before))
    if _UNSEEN.match(character):
        return False
    kind = unicodedata.category(character)
    return character in _SPACES or kind[0] not in "CZ" or (kind == "Cn" and bool(_TO_COME.match(character)))


def _is_joined(before: str, after: str) -> bool:
    """Say whether a joiner is seen between these: in pictures made of several, and beside letters that join."""
    if (_is_symbol(before) or before == "\ufe0f") and _is_symbol(after):
        return True
    both = before + after
    return all(map(_is_visible, both)) and bool(_JOINING.search(both))


def _is_visible(character: str) -> bool:
    return unicodedata.category(character)[0] in "LMNS" and not _UNSEEN.match(character)


def _is_symbol(character: str) -> bool:
    """Say whether it is a symbol that may be a picture."""
    is_new = unicodedata.category(character) == "Cn" and bool(_TO_COME.match(character))
    return is_new or (unicodedata.category(character)[0] == "S" and not character.isascii())
