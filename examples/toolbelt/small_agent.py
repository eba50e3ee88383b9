"""The agent of the world of twelve tools: one process for all episodes (docs/how-to/warm-agents.md).

Each episode has an office of its own, in a directory of its own, which is made and graded here, since a warm agent has
no world of the runner's. Its MCP sessions are in this process: JSON-RPC over memory, and no server is started.
"""

import os
import sys
import tempfile
import threading
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "python"))

import openai
from belt import Belt
from connection import Limits, Loop
from fulgurite_agent import serve
from loop import play
from office import small
from office.serve import server
from office.servers import small as small_servers
from office.world import use

SERVERS = {name: server(name, tools) for name, tools in small_servers().items()}
LISTED = {name: Loop.shared().run(each.list_tools()) for name, each in SERVERS.items()}
SHARED = openai.OpenAI(base_url="http://each.task.has.its.own", api_key="too", max_retries=2)
# Files in memory, where there is such a directory: an episode is a few dozen of them.
WORLDS = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
LIMITS = Limits(call_seconds=10)
# The world is the thread's; a process that is started by this thread would have none.
AT_ONCE = threading.Semaphore(16)


def run(task):
    number = int(task.input)
    small_task = small.Task(number)
    with AT_ONCE, tempfile.TemporaryDirectory(prefix="toolbelt-", dir=WORLDS) as directory:
        world = use(directory)
        small_task.populate(world)
        before = small.state(world)
        belt = Belt(SERVERS, LIMITS, mode="legacy", lazily=LISTED)
        try:
            client = SHARED.with_options(base_url=task.base_url, api_key=task.api_key)
            outcome = play(
                client,
                "clerk",
                belt,
                small_task.prompt,
                turns=6,
                seconds=task.timeout_seconds - 5,
                answer_tokens=48,
                reminders=0,
            )
        finally:
            belt.close()
        criteria = small_task.criteria(world, before, outcome.answer)
    met = {name: float(is_met) for name, is_met in criteria.items()}
    return {
        "reward": sum(met.values()) / len(met),
        "whole": float(all(criteria.values())),
        "tool_errors": outcome.tool_errors,
        "tools_changed": outcome.tools_changed,
        "tools_changed_tokens": outcome.tools_changed_tokens,
        "ended_with_an_answer": float(outcome.answer is not None),
        f"kind/{small_task.kind.name}": sum(met.values()) / len(met),
    }


if __name__ == "__main__":
    serve(run)
