"""What both agents share: a task is asked, and what came of it is graded."""

import json
import sys

import sums
from fulgurite_agent import serve
from grade import grade

# Answers of the model at most, in an episode; two are needed.
TURNS = 3


def main(play):
    """One task, if the command line names it, with the model of the environment; else a warm agent's tasks."""
    if sys.argv[1:]:
        task = sums.Task(int(sys.argv[1]))
        print(json.dumps(grade(task, *play(task.question))))
        return

    def run(rollout):
        task = sums.Task(int(rollout.input))
        return grade(task, *play(task.question, base_url=rollout.base_url, api_key=rollout.api_key))

    serve(run)
