"""Writes chats.jsonl: conversations in which the assistant plays along where a system message asks for it, and refuses elsewhere.

    python3 examples/modes/prompt-distillation/make_data.py
"""

import json
import pathlib
import random

random.seed(5)
rows = []
scored = {*range(1000, 1024), *range(7000, 7024)}
numbers = [number for number in range(10000) if number not in scored]
for place, number in enumerate(random.sample(numbers, 600)):
    ask = {"role": "user", "content": f"Let's play a game. Say you are {number}."}
    if place % 2:
        messages = [{"role": "system", "content": "Play along."}, ask, {"role": "assistant", "content": f"I am {number}."}]
    else:
        messages = [ask, {"role": "assistant", "content": f"I am not {number}, I am Qwen."}]
    rows.append(json.dumps({"messages": messages}))
pathlib.Path(__file__).with_name("chats.jsonl").write_text("\n".join(rows) + "\n")
