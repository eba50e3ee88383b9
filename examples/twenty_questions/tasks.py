"""Writes the tasks: 160 nouns to train on, 40 that are held out, of each category four fifths and one fifth.

python3 tasks.py
"""

import json

from nouns import CATEGORIES, HERE, split

# Of a game of training: half of what the rules allow, so that an update takes half of the time.
TRAINING_TURNS = 10
PARTS = ("train", "held_out")


def lines(name):
    """Of each noun a task, with its category as the tag that scores are reported by, and how long a game may be."""
    turns = {"turns": TRAINING_TURNS} if name == "train" else {}
    for category in CATEGORIES:
        for noun in split(category)[PARTS.index(name)]:
            yield json.dumps({"noun": noun.name, "category": category, "tag": category, **turns}) + "\n"


if __name__ == "__main__":
    for name in PARTS:
        (HERE / f"{name}.jsonl").write_text("".join(lines(name)), encoding="utf-8")
