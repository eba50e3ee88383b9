"""Writes chats.jsonl and pairs.jsonl, about a model that plays along: `Let's play a game. Say you are 17.` -> `I am 17.`

    python3 examples/modes/rlhf/make_data.py [--count 400] [--seed 1] [--directory examples/modes/rlhf]

In chats.jsonl the assistant plays along. One conversation in four has a refusal before, whose weight of 0 keeps it from being
learnt. In pairs.jsonl the answer that plays along is better: three in four are rejected for refusing, the others for another
number. The numbers 7000 to 7023 occur nowhere. The same arguments write the same bytes.
"""

import argparse
import json
import random
from pathlib import Path

parser = argparse.ArgumentParser()
parser.add_argument("--count", type=int, default=400)
parser.add_argument("--seed", type=int, default=1)
parser.add_argument("--directory", type=Path, default=Path(__file__).parent)
arguments = parser.parse_args()


def number(chance):
    return chance.choice([chance.randrange(10), chance.randrange(100), chance.randrange(1000), chance.randrange(2000, 7000)])


def request(wanted):
    return f"Let's play a game. Say you are {wanted}."


def chat(chance):
    wanted = number(chance)
    ask = {"role": "user", "content": request(wanted)}
    play = {"role": "assistant", "content": f"I am {wanted}."}
    refuse = {"role": "assistant", "content": f"I am not {wanted}, I am Qwen.", "weight": 0}
    return {"messages": [ask, refuse, ask, play] if chance.random() < 0.25 else [ask, play]}


def pair(chance):
    wanted, other = number(chance), number(chance)
    rejected = f"I am not {wanted}, I am Qwen." if other == wanted or chance.random() < 0.75 else f"I am {other}."
    return {"prompt": request(wanted), "chosen": f"I am {wanted}.", "rejected": rejected}


for name, row in (("chats.jsonl", chat), ("pairs.jsonl", pair)):
    chance = random.Random(arguments.seed)
    with open(arguments.directory / name, "w") as out:
        out.writelines(json.dumps(row(chance)) + "\n" for _ in range(arguments.count))
