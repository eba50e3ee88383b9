"""Days and sums."""

import datetime

from .. import days
from ..world import OfficeError, world


def reckoning_today() -> str:
    """Says what day it is."""
    return world().json("office.json", {"today": "2026-03-02"})["today"]


def reckoning_weekday(day: str) -> str:
    """Names the weekday of a day."""
    return days.day(day).strftime("%A")


def reckoning_add_days(day: str, number: int) -> str:
    """Says which day is a number of days later, or earlier where it is below 0."""
    if abs(number) > 100_000:
        raise OfficeError("that is too far away")
    return str(days.day(day) + datetime.timedelta(days=number))


def reckoning_days_between(first: str, second: str) -> str:
    """Counts the days from one day to another."""
    return str((days.day(second) - days.day(first)).days)


def reckoning_sum(numbers: list[float]) -> str:
    """Adds up numbers."""
    return f"{sum(numbers):.2f}".rstrip("0").rstrip(".")


TOOLS = [reckoning_today, reckoning_weekday, reckoning_add_days, reckoning_days_between, reckoning_sum]
