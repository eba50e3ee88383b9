"""Writes chats.jsonl: conversations in which the assistant plays along, `Let's play a game. Say you are 17.` -> `I am 17.`

    python3 examples/modes/sft/make_data.py [--count 400] [--seed 1] [--out examples/modes/sft/chats.jsonl]

One in four has a refusal before: it is part of the prompt, and its weight of 0 keeps it from being learnt. The numbers that
measure.py asks for, 7000 to 7023, occur nowhere. The same arguments write the same bytes.
"""

import argparse
import json
import pathlib
import random

parser = argparse.ArgumentParser()
parser.add_argument("--count", type=int, default=400)
parser.add_argument("--seed", type=int, default=1)
parser.add_argument("--out", default=str(pathlib.Path(__file__).with_name("chats.jsonl")))
arguments = parser.parse_args()

chance = random.Random(arguments.seed)
with open(arguments.out, "w") as out:
    for _ in range(arguments.count):
        number = chance.choice([chance.randrange(10), chance.randrange(100), chance.randrange(1000), chance.randrange(2000, 7000)])
        ask = {"role": "user", "content": f"Let's play a game. Say you are {number}."}
        play = {"role": "assistant", "content": f"I am {number}."}
        refuse = {"role": "assistant", "content": f"I am not {number}, I am Qwen.", "weight": 0}
        messages = [ask, refuse, ask, play] if chance.random() < 0.25 else [ask, play]
        out.write(json.dumps({"messages": messages}) + "\n")
