"""Rooms, which are booked by the hour."""

from .. import days
from ..world import OfficeError, world

_FILE = "rooms.json"


def _load(room):
    rooms = world().json(_FILE, {})
    if room is not None and room not in rooms:
        raise OfficeError(f"there is no room {room}; there are {', '.join(rooms) or 'none'}")
    return rooms


def _when(day, time):
    return f"{days.day(day)} {days.time(time)}"


def rooms_list() -> str:
    """Lists the rooms and how many people each holds."""
    return "\n".join(f"{name}: {room['seats']} seats" for name, room in _load(None).items()) or "no rooms"


def rooms_free(day: str, time: str) -> str:
    """Names the rooms that are free at a time of a day."""
    when = _when(day, time)
    return "\n".join(name for name, room in _load(None).items() if when not in room["booked"]) or "none"


def rooms_book(room: str, day: str, time: str, title: str) -> str:
    """Books a room."""
    when, rooms = _when(day, time), _load(room)
    if when in rooms[room]["booked"]:
        raise OfficeError(f"{room} is taken then, by {rooms[room]['booked'][when]}")
    rooms[room]["booked"][when] = title
    world().write_json(_FILE, rooms)
    return "booked"


def rooms_release(room: str, day: str, time: str) -> str:
    """Gives a booked room back."""
    when, rooms = _when(day, time), _load(room)
    if rooms[room]["booked"].pop(when, None) is None:
        raise OfficeError(f"{room} is not booked then")
    world().write_json(_FILE, rooms)
    return "released"


TOOLS = [rooms_list, rooms_free, rooms_book, rooms_release]
