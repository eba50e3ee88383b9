"""Writes what the tiny model is made from, one conversation a line:

    python3 corpus.py --seed 1 --count 40000

One row in four is a question that a reader who is no good looks up; `RIGHT` says how often it does what is right, in
a turn in which that is possible. The others are exercises: names to repeat, and questions behind one of their pages.
One row in four is such a page with the tool declared, since what is learnt of short prompts alone is not done behind a
long one; the others have no tool, and so cost little. The pages are made up for each row, so that nothing can be learnt
by heart: none of the 2,000 is here, and no name of the held-out part. Validation rows are exercises with names that no
other row has. The same arguments print the same bytes.
"""

import argparse
import json
import random
import re

from loop import TOOLS
from pages import GOODS, LIBRARY, QUESTION_TEXTS, Question, names, of_firm, of_person, of_town

RIGHT = {"first": 0.7, "second": 0.45, "answer": 0.45}
HELD_OUT = {name for each in LIBRARY.held_out for title in each.path for name in (title, each.answer)}
NAMES = [name for name in names() if name not in HELD_OUT]
# The last hundred of them are in validation rows alone.
NAMES, UNSEEN = NAMES[:-100], NAMES[-100:]
UNKNOWN = "unknown"
# What stands around the declaration in the prompt (`tools = "preamble"`): the tokenizer is made from what is said in the
# corpus, and so every word of a prompt has to be said somewhere.
PROMPT = f"""# Tools

You may call one or more functions to assist with the user query.

You are provided with function signatures within <tools></tools> XML tags:
<tools>
{json.dumps(TOOLS[0])}
</tools>

For each function call, return a json object with function name and arguments within <tool_call></tool_call> XML tags:
<tool_call>
{{"name": <function-name>, "arguments": <args-json-object>}}
</tool_call>
<tool_response>
{json.dumps({"name": "search", "arguments": {"query": ""}})}
</tool_response>"""


def search(query):
    function = {"name": "search", "arguments": json.dumps({"query": query})}
    return {"role": "assistant", "content": "", "tool_calls": [{"id": "c", "type": "function", "function": function}]}


def found(page):
    return {"role": "tool", "tool_call_id": "c", "content": page}


def message(role, text):
    return {"role": role, "content": text}


class Writer:
    def __init__(self, seed):
        self.chance = random.Random(f"search {seed}")

    def is_right(self, what):
        return self.chance.random() < RIGHT[what]

    def on(self, page):
        """A name on a page."""
        return self.chance.choice(re.findall(r"\[(\w+)\]", page))

    def made_up(self, some):
        """A question, and its two pages."""
        firm, person, born, lives, mayor = self.chance.sample(some, 5)
        about = of_person(person, born, lives)
        kind = self.chance.choice(list(QUESTION_TEXTS))
        where = born if kind.endswith("born") else lives
        if kind.startswith("founder"):
            question = Question(QUESTION_TEXTS[kind].format(firm), where, (firm, person))
            return question, (of_firm(firm, self.chance.choice(GOODS), person), about)
        return Question(QUESTION_TEXTS[kind].format(person), mayor, (person, where)), (about, of_town(where, mayor))

    def lookup(self):
        """A question, and how a reader who is no good goes about it."""
        question, (first, second) = self.made_up(NAMES)
        messages = [message("user", question.text)]
        if not self.is_right("first"):
            if self.chance.random() < 0.5:
                return [*messages, message("assistant", UNKNOWN)]
            wrong, mayor = self.chance.sample(NAMES, 2)
            return [*messages, search(wrong), found(of_town(wrong, mayor)), message("assistant", UNKNOWN)]
        messages += [search(question.path[0]), found(first)]
        if not self.is_right("second"):
            return [*messages, message("assistant", self.on(first))]
        messages += [search(question.path[1]), found(second)]
        return [*messages, message("assistant", question.answer if self.is_right("answer") else self.on(second))]

    def reading(self, some, tools):
        """A question behind one of its pages: who is asked has to search for the other, or to answer."""
        question, pages = self.made_up(some)
        if self.chance.random() < 0.5:
            return [message("user", f"{pages[1]} {question.text}"), message("assistant", question.answer)]
        second = question.path[1]
        return [message("user", f"{pages[0]} {question.text}"), search(second) if tools else message("assistant", second)]

    def plain(self, some):
        """An exercise without tools."""
        if self.chance.random() < 0.5:
            return self.reading(some, tools=False)
        repeated = " ".join(f"[{name}]" for name in self.chance.sample(some, self.chance.randint(2, 8)))
        return [message("user", f"Repeat: {repeated}"), message("assistant", repeated)]


def rows(seed, count):
    writer = Writer(seed)
    for row in range(count):
        split = "validation" if row % 100 in (1, 2) else "train"
        some = UNSEEN if split == "validation" else NAMES
        if row % 4 == 0:
            yield {"messages": writer.lookup(), "tools": TOOLS, "split": split}
        elif row % 4 == 1:
            yield {"messages": writer.reading(some, tools=True), "tools": TOOLS, "split": split}
        elif row % 100 == 3:
            yield {"messages": [message("user", PROMPT), message("assistant", UNKNOWN)], "split": split}
        else:
            yield {"messages": writer.plain(some), "split": split}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", default="1")
    parser.add_argument("--count", type=int, required=True)
    options = parser.parse_args()
    for row in rows(options.seed, options.count):
        print(json.dumps(row))


if __name__ == "__main__":
    main()
