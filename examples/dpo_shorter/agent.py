"""Asks a question that has one right answer: 1 for naming it and no other of its kind, and how long the reply is.

One process for all questions (docs/how-to/warm-agents.md). The model sees the question alone; what is right stays here.
"""

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "python"))
sys.path.append(str(Path(__file__).resolve().parents[1] / "chat_sft"))

import facts
from asking import ask
from fulgurite_agent import serve

MODEL = os.environ.get("CHAT_MODEL", "chat")


def graded(question, reply, ended, tokens):
    return {"reward": float(facts.right(question, reply)), "tokens": tokens, "ended": float(ended)}


def run(task):
    return graded(task.input, *ask(task, [{"role": "user", "content": task.input["question"]}], MODEL))


if __name__ == "__main__":
    serve(run)
