"""Grades an attempt by the rubric of its task: prints the share of criteria that are met, and each of them.

The world is as the agent left it. How it was before is made once more, from the same task and seed.
"""

import json
import os
import sys
import tempfile

from office.tasks import task_of
from office.world import World


def grade(task, seed, root, outcome):
    with tempfile.TemporaryDirectory() as directory:
        before = World(directory)
        task.populate(before, seed)
        criteria = task.rubric(before, World(root), outcome.get("answer"))
    met = {f"{task.kind.name}/{name}": float(is_met) for name, is_met in criteria.items()}
    return {
        "reward": sum(met.values()) / len(met),
        "whole": float(all(criteria.values())),
        "tools_used": len({call["tool"] for call in World(root).calls()}),
        "turns": outcome.get("turns", 0),
        **{name: outcome.get(name, 0) for name in ("tool_errors", "tools_changed", "tools_changed_tokens")},
        f"ended/{outcome.get('ended') or 'unknown'}": 1.0,
        **met,
    }


def main():
    lines = sys.stdin.read().strip().splitlines()
    outcome = json.loads(lines[-1]) if lines else {}
    task = task_of(os.environ["FULGURITE_TASK"])
    print(json.dumps(grade(task, os.environ.get("FULGURITE_WORLD_SEED", "0"), os.environ["FULGURITE_WORLD"], outcome)))


if __name__ == "__main__":
    main()
