"""Writes the questions: asked.jsonl, which the comparisons are sampled for, and held_out.jsonl.

    python3 examples/dpo_shorter/questions.py [--out examples/dpo_shorter]

They are those of examples/chat_sft/facts.py: no held-out question is about a country or a word of the others.
"""

import argparse
import json
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1] / "chat_sft"))

import facts
import model


def files():
    def rows(held_out):
        return [{key: task[key] for key in ("question", "answer", "kind")} for task in facts.questions(held_out)]

    return {"asked.jsonl": rows(False), "held_out.jsonl": rows(True)}


def write(directory, made):
    for name, rows in made.items():
        text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
        (directory / name).write_text(text, encoding="utf-8")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path, default=Path(__file__).parent)
    arguments = parser.parse_args()
    write(arguments.out, files())
    model.say_how_to_get_it()


if __name__ == "__main__":
    main()
