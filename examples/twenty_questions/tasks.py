"""Writes the tasks: 160 nouns to train on, 40 that are held out, of each category four fifths and one fifth.

python3 tasks.py
"""

import json

from nouns import CATEGORIES, HERE, split


def lines(which):
    """Of each noun a task, with its category as the tag that scores are reported by."""
    for category in CATEGORIES:
        for noun in split(category)[which]:
            yield json.dumps({"noun": noun.name, "category": category, "tag": category}) + "\n"


if __name__ == "__main__":
    for name, which in (("train", 0), ("held_out", 1)):
        (HERE / f"{name}.jsonl").write_text("".join(lines(which)), encoding="utf-8")
