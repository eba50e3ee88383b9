"""Has each agent play a rollout, and checks the record. usage: check.py HOME (see run)"""

import itertools
import json
import os
import subprocess
import sys
import urllib.request
from pathlib import Path

from common import PROGRAM, TESTS, listed, main_in_directory, served

# With the number of trajectories that its conversation makes. opencode puts what it was told of the answer that broke off
# into its history, before the answer that it got instead.
AGENTS = {"claude-code": 1, "codex": 1, "opencode": 2, "gemini": 1, "adk": 1}
HOME = Path(sys.argv[1]).resolve()


def check(agent, status, generations):
    assert status == "succeeded", f"{agent}: its rollout has {status}"
    auxiliary = [g for g in generations if (g["defect"] or "").startswith("auxiliary:")]
    broken = [g for g in generations if g["stop_reason"] == "error"]
    answers = [g for g in generations if g not in auxiliary and g not in broken]
    assert len(broken) == 1, f"{agent}: {len(broken)} answers broke off"
    assert len(answers) == 3, f"{agent}: {len(answers)} turns"
    by_id = {g["generation_id"]: g for g in answers}
    for answer in answers[1:]:
        assert answer["parent_id"] in by_id, f"{agent}: {answer['branch_reason']}"
        parent = by_id[answer["parent_id"]]
        history = parent["prompt_tokens"] + parent["sampled_tokens"]
        assert answer["prompt_tokens"][: len(history)] == history, f"{agent}: other tokens"
    trajectories = 1 + sum(later["parent_id"] != earlier["generation_id"] for earlier, later in itertools.pairwise(answers))
    assert trajectories == AGENTS[agent], f"{agent}: {trajectories} trajectories"
    names = ", ".join(g["defect"] for g in auxiliary) or "none"
    print(f"{agent}: 3 turns, {len(answers[-1]['prompt_tokens'])} tokens, trajectories: {trajectories}, side requests: {names}")


def main(work):
    # What breaks off is to reach the agents, who ask again.
    with served(work, "break_off", "[proxy]\nhost_patience_seconds = 0\n") as url:
        rollouts = [{"rollout_id": f"ro-{agent}", "input": {"agent": agent}} for agent in AGENTS]
        body = json.dumps({"rollouts": rollouts}).encode()
        enqueue = urllib.request.Request(f"{url}/v1/agl/queues/rollouts/enqueue", body, {"content-type": "application/json"})
        urllib.request.urlopen(enqueue).close()
        agent = [TESTS / "agent", "{task.agent}", "Write a.txt and tell me what it says."]
        environment = {**os.environ, "AGENTS_HOME": str(HOME), "AGENTS_WORK": str(work)}
        subprocess.run([PROGRAM, "run", "--server", url, "--until-idle", "--", *agent], env=environment, check=True)
    for agent in AGENTS:
        check(agent, listed(work, "rollouts", f"ro-{agent}")[0]["status"], listed(work, "generations", f"ro-{agent}"))


main_in_directory(main)
