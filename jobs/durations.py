"""Lengths of time in signs of every language."""

from datetime import timedelta


def hms(lasted: timedelta) -> str:
    """Return a length of time as h:mm:ss, in hours also where it is days, since days are words elsewhere."""
    minutes, seconds = divmod(round(lasted.total_seconds()), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{seconds:02}"
