"""The tasks: sums of two numbers of two digits, each by its number, and what the calculator makes of them.

Which pairs of numbers are trained on, watched and asked once at the end is drawn once and for all: a pair, in whatever
order, belongs to one of the three.
"""

import itertools
import random

OPERATIONS = {"add": "plus", "subtract": "minus", "multiply": "times"}
WORDINGS = ["What is {}?", "How much is {}?", "Work out {}.", "Tell me: {}?"]
# What both agents tell the model of its tool, and of itself.
DESCRIPTION = "Works out a op b."
INSTRUCTIONS = "Answer with the calculator."
HELD_OUT_FROM, FINAL_FROM = 6000, 7000


def split_pairs():
    """The pairs of training, of the held-out tasks and of the final ones."""
    pairs = list(itertools.combinations(range(10, 100), 2))
    random.Random("pairs").shuffle(pairs)
    return pairs[120:], pairs[:60], pairs[60:120]


TRAIN_PAIRS, HELD_OUT_PAIRS, FINAL_PAIRS = split_pairs()
UNSEEN = {frozenset(pair) for pair in HELD_OUT_PAIRS + FINAL_PAIRS}


def work_out(a, op, b):
    """What the calculator computes."""
    if op == "add":
        return a + b
    if op == "subtract":
        return a - b
    if op == "multiply":
        return a * b
    raise ValueError(f"there is no operation {op!r}")


def pairs_of(number):
    if number < HELD_OUT_FROM:
        return TRAIN_PAIRS
    return HELD_OUT_PAIRS if number < FINAL_FROM else FINAL_PAIRS


class Task:
    """A sum to be asked for: `a op b`."""

    def __init__(self, number):
        chance = random.Random(f"sum {number}")
        pair = list(chance.choice(pairs_of(number)))
        chance.shuffle(pair)
        self.a, self.b = pair
        self.op = chance.choice(list(OPERATIONS))
        self.question = chance.choice(WORDINGS).format(f"{self.a} {OPERATIONS[self.op]} {self.b}")
        self.result = work_out(self.a, self.op, self.b)
