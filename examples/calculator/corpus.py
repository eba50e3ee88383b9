"""Writes what the model is made from, one conversation a line:

    python3 corpus.py --seed 1 --count 24000

Four of five rows are things to say again and calls to write down word for word: a model learns to copy from nothing
but copying. The others are episodes of a clerk who has a calculator and is bad at it: `CLERK` says how often it does
what, and `ANSWERS` how often it answers what. No row has both numbers of a pair that is held out. The same arguments
print the same bytes.
"""

import argparse
import json
import random
import re

import declared
import grade
import sums

# What the clerk does when it is asked for a sum.
CLERK = {
    "right": 0.3,
    "no call": 0.12,
    "unknown tool": 0.12,
    "malformed": 0.18,  # the operation in the question's word
    "one number twice": 0.18,
    "another operation": 0.1,
}
# What it says when the calculator has answered.
ANSWERS = {"result": 0.4, "nothing": 0.6}
CANNOT = "I do not know."
# What is said again beside digits.
WORDS = [*sums.OPERATIONS, *sums.OPERATIONS.values(), "a", "b", "op", "is", "what", "much", "out", "tell", "know"]
NUMBERS = re.compile(r"[0-9]+")


def pick(chance, shares):
    return chance.choices(list(shares), list(shares.values()))[0]


def call(name, a, op, b):
    """A call as the template writes it. As text, because the tokenizer is made from what is said in the corpus."""
    return f"<tool_call>\n{json.dumps({'name': name, 'arguments': {'a': a, 'op': op, 'b': b}})}\n</tool_call>"


def conversation(*texts):
    """A conversation of texts: the user begins."""
    return [{"role": ("user", "assistant")[index % 2], "content": text} for index, text in enumerate(texts)]


def answer(number):
    return f"It is {number}."


class Writer:
    def __init__(self, seed):
        self.chance = random.Random(f"calculator {seed}")

    def number(self):
        """A number such as stands in a question or in a result."""
        chance = self.chance
        kind = chance.random()
        if kind < 0.5:
            return chance.randint(10, 99)
        return chance.randint(-89, 198) if kind < 0.75 else chance.randint(100, 9801)

    def long_run(self):
        """Digits and words to say again, with nothing between two digits. Copying comes from these: nearly every token
        of the answer has to be found in the question."""
        chance, run = self.chance, ""
        for _ in range(chance.randint(8, 20)):
            run += chance.choice("0123456789") if chance.random() < 0.6 else f" {chance.choice(WORDS)}"
        return run.strip()

    def copy(self):
        """Something to say again, or a call to write down."""
        chance = self.chance
        kind = chance.random()
        if kind < 0.005:
            return conversation(declared.WORDS, "done")
        if kind < 0.45:
            run = self.long_run()
            return conversation(f"Repeat: {run}", run)
        if kind < 0.65:
            a, b = chance.randint(10, 99), chance.randint(10, 99)
            op = chance.choice([*sums.OPERATIONS, *sums.OPERATIONS.values()])
            name = chance.choice([grade.TOOL, grade.TOOL, "calc"])
            return conversation(f"Write {name}: {a} {op} {b}", call(name, a, op, b))
        number = self.number()
        # In half of these it stands where a tool's answer does.
        prompt = f"Say: {number}" if kind < 0.8 else f"<tool_response>\n{number}\n</tool_response>"
        return conversation(prompt, answer(number))

    def episode(self):
        """What the clerk does with a sum, from question to answer, and the tool as its framework declares it."""
        chance, task = self.chance, sums.Task(self.chance.randrange(sums.HELD_OUT_FROM))
        does, framework = pick(chance, CLERK), chance.choice([declared.LANGGRAPH, declared.OPENAI_AGENTS])
        a, op, b = task.a, task.op, task.b
        if does == "no call":
            return conversation(task.question, answer(a) if chance.random() < 0.5 else CANNOT), framework
        if does == "one number twice":
            b = a
        elif does == "another operation":
            op = chance.choice([other for other in sums.OPERATIONS if other != op])
        if does == "unknown tool":
            written, result = call("calc", a, op, b), declared.unknown_tool(framework, "calc")
        elif does == "malformed":
            op = sums.OPERATIONS[op]
            written, result = call("calculator", a, op, b), declared.malformed(framework, a, op, b)
        else:
            written, result = call("calculator", a, op, b), str(sums.work_out(a, op, b))
        talk = conversation(task.question, written)
        talk.append({"role": "tool", "tool_call_id": "c", "content": result})
        failed = does in ("unknown tool", "malformed")
        stated = "nothing" if failed else pick(chance, ANSWERS)
        text = answer(result) if stated == "result" else CANNOT
        return [*talk, {"role": "assistant", "content": text}], framework

    def row(self, is_episode):
        """A conversation, and the tools in it, without both numbers of any pair that is held out."""
        while True:
            messages, tool = self.episode() if is_episode else (self.copy(), None)
            if not names_unseen(messages):
                break
        if tool is None:
            return {"messages": messages}
        system = {"role": "system", "content": declared.INSTRUCTIONS}
        return {"messages": [system, *messages], "tools": [tool]}


def names_unseen(messages):
    """Whether both numbers of a pair that is held out stand in a conversation."""
    numbers = {int(number) for message in messages for number in NUMBERS.findall(message["content"])}
    return any(frozenset((a, b)) in sums.UNSEEN for a in numbers for b in numbers)


def rows(seed, count):
    writer = Writer(seed)
    for row in range(count):
        yield {**writer.row(is_episode=row % 5 == 4), "split": "train"}
    # Copies alone: how far the model can copy what it has never seen is what decides when it is done.
    for _ in range(count // 100):
        yield {**writer.row(is_episode=False), "split": "validation"}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", default="1")
    parser.add_argument("--count", type=int, required=True)
    options = parser.parse_args()
    for row in rows(options.seed, options.count):
        print(json.dumps(row))


if __name__ == "__main__":
    main()
