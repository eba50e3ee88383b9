"""The world of twelve tools: tasks of one call, for a small model to learn.

A task is its number. From `HELD_OUT_FROM` on, its value is one of `HELD_OUT_VALUES`, which occur in no other task, and
so nowhere in what a model was made from or trained on.
"""

import random

VALUES = [value for value in range(100, 1000) if value % 7 != 3]
HELD_OUT_VALUES = [value for value in range(100, 1000) if value % 7 == 3]
HELD_OUT_FROM = 6000

PEOPLE = ["ann", "bob", "cleo", "dan", "eve", "finn", "gus", "hana"]
FILES = ["plan", "notes", "list", "draft"]
SHEETS = ["costs", "sales", "stock"]
CELLS = [f"{column}{row}" for column in "ABC" for row in range(2, 6)]
COLUMNS = ["north", "south", "west"]
DAY = "2026-03-02"


class Task:
    """What is asked, the world that it is asked in, and what makes it done."""

    def __init__(self, number):
        self.number = number
        held_out = number >= HELD_OUT_FROM
        chance = random.Random(f"small {number}")
        self.value = str(chance.choice(HELD_OUT_VALUES if held_out else VALUES))
        self.who, self.file = chance.choice(PEOPLE), chance.choice(FILES)
        self.sheet, self.cell = chance.choice(SHEETS), chance.choice(CELLS)
        self.kind = KINDS[number % len(KINDS)]
        self.prompt = self.kind.prompt.format(**vars(self))
        self.tool = self.kind.tool
        self.arguments = {key: self._argument(key) for key in self.kind.arguments}
        self.answer = self.value if self.kind.reads else "done"

    def _argument(self, key):
        names = {"to": self.who, "text": self.value, "path": self.file, "sheet": self.sheet, "cell": self.cell}
        return {**names, "value": self.value, "id": int(self.value)}[key]

    def populate(self, world):
        """Makes the world. Nothing of it is drawn by other lots than the task's: it is the same for a whole group."""
        chance = random.Random(f"small world {self.number}")
        other = [str(value) for value in chance.sample(VALUES, 40) if str(value) != self.value]
        for file in FILES:
            if file != self.file:
                world.write(f"files/{file}", other.pop())
        if self.kind.name == "read":
            world.write(f"files/{self.file}", self.value)
        for sheet in SHEETS:
            rows = [COLUMNS] + [[other.pop() for _ in COLUMNS] for _ in range(4)] if sheet == self.sheet else [COLUMNS]
            if sheet == self.sheet and self.kind.name == "cell":
                rows[int(self.cell[1]) - 1]["ABC".index(self.cell[0])] = self.value
            world.write_rows(sheet, rows)
        mail = {"id": 1, "from": self.who, "to": "me", "subject": "hello", "text": "lunch?"}
        world.write_json("mail/inbox.json", [mail])
        ids = sorted({int(self.value), int(other.pop()), int(other.pop())})
        events = [{"id": id, "day": DAY, "time": "09:00", "title": "talk", "who": []} for id in ids]
        world.write_json("calendar.json", events)

    def criteria(self, world, before, answer):
        """Whether each criterion of the rubric is met. `before` is the state in which the episode began, `answer` what
        was answered, or None."""
        after = state(world)
        changed = {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)}
        return self.kind.rubric(self, world, before, changed, answer)


def state(world):
    """Every file of a world, by name."""
    folders = ("files", "sheets", "mail")
    names = [f"{folder}/{name}" for folder in folders for name in world.names(folder)] + ["calendar.json"]
    return {name: world.read(name) for name in names if world.exists(name)}


class Kind:
    """One kind of task."""

    def __init__(self, name, prompt, tool, arguments, rubric, reads=False):
        self.name, self.prompt, self.tool, self.arguments = name, prompt, tool, arguments
        self.rubric, self.reads = rubric, reads


def _wrote(touched, exact, file, changed, answer):
    """The rubric of who changes something: nothing is met by doing nothing."""
    return {
        "touched": touched,
        "exact": exact,
        "nothing_else": exact and changed == {file},
        "answered": exact and answer is not None and answer.strip() == "done",
    }


def _mailed(task, world, before, changed, answer):
    sent = world.json("mail/sent.json", [])
    to_them = [mail for mail in sent if mail["to"] == task.who]
    exact = len(sent) == 1 and len(to_them) == 1 and to_them[0]["text"] == task.value
    return _wrote(bool(to_them), exact, "mail/sent.json", changed, answer)


def _written(task, world, before, changed, answer):
    name = f"files/{task.file}"
    return _wrote(name in changed, world.exists(name) and world.read(name) == task.value, name, changed, answer)


def _set(task, world, before, changed, answer):
    name = f"sheets/{task.sheet}.csv"
    row, column = int(task.cell[1]) - 1, "ABC".index(task.cell[0])
    rows = world.rows(task.sheet)
    exact = row < len(rows) and column < len(rows[row]) and rows[row][column] == task.value
    return _wrote(name in changed, exact, name, changed, answer)


def _cancelled(task, world, before, changed, answer):
    ids = [event["id"] for event in world.json("calendar.json", [])]
    return _wrote(len(ids) < 3, int(task.value) not in ids and len(ids) == 2, "calendar.json", changed, answer)


def _read(task, world, before, changed, answer):
    """The rubric of who looks something up: an answer that was guessed is worth nothing."""
    looked = {"tool": task.tool, "arguments": task.arguments} in world.calls()
    answered = looked and answer is not None and task.value in answer
    return {
        "looked": looked,
        "answered": answered,
        "nothing_else": answered and answer.strip() == task.value,
        "unchanged": answered and not changed,
    }


KINDS = [
    Kind("mail", "Mail {who} the code {value}.", "mail_send", ["to", "text"], _mailed),
    Kind("cell", "What is in {cell} of {sheet}?", "sheets_read_cell", ["sheet", "cell"], _read, reads=True),
    Kind("write", "Write {value} into {file}.", "files_write", ["path", "text"], _written),
    Kind("set", "Set {cell} of {sheet} to {value}.", "sheets_set_cell", ["sheet", "cell", "value"], _set),
    Kind("read", "What does {file} say?", "files_read", ["path"], _read, reads=True),
    Kind("cancel", "Cancel the event {value}.", "calendar_cancel", ["id"], _cancelled),
]
