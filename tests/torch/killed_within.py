"""The learner in PyTorch, killed in the midst of a call, once.

The file that KILLED_WITHIN names holds the call's name. It is removed by the kill, so that the next process is undisturbed.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from fulgurite.learner import __main__ as process
from fulgurite.learner.calls import Calls
from fulgurite.learner.files import NewDirectory
from fulgurite.learner.passes import Pass
from fulgurite.learner.policy import Policy

ORDER = Path(os.environ["KILLED_WITHIN"])
current = ""

MIDST = {
    # Of each call, what is done in it: the process is killed behind it, before the reply and what else there is to do.
    "forward": (Pass, "score"),
    "forward_reference": (Pass, "score"),
    "forward_backward": (Pass, "learn"),
    "forward_backward_comparisons": (Pass, "learn"),
    "optimizer_step": (torch.optim.AdamW, "step"),
    "keep_reference": (Policy, "keep_reference"),
    "save_checkpoint": (NewDirectory, "write_tensors"),
    "save_weights": (NewDirectory, "write_tensors"),
    "load_checkpoint": (Policy, "take"),
}


def kill_behind(calls: list[str], owner: Any, name: str) -> None:
    """Have a method end the process where it is done in one of these calls that is to be killed."""
    method: Callable[..., Any] = getattr(owner, name)

    def killing(*arguments: Any, **more: Any) -> Any:
        found = method(*arguments, **more)
        if current in calls and ORDER.exists() and ORDER.read_text() == current:
            ORDER.unlink()
            os.kill(os.getpid(), signal.SIGKILL)
        return found

    setattr(owner, name, killing)


def main() -> None:
    """Answer calls until the one that is named."""
    for owner, name in sorted(set(MIDST.values()), key=str):
        kill_behind([call for call, place in MIDST.items() if place == (owner, name)], owner, name)
    answer = Calls.answer

    def answering(self: Calls, header: dict[str, Any], body: bytearray) -> Any:
        global current
        current = header["call"]
        return answer(self, header, body)

    Calls.answer = answering  # type: ignore[method-assign]
    process.main()


if __name__ == "__main__":
    main()
