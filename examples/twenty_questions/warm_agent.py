"""The same Flow in one process for all games (docs/how-to/warm-agents.md), since CrewAI takes seconds to import."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "python"))

from agent import arguments, play
from fulgurite_agent import serve
from game import TURNS

OPTIONS = arguments().parse_args()


def run(task):
    turns = task.input.get("turns", TURNS)
    return play(task.input["noun"], OPTIONS, task.base_url, task.api_key, turns)


if __name__ == "__main__":
    serve(run)
