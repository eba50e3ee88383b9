"""A warm agent for `fulgurite run --warm`: one process that plays many rollouts at once.

    from fulgurite_agent import serve
    from openai import OpenAI

    def run(task):
        client = OpenAI(base_url=task.base_url, api_key=task.api_key)
        reply = client.chat.completions.create(model="hello", messages=[{"role": "user", "content": task.input}])
        return 1.0 if "42" in reply.choices[0].message.content else 0.0

    serve(run)

`run` returns the reward (a number, or a dict with `reward` and other numbers as its components), the output for the grader
(a string), or None if the reward was posted to `task.reward_url`. What it raises fails its attempt with that reason. What it
prints goes to standard error, since standard output belongs to the answers. Python 3.9 or later, no dependencies.
"""

import json
import math
import os
import sys
import threading
import traceback

__all__ = ["Task", "serve"]


class Task:
    """One attempt at a rollout: its input, and where its model is."""

    def __init__(self, fields):
        self.fields = fields
        self.input = fields["task"]
        self.rollout_id = fields["rollout_id"]
        self.attempt_id = fields["attempt_id"]
        self.base_url = fields["base_url"]  # for OpenAI's clients
        self.anthropic_base_url = fields["anthropic_base_url"]
        self.api_key = fields["api_key"]  # opens this attempt alone
        self.reward_url = fields["reward_url"]
        self.timeout_seconds = fields["timeout_seconds"]
        self._cancelled = threading.Event()

    @property
    def cancelled(self):
        """Whether nobody waits for it any more. A long `run` that looks here now and then, and returns, spares its
        process from being replaced."""
        return self._cancelled.is_set()


def serve(run):
    """Reads tasks until standard input is closed, each played by `run(task)` in a thread of its own."""
    # Nothing that `run` or its libraries print or read must get between the lines of the runner.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    tasks = os.fdopen(os.dup(0), "r", encoding="utf-8")
    os.dup2(2, 1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    sys.stdout = sys.stderr

    writing = threading.Lock()
    playing = {}

    def play(task):
        names = {"rollout_id": task.rollout_id, "attempt_id": task.attempt_id}
        try:
            line = json.dumps({**names, **_answer(run(task))}, allow_nan=False)
        except BaseException as error:  # also of SystemExit: it would end this thread without a word
            traceback.print_exc()
            line = json.dumps({**names, "error": f"{type(error).__name__}: {error}"})
        with writing:
            playing.pop(task.attempt_id, None)
            answers.write(line + "\n")
            answers.flush()

    for line in tasks:
        fields = json.loads(line)
        if "cancel" in fields:
            with writing:
                task = playing.get(fields["attempt_id"])
            if task is not None:
                task._cancelled.set()
            continue
        task = Task(fields)
        with writing:
            playing[task.attempt_id] = task
        # Nobody waits for what is left when standard input is closed.
        threading.Thread(target=play, args=(task,), daemon=True).start()


def _answer(result):
    if result is None:
        return {}
    if isinstance(result, str):
        return {"output": result}
    if isinstance(result, dict):
        return result
    reward = float(result)
    if not math.isfinite(reward):
        raise ValueError(f"the reward is {reward}, which is no finite number")
    return {"reward": reward}
