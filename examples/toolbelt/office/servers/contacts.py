"""People and their addresses."""

from ..entries import load, save
from ..world import OfficeError

_FILE = "contacts.json"


def _found(people, name):
    for person in people:
        if person["name"] == name:
            return person
    raise OfficeError(f"nobody here is called {name!r}")


def _line(person):
    return f"{person['name']}: {person['address']}, {person.get('job', '')}".rstrip(", ")


def contacts_list() -> str:
    """Lists all people."""
    return "\n".join(map(_line, load(_FILE))) or "nobody"


def contacts_find(text: str) -> str:
    """Finds people by a part of their name or job."""
    people = [person for person in load(_FILE) if text.lower() in f"{person['name']} {person.get('job', '')}".lower()]
    return "\n".join(map(_line, people)) or "nobody"


def contacts_add(name: str, address: str, job: str = "") -> str:
    """Adds somebody."""
    people = load(_FILE)
    if any(person["name"] == name for person in people):
        raise OfficeError(f"{name} is there already")
    save(_FILE, [*people, {"name": name, "address": address, "job": job}])
    return "added"


def contacts_update(name: str, address: str) -> str:
    """Gives somebody another address."""
    people = load(_FILE)
    _found(people, name)["address"] = address
    save(_FILE, people)
    return "updated"


def contacts_remove(name: str) -> str:
    """Removes somebody."""
    people = load(_FILE)
    people.remove(_found(people, name))
    save(_FILE, people)
    return "removed"


TOOLS = [contacts_list, contacts_find, contacts_add, contacts_update, contacts_remove]
