"""Days and times as the tools take them."""

import datetime

from .world import OfficeError


def day(text):
    try:
        return datetime.date.fromisoformat(text)
    except ValueError:
        raise OfficeError(f"{text!r} is no day: write it like 2026-03-02") from None


def time(text):
    try:
        return datetime.datetime.strptime(text, "%H:%M").strftime("%H:%M")
    except ValueError:
        raise OfficeError(f"{text!r} is no time: write it like 09:30") from None
