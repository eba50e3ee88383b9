"""Asks a question and looks at the reply: 1 for the style, and `right` where the question has one right answer.

One process for all questions (docs/how-to/warm-agents.md). The model sees the question alone; what is right stays here.
"""

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "python"))

import facts
import style
from asking import ask
from fulgurite_agent import serve

MODEL = os.environ.get("CHAT_MODEL", "chat")


def graded(question, reply, ended):
    result = {"reward": float(style.obeys(reply, ended))}
    if "answer" in question:
        result["right"] = float(facts.right(question, reply))
    return result


def run(task):
    reply, ended, tokens = ask(task, [{"role": "user", "content": task.input["question"]}], MODEL)
    return {**graded(task.input, reply, ended), "tokens": tokens}


if __name__ == "__main__":
    serve(run)
