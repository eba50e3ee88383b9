"""One office: a directory of plain files, in which every tool reads and writes.

office.json         who works here, and what day it is
files/              text files, in folders
documents/*.md      documents of sections that begin with `## Heading`
sheets/*.csv        sheets, whose first row names the columns
mail/*.json         a folder of mails each: inbox, sent and whatever a mail is moved to
calendar.json, contacts.json, todo.json, rooms.json
.audit.jsonl        every call that a tool was given, for who grades; no tool reads or writes hidden files
"""

import contextvars
import csv
import io
import json
import os
import tempfile
from pathlib import Path

# What a file may have, so that no call fills the disk.
GREATEST_FILE = 256 * 1024

_current = contextvars.ContextVar("world")
_of_process = None


class OfficeError(Exception):
    """What a caller did wrong, in words that are for the caller."""


class World:
    """The office in a directory."""

    def __init__(self, root):
        self.root = Path(root).resolve()

    def path(self, name):
        """Where a file of the world is: below its directory, not hidden, and not behind a link."""
        parts = str(name).split("/")
        if not name or any(part in ("", ".", "..") or part.startswith(".") for part in parts) or "\0" in name:
            raise OfficeError(f"{name!r} is no name of a file here: names are like plans/june.txt")
        path = self.root.joinpath(*parts)
        if not path.resolve().is_relative_to(self.root):
            raise OfficeError(f"{name!r} leads out of the office")
        return path

    def exists(self, name):
        return self.path(name).is_file()

    def read(self, name):
        path = self.path(name)
        if not path.is_file():
            raise OfficeError(f"there is no {name}")
        return path.read_text(encoding="utf-8")

    def write(self, name, text):
        """Writes a file whole: who reads it meanwhile finds what was there before, or all that is new."""
        path = self.path(name)
        data = text.encode("utf-8")
        if len(data) > GREATEST_FILE:
            raise OfficeError(f"{name} would have {len(data)} bytes; {GREATEST_FILE} is the most")
        if path.is_dir():
            raise OfficeError(f"{name} is a folder")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except (FileExistsError, NotADirectoryError):
            raise OfficeError(f"{name} cannot be there: a part of it is a file") from None
        handle, new = tempfile.mkstemp(dir=self.root, prefix=".new-")
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        os.replace(new, path)

    def remove(self, name):
        path = self.path(name)
        if not path.is_file():
            raise OfficeError(f"there is no {name}")
        path.unlink()

    def names(self, folder, suffix=""):
        """Names of the files below a folder, without the folder's, in order."""
        root = self.path(folder)
        found = (
            path.relative_to(root) for path in root.rglob(f"*{suffix}") if path.is_file() and not path.is_symlink()
        )
        return sorted(str(name) for name in found if not any(part.startswith(".") for part in name.parts))

    def json(self, name, default):
        return json.loads(self.read(name)) if self.exists(name) else default

    def write_json(self, name, value):
        self.write(name, json.dumps(value, indent=1, ensure_ascii=False) + "\n")

    def rows(self, sheet):
        """The rows of a sheet, the names of its columns first."""
        if not self.exists(f"sheets/{sheet}.csv"):
            raise OfficeError(f"there is no sheet {sheet}; sheets_list names those that there are")
        return list(csv.reader(io.StringIO(self.read(f"sheets/{sheet}.csv"))))

    def write_rows(self, sheet, rows):
        out = io.StringIO()
        csv.writer(out, lineterminator="\n").writerows(rows)
        self.write(f"sheets/{sheet}.csv", out.getvalue())

    def audit(self, tool, arguments):
        line = json.dumps({"tool": tool, "arguments": arguments}, ensure_ascii=False)
        with open(self.root / ".audit.jsonl", "a", encoding="utf-8") as log:
            log.write(line[:GREATEST_FILE] + "\n")

    def calls(self):
        """The names of the tools that were called, in order."""
        path = self.root / ".audit.jsonl"
        return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.is_file() else []


def use(root):
    """Has the tools of this thread, and of the tasks that it starts, work in this directory."""
    world = World(root)
    _current.set(world)
    return world


def use_in_process(root):
    """Has all tools of this process work in this directory, unless a thread says otherwise."""
    global _of_process
    _of_process = World(root)


def world():
    """The office that is worked in."""
    found = _current.get(_of_process)
    if found is None:
        raise OfficeError("there is no office here")
    return found
