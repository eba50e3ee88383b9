"""The tasks, what is asked, and the reward.

A task is a whole number, the place of its two operands in a list of all pairs from 0 to 99, shuffled once for all. A
pair and its mirror image are one task, so that whoever was asked 7 + 5 is not asked 5 + 7 as something new.
"""

import random
import re

MOST = 99
TRAIN, HELD_OUT, FINAL = range(0, 4500), range(4500, 4628), range(4628, 4756)


def _pairs():
    chance = random.Random("arithmetic")
    pairs = [(a, b) for a in range(MOST + 1) for b in range(a, MOST + 1)]
    chance.shuffle(pairs)
    return [pair if chance.random() < 0.5 else pair[::-1] for pair in pairs]


PAIRS = _pairs()


def question(a, b):
    return f"What is {a} + {b}?"


def carries(a, b):
    """Whether the ones add up to ten or more."""
    return a % 10 + b % 10 > 9


def last_number(reply):
    """The last number in a reply, as it is written."""
    numbers = re.findall(r"-?[0-9][0-9.,]*", reply or "")
    return numbers[-1].rstrip(".,") if numbers else None


def grade(task, reply, ended):
    """What a reply is worth: 1 if its last number is the sum, in digits, and the model ended the reply by itself.

    `exact` is no part of the reward: whether the reply is the sum and nothing else."""
    a, b = PAIRS[task]
    right = float(ended and last_number(reply) == str(a + b))
    exact = float(ended and reply == str(a + b))
    return {"reward": right, "exact": exact, "with_carry" if carries(a, b) else "without_carry": right}
