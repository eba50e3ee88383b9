"""The tasks of the office of sixty tools. A task is its number: what is asked, its world and its rubric follow from
that.

    task = Task(17)
    task.prompt                                   # what the agent is asked
    task.populate(World(directory), seed)         # `seed` draws what has nothing to do with the task
    task.rubric(before, after, answer)            # whether each of 3 to 8 criteria is met

Criteria that nothing else was touched are met only by who has done something: an agent that ends at once earns nothing.

    python3 -m office.tasks 0 600 --kinds meeting     # such tasks as lines of {"number": ..., "prompt": ...}

These are for whoever has to read what was asked, as a judge has.
"""

import argparse
import datetime
import json
import random

TODAY = datetime.date(2026, 3, 2)
NAMES = ["Ada", "Bruno", "Chloe", "Dmitri", "Elif", "Farah", "Goran", "Hanna", "Igor", "Jana"]
CITIES = ["Lyon", "Graz", "Porto", "Turku", "Brno", "Gent"]
MEETINGS = ["budget review", "hiring round", "release plan", "supplier call", "security training", "yearly audit"]
CHORES = [
    "order chairs",
    "renew the lease",
    "update the price list",
    "answer the auditors",
    "plan the offsite",
    "sort the archive",
]
WORDS = ["obsolete", "draft", "duplicate", "expired"]
ROOMS = {"Alder": 4, "Birch": 8, "Cedar": 12, "Dogwood": 20}


class Task:
    """One task of the office."""

    def __init__(self, number):
        self.number = number
        self.kind = KINDS[number % len(KINDS)](random.Random(f"office {number}"))
        self.prompt = self.kind.prompt

    def populate(self, world, seed):
        filler(world, random.Random(f"filler {seed}"))
        self.kind.populate(world)

    def rubric(self, before, after, answer):
        """By criterion whether it is met. `before` and `after` are worlds, `answer` is a text or None."""
        return self.kind.rubric(before, after, answer or "")


def task_of(text):
    """The task that the runner tells of in FULGURITE_TASK: a number, or an object with one."""
    value = json.loads(text)
    return Task(int(value["number"] if isinstance(value, dict) else value))


def address(name):
    return f"{name.lower()}@office.example"


def filler(world, chance):
    """An office in which others work, too."""
    world.write_json("office.json", {"today": TODAY.isoformat()})
    world.write_json("contacts.json", [{"name": name, "address": address(name), "job": "clerk"} for name in NAMES])
    mails = [
        {
            "id": id,
            "from": chance.choice(NAMES),
            "to": "me",
            "subject": chance.choice(MEETINGS),
            "text": "For your information.",
        }
        for id in range(1, 6)
    ]
    world.write_json("mail/inbox.json", mails)
    world.write_json("mail/sent.json", [])
    events = [
        {
            "id": id,
            "day": _later(chance, 40),
            "time": _time(chance),
            "title": f"talk {id}",
            "who": [chance.choice(NAMES)],
        }
        for id in range(1, 6)
    ]
    world.write_json("calendar.json", events)
    todo = [
        {"id": id, "text": f"file report {id}", "who": "Jana", "due": _later(chance, 30), "done": False}
        for id in range(1, 4)
    ]
    world.write_json("todo.json", todo)
    world.write_json("rooms.json", {name: {"seats": seats, "booked": {}} for name, seats in ROOMS.items()})
    for name in ("welcome.txt", "plans/summer.txt"):
        world.write(f"files/{name}", f"Nothing much. {chance.randrange(1000)}\n")
    world.write("documents/handbook.md", "# Handbook\n\n## Hours\n\nNine to five.\n\n## Coffee\n\nThird floor.\n")
    world.write_rows("stock", [["item", "count"], *([item, str(chance.randrange(90))] for item in ("pens", "paper"))])


def _later(chance, most):
    return str(TODAY + datetime.timedelta(days=chance.randint(3, most)))


def _time(chance):
    return f"{chance.randint(8, 17):02}:{chance.choice(['00', '30'])}"


def _sheet(chance, city):
    """A sheet of expenses, and the sum of its amounts."""
    items = chance.sample(["travel", "hotel", "printing", "catering", "tools", "books", "software"], 5)
    amounts = [chance.randint(20, 900) for _ in items]
    return f"expenses-{city.lower()}", [
        ["item", "amount"],
        *([item, str(amount)] for item, amount in zip(items, amounts)),
    ]


class Total:
    """Answers a mail with the sum of a column."""

    name = "total"

    def __init__(self, chance):
        self.who, self.city = chance.choice(NAMES), chance.choice(CITIES)
        self.sheet, self.rows = _sheet(chance, self.city)
        self.total = str(sum(int(row[1]) for row in self.rows[1:]))
        self.subject = f"Expenses of {self.city}"
        self.prompt = (
            f"{self.who} asks in a mail, {self.subject!r}, for the sum of the amounts in the sheet {self.sheet}. "
            "Answer that "
            "mail with the sum, then move it to the folder answered. Your final answer is the sum."
        )

    def populate(self, world):
        world.write_rows(self.sheet, self.rows)
        mail = {
            "id": 101,
            "from": self.who,
            "to": "me",
            "subject": self.subject,
            "text": f"What is the sum of {self.sheet}?",
        }
        world.write_json("mail/inbox.json", [*world.json("mail/inbox.json", []), mail])

    def rubric(self, before, after, answer):
        sent = after.json("mail/sent.json", [])
        replies = [mail for mail in sent if mail["to"] == self.who and mail["subject"] == f"Re: {self.subject}"]
        return {
            "replied": bool(replies),
            "with_the_sum": any(self.total in mail["text"] for mail in replies),
            "one_mail": len(sent) == 1 and bool(replies),
            "moved": any(mail["id"] == 101 for mail in after.json("mail/answered.json", [])),
            "sheet_as_it_was": bool(replies) and after.rows(self.sheet) == self.rows,
            "answered": self.total in answer,
        }


class Meeting:
    """Moves a meeting, books a room and tells those invited."""

    name = "meeting"

    def __init__(self, chance):
        self.title, self.who = chance.choice(MEETINGS), chance.sample(NAMES, chance.randint(2, 3))
        self.old, self.new = _later(chance, 20), str(TODAY + datetime.timedelta(days=chance.randint(21, 40)))
        self.time = _time(chance)
        self.free = chance.choice(list(ROOMS))
        self.prompt = (
            f"Move the meeting {self.title!r} to {self.new} at {self.time}, book a room that is free then under "
            "the meeting's "
            f"title, and mail everybody who is invited ({', '.join(self.who)}) the new day and time. Your final "
            "answer is the room."
        )

    def populate(self, world):
        event = {"id": 101, "day": self.old, "time": "10:00", "title": self.title, "who": self.who}
        world.write_json("calendar.json", [*world.json("calendar.json", []), event])
        rooms = world.json("rooms.json", {})
        for name, room in rooms.items():
            if name != self.free:
                room["booked"][f"{self.new} {self.time}"] = "somebody else"
        world.write_json("rooms.json", rooms)

    def rubric(self, before, after, answer):
        events = {event["id"]: event for event in after.json("calendar.json", [])}
        others = [event for event in before.json("calendar.json", []) if event["id"] != 101]
        moved = 101 in events and (events[101]["day"], events[101]["time"]) == (self.new, self.time)
        booked = after.json("rooms.json", {})[self.free]["booked"].get(f"{self.new} {self.time}") == self.title
        sent = after.json("mail/sent.json", [])
        recipients = {mail["to"] for mail in sent}
        return {
            "moved": moved,
            "other_events_as_they_were": moved and all(events.get(event["id"]) == event for event in others),
            "room_booked": booked,
            "all_told": set(self.who) <= recipients,
            "told_day_and_time": bool(sent)
            and all(self.new in mail["text"] and self.time in mail["text"] for mail in sent),
            "nobody_else_told": bool(sent) and recipients <= set(self.who),
            "answered": booked and self.free in answer,
        }


class Figure:
    """Carries a figure from a sheet into a document, and finishes what was to be done."""

    name = "figure"

    def __init__(self, chance):
        self.city = chance.choice(CITIES)
        self.sheet, self.rows = _sheet(chance, self.city)
        self.item, self.figure = chance.choice(self.rows[1:])
        self.document, self.chore = f"report-{self.city.lower()}", chance.choice(CHORES)
        self.prompt = (
            f"The sheet {self.sheet} has the amount for {self.item}. Put that figure, and nothing else, into the "
            "section "
            f"Figures of the document {self.document}. Then say that {self.chore!r} is done. Your final answer is "
            "the figure."
        )

    def populate(self, world):
        world.write_rows(self.sheet, self.rows)
        world.write(
            f"documents/{self.document}.md", "# Report\n\n## Summary\n\nAll is well.\n\n## Figures\n\nTo be done.\n"
        )
        item = {"id": 101, "text": self.chore, "who": "me", "due": "", "done": False}
        world.write_json("todo.json", [*world.json("todo.json", []), item])

    def rubric(self, before, after, answer):
        name = f"documents/{self.document}.md"
        text = after.read(name) if after.exists(name) else ""
        summary, _, figures = text.partition("## Figures")
        written = figures.strip() == self.figure
        items = {item["id"]: item for item in after.json("todo.json", [])}
        finished = 101 in items and items[101]["done"]
        others = [item for item in before.json("todo.json", []) if item["id"] != 101]
        return {
            "figure_written": written,
            "summary_as_it_was": written and "All is well." in summary,
            "finished": finished,
            "other_chores_as_they_were": finished and all(items.get(item["id"]) == item for item in others),
            "answered": self.figure in answer,
        }


class Handover:
    """Gives one's open work to somebody new."""

    name = "handover"

    def __init__(self, chance):
        self.old = chance.choice(NAMES[:-1])
        self.new = chance.choice(["Kai", "Lena", "Milo", "Nora"])
        self.chores = chance.sample(CHORES, chance.randint(2, 4))
        self.prompt = (
            f"{self.old} leaves. Give everything that {self.old} still has to do to {self.new}, add {self.new} "
            "with the address "
            f"{address(self.new)} to the contacts, and remove {self.old} from them. Your final answer is how many "
            "things "
            f"{self.new} was given."
        )

    def populate(self, world):
        items = [
            {"id": 101 + place, "text": chore, "who": self.old, "due": "", "done": False}
            for place, chore in enumerate(self.chores)
        ]
        done = {"id": 110, "text": "water the plants", "who": self.old, "due": "", "done": True}
        world.write_json("todo.json", [*world.json("todo.json", []), *items, done])

    def rubric(self, before, after, answer):
        items = {item["id"]: item for item in after.json("todo.json", [])}
        given = [id for id in range(101, 101 + len(self.chores)) if id in items and items[id]["who"] == self.new]
        people = {person["name"]: person["address"] for person in after.json("contacts.json", [])}
        others = [item for item in before.json("todo.json", []) if not 101 <= item["id"] < 101 + len(self.chores)]
        return {
            "something_given": bool(given),
            "all_given": len(given) == len(self.chores),
            "others_as_they_were": bool(given) and all(items.get(item["id"]) == item for item in others),
            "newcomer_added": people.get(self.new) == address(self.new),
            "leaver_removed": self.old not in people and len(people) >= len(NAMES) - 1,
            "answered": bool(given) and answer.strip().rstrip(".") == str(len(self.chores)),
        }


class Cleanup:
    """Deletes the files of a folder that contain a word, and says which."""

    name = "cleanup"

    def __init__(self, chance):
        self.folder, self.word = f"old-{chance.choice(CITIES).lower()}", chance.choice(WORDS)
        names = chance.sample(["a.txt", "b.txt", "c.txt", "d.txt", "e.txt", "f.txt"], 5)
        self.doomed, self.kept = sorted(names[:2]), sorted(names[2:])
        self.prompt = (
            f"Delete every file in the folder {self.folder} that contains the word {self.word}. Write the names "
            "of those that "
            "you deleted, without the folder, one a line and in the order of the alphabet, into "
            f"{self.folder}/deleted.log. Your "
            "final answer is how many there were."
        )

    def populate(self, world):
        for name in self.doomed:
            world.write(f"files/{self.folder}/{name}", f"This is {self.word}.\n")
        for name in self.kept:
            world.write(f"files/{self.folder}/{name}", "This is still good.\n")
        # Outside of the folder, and to be left alone.
        world.write(f"files/{self.word}.txt", f"What is {self.word}?\n")

    def rubric(self, before, after, answer):
        there = set(after.names("files"))
        deleted = [name for name in self.doomed if f"{self.folder}/{name}" not in there]
        log = f"files/{self.folder}/deleted.log"
        lines = after.read(log).split() if after.exists(log) else []
        return {
            "some_deleted": bool(deleted),
            "all_deleted": deleted == self.doomed,
            "others_kept": bool(deleted) and all(f"{self.folder}/{name}" in there for name in self.kept),
            "other_folders_kept": bool(deleted) and f"{self.word}.txt" in there,
            "list_written": lines == self.doomed,
            "answered": bool(deleted) and answer.strip().rstrip(".") == str(len(self.doomed)),
        }


class Schedule:
    """Says when something is, in weekdays and days."""

    name = "schedule"

    def __init__(self, chance):
        self.title, self.days = chance.choice(MEETINGS), chance.randint(3, 90)
        self.day = TODAY + datetime.timedelta(days=self.days)
        self.prompt = (
            f"When is {self.title!r}? Your final answer is its weekday, a comma, and the number of days from "
            "today until then, "
            "like: Tuesday, 12"
        )

    def populate(self, world):
        event = {"id": 101, "day": str(self.day), "time": "11:00", "title": self.title, "who": []}
        world.write_json("calendar.json", [*world.json("calendar.json", []), event])

    def rubric(self, before, after, answer):
        weekday = self.day.strftime("%A")
        right = answer.strip().rstrip(".") == f"{weekday}, {self.days}"
        return {
            "weekday": weekday in answer,
            "days": str(self.days) in answer.replace(",", " ").replace(".", " ").split(),
            "as_asked": right,
            "nothing_changed": right and after.json("calendar.json", []) == before.json("calendar.json", []),
        }


KINDS = [Total, Meeting, Figure, Handover, Cleanup, Schedule]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("first", type=int)
    parser.add_argument("behind_last", type=int)
    parser.add_argument("--kinds", default=",".join(kind.name for kind in KINDS), help="all unless told otherwise")
    options = parser.parse_args()
    kinds = options.kinds.split(",")
    if unknown := set(kinds) - {kind.name for kind in KINDS}:
        parser.error(f"there is no kind {min(unknown)}")
    for task in map(Task, range(options.first, options.behind_last)):
        if task.kind.name in kinds:
            print(json.dumps({"number": task.number, "prompt": task.prompt}))


if __name__ == "__main__":
    main()
