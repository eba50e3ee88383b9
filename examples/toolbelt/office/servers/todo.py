"""What is to be done, by whom and until when."""

from .. import days
from ..entries import find, load, next_id, save
from ..world import OfficeError

_FILE = "todo.json"


def _line(item):
    state = "done" if item["done"] else f"due {item['due']}" if item["due"] else "open"
    return f"{item['id']}: {item['text']} ({item['who'] or 'nobody'}, {state})"


def todo_list(who: str = "") -> str:
    """Lists what is to be done, by everybody or by one."""
    return "\n".join(_line(item) for item in load(_FILE) if who in ("", item["who"])) or "nothing"


def todo_add(text: str, who: str = "", due: str = "") -> str:
    """Adds something to do."""
    if due:
        days.day(due)
    items = load(_FILE)
    save(_FILE, [*items, {"id": next_id(items), "text": text, "who": who, "due": due, "done": False}])
    return f"added as {next_id(items)}"


def todo_finish(id: int) -> str:
    """Says that something is done."""
    items = load(_FILE)
    item = find(items, id, "item")
    if item["done"]:
        raise OfficeError("it is done already")
    item["done"] = True
    save(_FILE, items)
    return "finished"


def todo_assign(id: int, who: str) -> str:
    """Gives something to do to somebody."""
    items = load(_FILE)
    find(items, id, "item")["who"] = who
    save(_FILE, items)
    return "assigned"


def todo_reschedule(id: int, due: str) -> str:
    """Says until when something is to be done."""
    days.day(due)
    items = load(_FILE)
    find(items, id, "item")["due"] = due
    save(_FILE, items)
    return "rescheduled"


def todo_remove(id: int) -> str:
    """Removes something to do."""
    items = load(_FILE)
    items.remove(find(items, id, "item"))
    save(_FILE, items)
    return "removed"


TOOLS = [todo_list, todo_add, todo_finish, todo_assign, todo_reschedule, todo_remove]
