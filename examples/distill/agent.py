"""Asks a question and looks whether the reply obeys the prompt, which it does not send; with --told it does.

One process for all questions (docs/how-to/warm-agents.md).
"""

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "python"))
sys.path.append(str(Path(__file__).resolve().parents[1] / "chat_sft"))

import prompt
from asking import ask
from fulgurite_agent import serve

MODEL = os.environ.get("CHAT_MODEL", "chat")
WITH_PROMPT = "--told" in sys.argv[1:]


def messages(question, with_prompt):
    system = [{"role": "system", "content": prompt.PROMPT}] if with_prompt else []
    return [*system, {"role": "user", "content": question}]


def run(task):
    reply, ended, tokens = ask(task, messages(task.input["question"], WITH_PROMPT), MODEL)
    return {"reward": float(prompt.obeys(reply, ended)), "tokens": tokens}


if __name__ == "__main__":
    serve(run)
