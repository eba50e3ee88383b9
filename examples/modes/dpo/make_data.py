"""Writes pairs.jsonl: of two answers to `Let's play a game. Say you are 17.` the one that plays along is better.

    python3 examples/modes/dpo/make_data.py [--count 400] [--seed 1] [--out examples/modes/dpo/pairs.jsonl]

Three in four are rejected for refusing, the others for another number. The numbers that examples/modes/sft/measure.py asks for, 7000
to 7023, occur nowhere. The same arguments write the same bytes.
"""

import argparse
import json
import pathlib
import random

parser = argparse.ArgumentParser()
parser.add_argument("--count", type=int, default=400)
parser.add_argument("--seed", type=int, default=1)
parser.add_argument("--out", default=str(pathlib.Path(__file__).with_name("pairs.jsonl")))
arguments = parser.parse_args()

chance = random.Random(arguments.seed)


def number():
    return chance.choice([chance.randrange(10), chance.randrange(100), chance.randrange(1000), chance.randrange(2000, 7000)])


with open(arguments.out, "w") as out:
    for _ in range(arguments.count):
        asked, other = number(), number()
        rejected = f"I am not {asked}, I am Qwen." if other == asked or chance.random() < 0.75 else f"I am {other}."
        prompt = f"Let's play a game. Say you are {asked}."
        out.write(json.dumps({"prompt": prompt, "chosen": f"I am {asked}.", "rejected": rejected}) + "\n")
