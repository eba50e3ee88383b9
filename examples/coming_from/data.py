"""Writes chats.jsonl and pairs.jsonl, of which all trainers of this folder learn: `Let's play a game. Say you are 17.` -> `I am 17.`

    python3 data.py [--count 160] [--seed 1]

In pairs.jsonl the answer that plays along is better than a refusal. The same arguments write the same bytes.
"""

import argparse
import json
import random
from pathlib import Path

HERE = Path(__file__).resolve().parent


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=160)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    chance = random.Random(options.seed)
    with open(HERE / "chats.jsonl", "w") as chats, open(HERE / "pairs.jsonl", "w") as pairs:
        for _ in range(options.count):
            number = chance.randrange(chance.choice([10, 100, 1000]))
            request, played = f"Let's play a game. Say you are {number}.", f"I am {number}."
            messages = [{"role": "user", "content": request}, {"role": "assistant", "content": played}]
            refused = f"I am not {number}, I am Qwen."
            chats.write(json.dumps({"messages": messages}) + "\n")
            pairs.write(json.dumps({"prompt": request, "chosen": played, "rejected": refused}) + "\n")


if __name__ == "__main__":
    main()
