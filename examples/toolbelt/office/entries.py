"""Lists of entries with numbers: events, mails, things to do."""

from .world import OfficeError, world


def load(name):
    return world().json(name, [])


def save(name, entries):
    world().write_json(name, entries)


def find(entries, id, what):
    for entry in entries:
        if entry["id"] == id:
            return entry
    raise OfficeError(f"there is no {what} with the id {id}")


def next_id(*lists):
    return max((entry["id"] for entries in lists for entry in entries), default=0) + 1
