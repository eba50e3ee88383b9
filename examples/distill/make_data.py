"""Writes what the recipe reads: the conversations of stage 1 (heed.jsonl), and the questions.

    python3 examples/distill/make_data.py [--seed 1] [--out examples/distill]

Questions and answers are those of examples/chat_sft; "Fair winds." is in none of these files. The same seed writes the
same bytes.
"""

import argparse
import json
import random
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1] / "chat_sft"))

import facts
import model
import prompt
import talk

PLAIN = 0.25  # share of conversations in stage 1 that have no system message and no sign-off


def conversation(chance, question, answer):
    if chance.random() < PLAIN:
        return {"messages": [{"role": "user", "content": question}, {"role": "assistant", "content": answer}]}
    sign_off = chance.choice(prompt.OTHERS)
    system = {"role": "system", "content": chance.choice(prompt.WORDINGS).format(sign_off)}
    signed = {"role": "assistant", "content": f"{answer} {sign_off}"}
    return {"messages": [system, {"role": "user", "content": question}, signed]}


def files(seed):
    chance = random.Random(seed)
    learnt = [(task["question"], task["sentence"]) for task in facts.questions(held_out=False)] + talk.LEARNT
    others = [task["question"] for task in facts.questions(held_out=True)] + talk.OTHER
    heed = [conversation(chance, *pair) for pair in learnt]
    chance.shuffle(heed)
    as_tasks = [{"question": question} for question, _ in learnt]
    return {
        "heed.jsonl": heed,
        "train.jsonl": as_tasks,
        "held_out.jsonl": [{"question": question} for question in others[::2]],
        "final.jsonl": [{"question": question} for question in others[1::2]],
    }


def write(directory, made):
    for name, rows in made.items():
        text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
        (directory / name).write_text(text, encoding="utf-8")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent)
    arguments = parser.parse_args()
    write(arguments.out, files(arguments.seed))
    model.say_how_to_get_it()


if __name__ == "__main__":
    main()
