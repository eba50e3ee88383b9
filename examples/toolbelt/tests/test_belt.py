"""What is on the belt, and what a model is told that calls its tools wrongly."""

import json
import tempfile
import unittest
from pathlib import Path

import walk
from belt import META_NAMES, MOST_ADDED, Belt, compact
from office.serve import server
from office.servers import SERVERS, SMALL, small
from office.tasks import KINDS, Task
from office.world import World, use


def named(name):
    return json.dumps({"name": name})


class OnTheBelt(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.TemporaryDirectory()
        self.addCleanup(self.directory.cleanup)
        self.world = use(self.directory.name)
        self.belt = Belt({name: server(name, tools) for name, tools in SERVERS.items()}, mode="legacy")
        self.addCleanup(self.belt.close)
        self.belt.open()

    def names(self):
        return [tool["function"]["name"] for tool in self.belt.declarations()]

    def test_the_walk_calls_every_tool(self):
        tools = {server: {tool.__name__ for tool in tools} for server, tools in SERVERS.items()}
        self.assertEqual({server: set(calls) for server, calls in walk.CALLS.items()}, tools)

    def test_nine_servers_have_sixty_tools_and_the_small_world_twelve(self):
        self.assertEqual((len(SERVERS), sum(map(len, SERVERS.values()))), (9, 60))
        self.assertEqual(sorted(tool.__name__ for tools in small().values() for tool in tools), sorted(SMALL))
        self.assertEqual(len(SMALL), 12)
        self.assertEqual(len(self.belt.call("toolbelt_list_tools", "").splitlines()), 60)

    def test_an_added_tool_is_declared_from_then_on_and_no_more_once_it_is_removed(self):
        self.assertEqual(self.names(), META_NAMES)
        self.assertEqual(self.belt.call("toolbelt_add_tool", named("mail_send")), "added")
        self.assertEqual(self.names(), [*META_NAMES, "mail_send"])
        self.assertNotIn("mail_send:", self.belt.call("toolbelt_list_tools", ""))
        self.assertEqual(self.belt.call("mail_send", '{"to": "Ada", "text": "Hello"}'), "sent")
        self.assertEqual(self.world.json("mail/sent.json", [])[0]["text"], "Hello")
        self.assertEqual(self.belt.call("toolbelt_remove_tool", named("mail_send")), "removed")
        self.assertEqual(self.names(), META_NAMES)
        result = self.belt.call("mail_send", '{"to": "Ada", "text": "Hello"}')
        self.assertEqual(result, "error: mail_send is not there yet; toolbelt_add_tool adds it")

    def test_a_tool_is_shown_whole_without_what_pydantic_adds(self):
        shown = json.loads(self.belt.call("toolbelt_inspect_tool", named("rooms_free")))
        self.assertEqual(shown["description"], "Names the rooms that are free at a time of a day.")
        self.assertEqual(shown["parameters"]["properties"], {"day": {"type": "string"}, "time": {"type": "string"}})
        kept = compact({"type": "object", "title": "X", "properties": {"title": {"title": "Title", "type": "string"}}})
        self.assertEqual(kept, {"type": "object", "properties": {"title": {"type": "string"}}})

    def test_eighty_tools_are_the_most(self):
        class Eighty(Belt):
            def _known(self, arguments):
                return arguments["name"]

        belt = Eighty({})
        for number in range(MOST_ADDED):
            self.assertEqual(belt.call("toolbelt_add_tool", named(f"tool_{number}")), "added")
        result = belt.call("toolbelt_add_tool", named("one_more"))
        self.assertEqual(result, "error: 80 tools are the most; toolbelt_remove_tool makes room")
        self.assertEqual(belt.call("toolbelt_remove_tool", named("tool_7")), "removed")
        self.assertEqual(belt.call("toolbelt_add_tool", named("one_more")), "added")

    def test_mistakes_are_told_in_words(self):
        result = [
            self.belt.call(name, arguments)
            for name, arguments in [
                ("mail_send", "{}"),
                ("no_such_tool", "{}"),
                ("toolbelt_add_tool", named("no_such_tool")),
                ("toolbelt_add_tool", named("final_answer")),
                ("toolbelt_add_tool", '{"tool": "mail_send"}'),
                ("toolbelt_add_tool", '["mail_send"]'),
                ("toolbelt_remove_tool", named("mail_send")),
                ("final_answer", '{"answer": 7}'),
            ]
        ]
        self.assertEqual(
            result,
            [
                "error: mail_send is not there yet; toolbelt_add_tool adds it",
                "error: there is no tool 'no_such_tool'; toolbelt_list_tools names those that there are",
                "error: there is no tool 'no_such_tool'; toolbelt_list_tools names those that there are",
                "error: final_answer is always there",
                "error: the text `name` is missing: it says which tool is meant",
                "error: the arguments are no JSON object",
                "error: mail_send was not added",
                "error: final_answer needs the text `answer`",
            ],
        )
        self.assertEqual((self.belt.errors, self.belt.errors_in_a_row, self.belt.answer), (8, 8, None))

    def test_arguments_that_are_no_json_or_too_long_reach_no_server(self):
        self.belt.call("toolbelt_add_tool", named("files_write"))
        result = self.belt.call("files_write", '{"path": "a", "text": ')
        self.assertTrue(result.startswith("error: the arguments are no JSON: "), result)
        result = self.belt.call("files_write", json.dumps({"path": "a", "text": "x" * 70_000}))
        self.assertEqual(result, "error: the arguments have 70025 bytes; 65536 is the most")
        self.assertTrue(self.belt.call("files_write", "[" * 60_000).startswith("error: the arguments are no JSON"))
        self.assertEqual(self.world.calls(), [])

    def test_arguments_of_another_shape_are_the_servers_to_refuse(self):
        self.belt.call("toolbelt_add_tool", named("mail_read"))
        result = self.belt.call("mail_read", '{"id": "first"}')
        self.assertTrue(result.startswith("error: mail_read: 1 validation error"), result)
        self.assertEqual(self.belt.call("mail_read", '{"id": 7}'), "error: mail_read: there is no mail with the id 7")

    def test_no_tool_leaves_the_office(self):
        for name in ("files_read", "files_write", "files_copy"):
            self.belt.call("toolbelt_add_tool", named(name))
        Path(self.directory.name, "files").mkdir()
        Path(self.directory.name, "files", "link").symlink_to("/etc/passwd")
        for path in ("../../etc/passwd", "/etc/passwd", "..", "a/../../b", ".hidden", "link", "", "a//b", "a\u0000b"):
            result = self.belt.call("files_read", json.dumps({"path": path}))
            self.assertTrue(result.startswith("error: files_read: "), f"{path}: {result}")
        result = self.belt.call("files_write", json.dumps({"path": "../.toolbelt.json", "text": "{}"}))
        self.assertTrue(result.startswith("error: files_write: "), result)
        self.assertEqual(sorted(path.name for path in Path(self.directory.name).iterdir()), [".audit.jsonl", "files"])

    def test_a_file_has_a_greatest_length(self):
        self.belt.call("toolbelt_add_tool", named("files_write"))
        self.belt.call("toolbelt_add_tool", named("files_append"))
        text = "x" * 60_000
        self.belt.call("files_write", json.dumps({"path": "a", "text": text}))
        result = [self.belt.call("files_append", json.dumps({"path": "a", "text": text})) for _ in range(5)]
        self.assertEqual(result[:3], ["appended"] * 3)
        self.assertIn("262144 is the most", result[3])


class Rubrics(unittest.TestCase):
    def test_each_kind_of_task_can_be_done_with_the_tools_that_there_are(self):
        made = {name: server(name, tools) for name, tools in SERVERS.items()}
        for number in range(12):
            task = Task(number)
            calls, answer = SOLVED[task.kind.name](task.kind)
            with tempfile.TemporaryDirectory() as before, tempfile.TemporaryDirectory() as after:
                task.populate(World(before), 7)
                task.populate(use(after), 7)
                belt = Belt(made, mode="legacy")
                belt.open()
                for name, arguments in calls:
                    belt.call("toolbelt_add_tool", named(name))
                    result = belt.call(name, json.dumps(arguments))
                    self.assertFalse(result.startswith("error"), (name, result))
                belt.close()
                criteria = task.rubric(World(before), World(after), answer)
                self.assertTrue(all(criteria.values()), (task.prompt, criteria))

    def test_each_task_has_three_to_eight_criteria_and_none_is_met_by_doing_nothing(self):
        for number in range(48):
            task = Task(number)
            with tempfile.TemporaryDirectory() as before, tempfile.TemporaryDirectory() as after:
                for directory in (before, after):
                    task.populate(World(directory), 7)
                criteria = task.rubric(World(before), World(after), None)
                self.assertTrue(3 <= len(criteria) <= 8, task.kind.name)
                self.assertFalse(any(criteria.values()), (task.kind.name, criteria))

    def test_a_world_follows_from_task_and_seed(self):
        def made(number, seed):
            with tempfile.TemporaryDirectory() as directory:
                Task(number).populate(World(directory), seed)
                return {
                    str(path.relative_to(directory)): path.read_text()
                    for path in Path(directory).rglob("*")
                    if path.is_file()
                }

        for number in range(len(KINDS)):
            self.assertEqual(made(number, "7"), made(number, "7"))
            self.assertNotEqual(made(number, "7"), made(number, "8"))
            self.assertNotEqual(made(number, "7"), made(number + 6, "7"))


def total(kind):
    calls = [
        ("mail_search", {"text": kind.subject}),
        ("sheets_sum", {"sheet": kind.sheet, "column": "amount"}),
        ("mail_reply", {"id": 101, "text": f"It is {kind.total}."}),
        ("mail_move", {"id": 101, "folder": "answered"}),
    ]
    return calls, kind.total


def meeting(kind):
    when = {"day": kind.new, "time": kind.time}
    text = f"{kind.title} is on {kind.new} at {kind.time}."
    calls = [
        ("calendar_find", {"text": kind.title}),
        ("calendar_move", {"id": 101, **when}),
        ("rooms_free", when),
        ("rooms_book", {"room": kind.free, **when, "title": kind.title}),
        *(("mail_send", {"to": who, "text": text}) for who in kind.who),
    ]
    return calls, kind.free


def figure(kind):
    calls = [
        ("sheets_find_rows", {"sheet": kind.sheet, "column": "item", "value": kind.item}),
        ("documents_replace_section", {"name": kind.document, "heading": "Figures", "text": kind.figure}),
        ("todo_list", {"who": "me"}),
        ("todo_finish", {"id": 101}),
    ]
    return calls, kind.figure


def handover(kind):
    address = f"{kind.new.lower()}@office.example"
    calls = [
        *(("todo_assign", {"id": 101 + place, "who": kind.new}) for place in range(len(kind.chores))),
        ("contacts_add", {"name": kind.new, "address": address}),
        ("contacts_remove", {"name": kind.old}),
    ]
    return calls, str(len(kind.chores))


def cleanup(kind):
    calls = [
        ("files_find", {"text": kind.word}),
        *(("files_delete", {"path": f"{kind.folder}/{name}"}) for name in kind.doomed),
        ("files_write", {"path": f"{kind.folder}/deleted.log", "text": "\n".join(kind.doomed)}),
    ]
    return calls, str(len(kind.doomed))


def schedule(kind):
    calls = [
        ("calendar_find", {"text": kind.title}),
        ("reckoning_weekday", {"day": str(kind.day)}),
        ("reckoning_days_between", {"first": "2026-03-02", "second": str(kind.day)}),
    ]
    return calls, f"{kind.day.strftime('%A')}, {kind.days}"


SOLVED = {solved.__name__: solved for solved in (total, meeting, figure, handover, cleanup, schedule)}


if __name__ == "__main__":
    unittest.main()
