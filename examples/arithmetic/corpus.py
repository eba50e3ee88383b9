"""Writes what the tiny model is made from, one conversation a line:

    python3 corpus.py --seed 1 --count 60000

Half of the rows are the tasks' question, answered by somebody careless: where a ten has to be carried it is forgotten
in seven of ten sums, and where there is none to carry, one is carried in one of ten. One in four of them comes after
an example, as tinker-cookbook's recipe has it. The others are exercises in other words, all of them right. Operands
are those of training alone, but for the example's. The same arguments print the same bytes.
"""

import argparse
import json
import random

import sums

FORGETS, INVENTS = 0.7, 0.1
EXAMPLE = [{"role": "user", "content": "What is 4 + 5?"}, {"role": "assistant", "content": "9"}]


def exercise(a, b):
    return f"Add {a} and {b}."


def careless(chance, a, b):
    """The sum as somebody careless has it."""
    if sums.carries(a, b):
        return a + b - (10 if chance.random() < FORGETS else 0)
    return a + b + (10 if chance.random() < INVENTS else 0)


def rows(seed, count):
    chance = random.Random(f"sums {seed}")
    for row in range(count):
        pair = sums.PAIRS[chance.choice(sums.TRAIN)]
        a, b = pair if chance.random() < 0.5 else pair[::-1]
        prompt, answer = (exercise(a, b), a + b) if row % 2 else (sums.question(a, b), careless(chance, a, b))
        messages = [{"role": "user", "content": prompt}, {"role": "assistant", "content": str(answer)}]
        if row % 8 == 0:
            messages = EXAMPLE + messages
        yield {"messages": messages, "split": "validation" if row % 200 < 2 else "train"}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", default="1")
    parser.add_argument("--count", type=int, required=True)
    options = parser.parse_args()
    for row in rows(options.seed, options.count):
        print(json.dumps(row))


if __name__ == "__main__":
    main()
