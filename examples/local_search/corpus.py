"""Writes what the tiny model is made from, one conversation a line:

    python3 corpus.py --seed 1 --count 40000

Half of the rows are questions that a reader who is no good looks up; `RIGHT` says how often it does what is right, in a
turn in which that is possible. The others are exercises: names to repeat or to search for, and questions behind one of
their pages. No row has a name of the held-out part. The same arguments
print the same bytes.
"""

import argparse
import json
import random

from loop import TOOLS
from pages import LIBRARY, question

RIGHT = {"first": 0.75, "second": 0.5, "answer": 0.6}
QUESTIONS = len(LIBRARY.train)
NAMES = sorted({name for each in LIBRARY.train for name in (*each.path, each.answer)})
KNOWN = frozenset(NAMES)
UNKNOWN = "unknown"
# What stands around the declaration in the prompt (`tools = "preamble"`): the tokenizer is made from what is said in the
# corpus, and so every word of a prompt has to be said somewhere.
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
{}
</tool_response>"""


def search(query):
    function = {"name": "search", "arguments": json.dumps({"query": query})}
    return {"role": "assistant", "content": "", "tool_calls": [{"id": "c", "type": "function", "function": function}]}


def found(title):
    return {"role": "tool", "tool_call_id": "c", "content": LIBRARY.pages[title]}


def said(role, text):
    return {"role": role, "content": text}


class Writer:
    def __init__(self, seed):
        self.chance = random.Random(f"search {seed}")

    def is_right(self, what):
        return self.chance.random() < RIGHT[what]

    def on(self, title):
        """A name on a page."""
        on_it = [word.strip(".") for word in LIBRARY.pages[title].split()]
        return self.chance.choice([word for word in on_it if word in KNOWN])

    def lookup(self):
        """A question, and how a reader who is no good goes about it."""
        asked = question(self.chance.randrange(QUESTIONS))
        first, second = asked.path
        messages = [said("user", asked.text)]
        if not self.is_right("first"):
            if self.chance.random() < 0.5:
                return [*messages, said("assistant", UNKNOWN)]
            wrong = self.chance.choice(NAMES)
            return [*messages, search(wrong), found(wrong), said("assistant", UNKNOWN)]
        messages += [search(first), found(first)]
        if not self.is_right("second"):
            return [*messages, said("assistant", self.on(first))]
        messages += [search(second), found(second)]
        return [*messages, said("assistant", asked.answer if self.is_right("answer") else self.on(second))]

    def exercise(self):
        kind = self.chance.random()
        if kind < 0.02:
            words = PREAMBLE.format(json.dumps(TOOLS[0]), json.dumps({"name": "search", "arguments": {"query": ""}}))
            return [said("user", words), said("assistant", UNKNOWN)]
        some = self.chance.sample(NAMES, self.chance.randint(1, 5))
        if kind < 0.4:
            return [said("user", "Repeat: " + " ".join(some)), said("assistant", " ".join(some))]
        if kind < 0.7:
            place = self.chance.randrange(len(some))
            title = some[place]
            number = ["first", "second", "third", "fourth", "fifth"][place]
            return [said("user", f"Search for the {number} of these: " + " ".join(some)), search(title)]
        asked = question(self.chance.randrange(QUESTIONS))
        first, second = asked.path
        if self.chance.random() < 0.5:
            return [said("user", f"{LIBRARY.pages[first]} {asked.text}"), search(second)]
        return [said("user", f"{LIBRARY.pages[second]} {asked.text}"), said("assistant", asked.answer)]


def rows(seed, count):
    writer = Writer(seed)
    for row in range(count):
        messages = writer.exercise() if row % 2 else writer.lookup()
        yield {"messages": messages, "tools": TOOLS, "split": "validation" if row % 200 < 2 else "train"}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", default="1")
    parser.add_argument("--count", type=int, required=True)
    options = parser.parse_args()
    for row in rows(options.seed, options.count):
        print(json.dumps(row))


if __name__ == "__main__":
    main()
