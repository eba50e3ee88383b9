"""The world of twelve tools: its tasks can be done, doing nothing earns nothing, and what is held out is seen
nowhere."""

import io
import json
import re
import tempfile
import unittest
from contextlib import redirect_stdout
from unittest import mock

import corpus
from belt import Belt
from connection import Loop
from office import small
from office.serve import server
from office.servers import small as small_servers
from office.world import use

SERVERS = {name: server(name, tools) for name, tools in small_servers().items()}
LISTED = {name: Loop.shared().run(each.list_tools()) for name, each in SERVERS.items()}


class SmallWorld(unittest.TestCase):
    def play(self, number, calls, answer):
        """The rubric after these calls, each with a name and its arguments."""
        task = small.Task(number)
        with tempfile.TemporaryDirectory() as directory:
            world = use(directory)
            task.populate(world)
            before = small.state(world)
            belt = Belt(SERVERS, mode="legacy", lazily=LISTED)
            for name, arguments in calls:
                belt.call("toolbelt_add_tool", json.dumps({"name": name}))
                result = belt.call(name, json.dumps(arguments))
                self.assertFalse(result.startswith("error"), result)
            belt.close()
            return task.criteria(world, before, answer)

    def test_whoever_does_what_is_asked_meets_every_criterion(self):
        for number in range(60):
            task = small.Task(number)
            met = self.play(number, [(task.tool, task.arguments)], task.answer)
            self.assertTrue(3 <= len(met) <= 8 and all(met.values()), (task.prompt, met))

    def test_whoever_does_nothing_meets_none(self):
        for number in range(24):
            task = small.Task(number)
            for answer in (None, "done", task.value):
                self.assertFalse(any(self.play(number, [], answer).values()), (task.prompt, answer))

    def test_the_right_tool_with_another_value_is_worth_a_quarter(self):
        mail = next(number for number in range(6) if small.Task(number).kind.name == "mail")
        task = small.Task(mail)
        met = self.play(mail, [(task.tool, {"to": task.who, "text": "1"})], "done")
        self.assertEqual([name for name, is_met in met.items() if is_met], ["touched"])

    def test_whatever_else_is_changed_costs_a_criterion(self):
        mail = next(number for number in range(6) if small.Task(number).kind.name == "mail")
        task = small.Task(mail)
        met = self.play(mail, [(task.tool, task.arguments), ("files_write", {"path": "new", "text": "x"})], "done")
        self.assertEqual([name for name, is_met in met.items() if not is_met], ["nothing_else"])

    def test_every_member_of_a_group_begins_in_one_world(self):
        def made(number):
            with tempfile.TemporaryDirectory() as directory:
                world = use(directory)
                small.Task(number).populate(world)
                return small.state(world)

        for number in range(12):
            self.assertEqual(made(number), made(number))
            self.assertNotEqual(made(number), made(number + 6))

    def test_values_that_are_held_out_are_in_no_other_task_and_nowhere_in_the_corpus(self):
        for number in range(small.HELD_OUT_FROM):
            self.assertNotIn(int(small.Task(number).value), small.HELD_OUT_VALUES)
        for number in range(small.HELD_OUT_FROM, small.HELD_OUT_FROM + 100):
            self.assertIn(int(small.Task(number).value), small.HELD_OUT_VALUES)
        held_out = set(map(str, small.HELD_OUT_VALUES))
        for line in self.corpus("copies", 1, 3000) + self.corpus("turns", 1, 500):
            text = json.dumps(line["messages"])
            self.assertFalse(held_out & set(re.findall(r"[0-9]+", text)), text)

    def test_the_clerk_of_the_warm_up_is_no_good(self):
        first = [line["messages"] for line in self.corpus("turns", 1, 2000) if len(line["messages"]) == 2]
        wanted = {"Mail": "mail_send", "Write": "files_write", "Set": "sheets_set_cell", "Cancel": "calendar_cancel"}
        requested = [(messages, messages[0]["content"].split()[0]) for messages in first]
        right = [self.called(messages)[1]["name"] == wanted[word] for messages, word in requested if word in wanted]
        self.assertTrue(0.08 < sum(right) / len(right) < 0.22, sum(right) / len(right))

    def test_the_clerk_answers_only_after_a_call(self):
        for line in self.corpus("turns", 1, 2000):
            messages = line["messages"]
            turns = sum(message["role"] == "assistant" for message in messages)
            self.assertEqual(self.called(messages)[0] == "final_answer", turns == 3, messages)

    def called(self, messages):
        """What the last message of a conversation calls, and with what."""
        function = messages[-1]["tool_calls"][0]["function"]
        return function["name"], json.loads(function["arguments"])

    def test_the_same_seed_writes_the_same_and_no_copy_has_tools(self):
        copies = self.corpus("copies", 2, 2000)
        self.assertEqual(copies, self.corpus("copies", 2, 2000))
        self.assertNotEqual(copies, self.corpus("copies", 3, 2000))
        self.assertEqual(sum(line["split"] == "validation" for line in copies), 10)
        self.assertFalse(any("tools" in line for line in copies))

    def corpus(self, what, seed, count):
        out = io.StringIO()
        words = ["corpus.py", what, "--seed", str(seed), "--count", str(count)]
        with mock.patch("sys.argv", words), redirect_stdout(out):
            corpus.main()
        return [json.loads(line) for line in out.getvalue().splitlines()]


if __name__ == "__main__":
    unittest.main()
