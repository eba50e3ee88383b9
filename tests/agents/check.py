"""Has each agent play a rollout, and checks the record. usage: check.py HOME (see run)"""

import json
import os
import subprocess
import sys
import tempfile
import urllib.request
from pathlib import Path

from common import PROGRAM, TESTS, make_model, written

# With the number of trajectories that its conversation makes. opencode puts what it was told of the answer that broke off
# into its history, before the answer that it got instead.
AGENTS = {"claude-code": 1, "codex": 1, "opencode": 2}
HOME = Path(sys.argv[1]).resolve()


def check(agent, status, generations):
    assert status == "succeeded", f"{agent}: its rollout has {status}"
    beside = [g for g in generations if (g["defect"] or "").startswith("auxiliary:")]
    broken = [g for g in generations if g["stop_reason"] == "error"]
    answers = [g for g in generations if g not in beside and g not in broken]
    assert len(broken) == 1, f"{agent}: {len(broken)} answers broke off"
    assert len(answers) == 3, f"{agent}: {len(answers)} turns"
    by_id = {g["generation_id"]: g for g in answers}
    for answer in answers[1:]:
        assert answer["parent_id"] in by_id, f"{agent}: {answer['branch_reason']}"
        parent = by_id[answer["parent_id"]]
        history = parent["prompt_tokens"] + parent["sampled_tokens"]
        assert answer["prompt_tokens"][: len(history)] == history, f"{agent}: other tokens"
    trajectories = 1 + sum(later["parent_id"] != earlier["generation_id"] for earlier, later in zip(answers, answers[1:]))
    assert trajectories == AGENTS[agent], f"{agent}: {trajectories} trajectories"
    names = ", ".join(g["defect"] for g in beside) or "none"
    print(f"{agent}: 3 turns, {len(answers[-1]['prompt_tokens'])} tokens, trajectories: {trajectories}, side requests: {names}")


def main(work):
    make_model(work / "model")
    log = (work / "log").open("w")
    host_ready, server_ready = work / "host-ready", work / "server-ready"
    store = f"sqlite://{work}/store.db"
    started = [subprocess.Popen([sys.executable, TESTS / "host.py", work / "model", host_ready, "break_off"], stderr=log)]
    try:
        model = f"tiny=vllm:{written(host_ready)},path={work}/model"
        # What breaks off is to reach the agents, who ask again.
        (work / "serve.toml").write_text("[proxy]\nhost_patience_seconds = 0\n")
        serve = [PROGRAM, "serve", "--config", work / "serve.toml", "--listen", "127.0.0.1:0", "--store", store, "--model", model]
        started.append(subprocess.Popen([*serve, "--ready-file", server_ready], stdout=log, stderr=log))
        url = json.loads(written(server_ready))["url"]
        rollouts = [{"rollout_id": f"ro-{agent}", "input": {"agent": agent}} for agent in AGENTS]
        body = json.dumps({"rollouts": rollouts}).encode()
        enqueue = urllib.request.Request(f"{url}/v1/agl/queues/rollouts/enqueue", body, {"content-type": "application/json"})
        urllib.request.urlopen(enqueue).close()
        agent = [TESTS / "agent", "{task.agent}", "Write a.txt and tell me what it says."]
        environment = {**os.environ, "AGENTS_HOME": str(HOME), "AGENTS_WORK": str(work)}
        subprocess.run([PROGRAM, "run", "--server", url, "--until-idle", "--", *agent], env=environment, check=True)
    finally:
        for process in reversed(started):
            process.terminate()
            process.wait()

    def listed(what, agent):
        shown = subprocess.run(
            [PROGRAM, what, f"ro-{agent}", "--all", "--json", "--store", store], capture_output=True, text=True, check=True
        )
        return [json.loads(line) for line in shown.stdout.splitlines()]

    for agent in AGENTS:
        check(agent, listed("rollouts", agent)[0]["status"], listed("generations", agent))


with tempfile.TemporaryDirectory() as work:
    try:
        main(Path(work))
    except BaseException:
        print((Path(work) / "log").read_text()[-4000:], file=sys.stderr)
        raise
