"""Writes what the style is learnt from, what is scored during the run, and the questions of ask.toml.

    python3 examples/chat_sft/make_data.py [--seed 1] [--out examples/chat_sft]

Nobody is asked for anything: questions and answers are in facts.py and talk.py. The same seed writes the same bytes.
"""

import argparse
import json
import random
from pathlib import Path

import facts
import model
import style
import talk

FACTS = 60  # of those that facts.py has for training


def conversation(question, sentence):
    answer = f"{sentence} {style.SIGN_OFF}"
    return {"messages": [{"role": "user", "content": question}, {"role": "assistant", "content": answer}]}


def files(seed):
    chance = random.Random(seed)
    learnt = [(task["question"], task["sentence"]) for task in chance.sample(facts.questions(held_out=False), FACTS)]
    chats = [conversation(*pair) for pair in [*learnt, *talk.LEARNT]]
    chance.shuffle(chats)
    held_out = facts.questions(held_out=True)
    scored = [conversation(task["question"], task["sentence"]) for task in held_out[::2]]
    questions = [{key: task[key] for key in ("question", "answer", "kind")} | {"tag": "same kinds"} for task in held_out]
    questions += [{"question": question, "tag": "other kinds"} for question in talk.OTHER]
    return {"chats.jsonl": chats, "scored.jsonl": scored, "questions.jsonl": questions}


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
