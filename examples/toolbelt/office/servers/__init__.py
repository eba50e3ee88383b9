"""The nine servers, and which tools each has. A tool is a function: its name, its signature and its docstring are
shown."""

from . import calendar, contacts, documents, files, mail, reckoning, rooms, sheets, todo

SERVERS = {
    module.__name__.rpartition(".")[2]: module.TOOLS
    for module in (files, documents, sheets, mail, calendar, contacts, todo, rooms, reckoning)
}
"""Tools by server, in the order in which they are listed."""

SMALL = [
    "files_list",
    "files_read",
    "files_write",
    "sheets_read_cell",
    "sheets_set_cell",
    "sheets_sum",
    "mail_list",
    "mail_read",
    "mail_send",
    "calendar_list",
    "calendar_add",
    "calendar_cancel",
]
"""The twelve tools of the world for learning."""


def small():
    """Of each server that has any, the tools of the small world."""
    chosen = {name: [tool for tool in tools if tool.__name__ in SMALL] for name, tools in SERVERS.items()}
    return {name: tools for name, tools in chosen.items() if tools}
