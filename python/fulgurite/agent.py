"""A warm agent for `fulgurite run --warm`: one process that plays many rollouts at once.

    from fulgurite.agent import serve          # or of the file fulgurite_agent.py, which is the same and stands alone
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

from __future__ import annotations

import json
import math
import os
import sys
import threading
import traceback
from typing import Any, Callable, Dict, Union  # noqa: UP035

__all__ = ["Answer", "Task", "serve"]

# Python 3.9 has no `|` between types that are values.
Answer = Union[float, str, Dict[str, Any], None]  # noqa: UP006, UP007
"""What playing a task may give: a reward, an output for the grader, a reward with components, or nothing."""


class Task:
    """One attempt at a rollout: its input, and where its model is."""

    def __init__(self, fields: dict[str, Any]) -> None:
        """Read a task's line."""
        self.fields = fields
        self.input: Any = fields["task"]
        self.rollout_id: str = fields["rollout_id"]
        self.attempt_id: str = fields["attempt_id"]
        self.base_url: str = fields["base_url"]  # for OpenAI's clients
        self.anthropic_base_url: str = fields["anthropic_base_url"]
        self.api_key: str = fields["api_key"]  # opens this attempt alone
        self.reward_url: str = fields["reward_url"]
        self.timeout_seconds: float | None = fields["timeout_seconds"]
        self._cancelled = threading.Event()

    @property
    def cancelled(self) -> bool:
        """Whether nobody waits for it any more.

        A long `run` that looks here now and then, and returns, spares its process from being replaced.
        """
        return self._cancelled.is_set()


def serve(run: Callable[[Task], Answer]) -> None:
    """Read tasks until standard input is closed, each played by `run(task)` in a thread of its own."""
    # Nothing that `run` or its libraries print or read must get between the lines of the runner.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    tasks = os.fdopen(os.dup(0), "r", encoding="utf-8")
    os.dup2(2, 1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    sys.stdout = sys.stderr

    writing = threading.Lock()
    playing: dict[str, Task] = {}

    def play(task: Task) -> None:
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
                cancelled = playing.get(fields["attempt_id"])
            if cancelled is not None:
                cancelled._cancelled.set()
            continue
        task = Task(fields)
        with writing:
            playing[task.attempt_id] = task
        # Nobody waits for what is left when standard input is closed.
        threading.Thread(target=play, args=(task,), daemon=True).start()


def _answer(result: Answer) -> dict[str, Any]:
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
