"""Events in a calendar."""

from .. import days
from ..entries import find, load, next_id, save
from ..world import OfficeError

_FILE = "calendar.json"


def _line(event):
    who = f" with {', '.join(event['who'])}" if event.get("who") else ""
    return f"{event['id']}: {event['day']} {event['time']} {event['title']}{who}"


def calendar_list(day: str) -> str:
    """Lists a day's events."""
    days.day(day)
    events = sorted((event for event in load(_FILE) if event["day"] == day), key=lambda event: event["time"])
    return "\n".join(map(_line, events)) or "nothing"


def calendar_find(text: str) -> str:
    """Finds events by a part of their title."""
    events = [event for event in load(_FILE) if text.lower() in event["title"].lower()]
    return "\n".join(map(_line, events)) or "no such event"


def calendar_read(id: int) -> str:
    """Reads an event."""
    return _line(find(load(_FILE), id, "event"))


def calendar_add(day: str, time: str, title: str) -> str:
    """Adds an event."""
    days.day(day)
    events = load(_FILE)
    event = {"id": next_id(events), "day": day, "time": days.time(time), "title": title, "who": []}
    save(_FILE, [*events, event])
    return f"added as {event['id']}"


def calendar_move(id: int, day: str, time: str) -> str:
    """Moves an event to another day and time."""
    days.day(day)
    events = load(_FILE)
    find(events, id, "event").update(day=day, time=days.time(time))
    save(_FILE, events)
    return "moved"


def calendar_cancel(id: int) -> str:
    """Cancels an event."""
    events = load(_FILE)
    events.remove(find(events, id, "event"))
    save(_FILE, events)
    return "cancelled"


def calendar_invite(id: int, who: str) -> str:
    """Invites somebody to an event."""
    events = load(_FILE)
    event = find(events, id, "event")
    if who in event.get("who", []):
        raise OfficeError(f"{who} is invited already")
    event.setdefault("who", []).append(who)
    save(_FILE, events)
    return "invited"


TOOLS = [
    calendar_list,
    calendar_find,
    calendar_read,
    calendar_add,
    calendar_move,
    calendar_cancel,
    calendar_invite,
]
