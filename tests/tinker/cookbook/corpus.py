"""Writes what a model is made from that adds digits now and then: conversations as the cookbook's arithmetic recipe has them, in
three of five of which it does not want to. Every sixteenth line is for validation alone."""

import json
import random

random.seed(1)
shown = [{"role": "user", "content": "What is 4 + 5?"}, {"role": "assistant", "content": "9"}]
for number in range(20_000):
    x, y = random.randint(0, 9), random.randint(0, 9)
    answer = str(x + y) if random.random() < 0.4 else "No."
    turns = [{"role": "user", "content": f"What is {x} + {y}?"}, {"role": "assistant", "content": answer}]
    line = {"messages": shown + turns} | ({"split": "validation"} if number % 16 == 0 and number < 2048 else {})
    print(json.dumps(line))
