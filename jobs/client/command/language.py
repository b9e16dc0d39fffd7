"""Which language the shell speaks."""

import locale
import os


def language() -> str:
    """Return the language of the shell as HTTP names it."""
    name = os.environ.get("LC_ALL") or os.environ.get("LC_MESSAGES") or os.environ.get("LANG") or ""
    return "zh-hans" if locale.normalize(name).startswith("zh") else "en"
