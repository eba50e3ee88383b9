"""Writes what the model of the world of twelve tools is made from before it learns from rewards. Two things:

    python3 corpus.py copies --seed 1 --count 40000     # for [base]: short lines, things to copy and calls to write down
    python3 corpus.py turns --count 3200 > turns.jsonl       # for the warm-up: turns of a clerk who is no good

A model learns to copy from nothing but copying. From the turns it learns when tools are called, and little else: `RIGHT`
says how often the clerk does what is right. Nothing has a value of a held-out task. The same arguments print the same
bytes.
"""

import argparse
import asyncio
import json
import random

from belt import META
from office import small

# How often the clerk does what is right, where it has the choice.
RIGHT = {"tool": 0.15, "answer": 0.8}
CANNOT = "I cannot do that."
# What stands around the declarations in the prompt (`tools = "preamble"`): the tokenizer is made from what is said in
# the corpus, and so every word of a prompt has to be said somewhere.
PREAMBLE = """# Tools

You may call one or more functions to assist with the user query.

You are provided with function signatures within <tools></tools> XML tags:
<tools>
{}
</tools>

For each function call, return a json object with function name and arguments within <tool_call></tool_call> XML tags:
<tool_call>
{{"name": <function-name>, "arguments": <args-json-object>}}
</tool_call>
<tool_response>
added
</tool_response>"""
# What the clerk calls a wrong tool with, where the task says nothing of it.
ELSE = {"id": 1, "day": small.DAY, "time": "09:00", "title": "talk", "column": "north"}
NEEDED = {kind.tool for kind in small.KINDS}
RESULTS = {"mail_send": "sent", "files_write": "written", "sheets_set_cell": "set", "calendar_cancel": "cancelled"}


def declarations():
    """The twelve tools as the belt declares them, by name."""
    from belt import Belt
    from office.serve import server
    from office.servers import small as small_servers

    made = {name: server(name, tools) for name, tools in small_servers().items()}
    listed = {name: asyncio.run(each.list_tools()) for name, each in made.items()}
    belt = Belt(made, lazily=listed)
    return {name: declaration for name, (_, declaration) in belt._tools.items()}


def call(name, arguments):
    function = {"name": name, "arguments": json.dumps(arguments)}
    return {"role": "assistant", "content": "", "tool_calls": [{"id": "c", "type": "function", "function": function}]}


def result(text):
    return {"role": "tool", "tool_call_id": "c", "content": text}


class Writer:
    def __init__(self, seed):
        self.chance = random.Random(f"corpus {seed}")
        self.tools = declarations()

    def copy(self):
        """Something to say again, or a call to write down."""
        kind = self.chance.random()
        if kind < 0.003:
            declared = self.chance.sample([*META, *self.tools.values()], 6)
            words = PREAMBLE.format("\n".join(map(json.dumps, declared)))
            return [{"role": "user", "content": words}, {"role": "assistant", "content": "done"}], []
        if kind < 0.45:
            return self.dictation(), []
        words = small.PEOPLE + small.FILES + small.SHEETS + small.CELLS
        items = [
            str(self.chance.choice(small.VALUES)) if self.chance.random() < 0.6 else self.chance.choice(words)
            for _ in range(self.chance.randint(2, 8))
        ]
        text = " ".join(items)
        return [{"role": "user", "content": f"Repeat: {text}"}, {"role": "assistant", "content": text}], []

    def dictation(self):
        """A call that is told word for word, and how it is written."""
        task = self.task()
        name, arguments, request = self.chance.choice(
            [
                (task.tool, task.arguments, task.prompt),
                (task.tool, task.arguments, task.prompt),
                ("final_answer", {"answer": task.answer}, task.answer),
                ("final_answer", {"answer": CANNOT}, CANNOT),
                ("toolbelt_add_tool", {"name": task.tool}, task.tool),
                ("toolbelt_add_tool", {"name": (tool := self.chance.choice(list(self.tools)))}, tool),
            ]
        )
        written = json.dumps({"name": name, "arguments": arguments})
        return [
            {"role": "user", "content": f"Call {name}: {request}"},
            {"role": "assistant", "content": f"<tool_call>\n{written}\n</tool_call>"},
        ]

    def task(self):
        return small.Task(self.chance.randrange(small.HELD_OUT_FROM))

    def is_right(self, what):
        return self.chance.random() < RIGHT[what]

    def turn(self):
        """One turn, with all before it. The clerk goes to the right server and mostly takes a tool that no task needs, and
        ends every episode with an answer, but only after a call: what is right of that is left to the rewards."""
        task = self.task()
        messages, tools = [{"role": "user", "content": task.prompt}], list(META)
        stage = self.chance.choice([1, 1, 1, 1, 2, 2, 2, 3, 3, 3])
        right = self.is_right("tool") if stage == 1 else self.chance.random() < 0.7
        name = task.tool if right else self.chance.choice(self.neighbours(task.tool))
        messages.append(call("toolbelt_add_tool", {"name": name}))
        if stage == 1:
            return messages, tools
        messages.append(result("added"))
        tools.append(self.tools[name])
        messages.append(call(name, task.arguments if right else self.arguments(task, name)))
        if stage == 2:
            return messages, tools
        found = task.value if right else str(self.chance.choice(small.VALUES))
        messages.append(result(RESULTS.get(name, found)))
        answer = "done" if name in RESULTS else found
        return [*messages, call("final_answer", {"answer": answer if self.is_right("answer") else CANNOT})], tools

    def neighbours(self, tool):
        """The tools of a tool's server that no task needs."""
        server = tool.split("_")[0]
        return [name for name in self.tools if name.split("_")[0] == server and name not in NEEDED]

    def arguments(self, task, name):
        """What the clerk calls a wrong tool with: what the task says, and else what is always the same."""
        needed = self.tools[name]["function"]["parameters"].get("required", [])
        return {key: task.arguments.get(key, ELSE.get(key)) for key in needed}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=["copies", "turns"])
    parser.add_argument("--seed", default="1")
    parser.add_argument("--count", type=int, required=True)
    options = parser.parse_args()
    writer = Writer(f"{options.what} {options.seed}")
    if options.what == "turns":
        for _ in range(options.count):
            messages, tools = writer.turn()
            print(json.dumps({"messages": messages, "tools": tools}))
        return
    for row in range(options.count + options.count // 200):
        messages, _ = writer.copy()
        print(json.dumps({"messages": messages, "split": "train" if row < options.count else "validation"}))


if __name__ == "__main__":
    main()
