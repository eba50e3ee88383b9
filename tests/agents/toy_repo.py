"""Has agents solve the tasks of examples/toy_repo, and checks the record. usage: toy_repo.py HOME [AGENT[=TASKS]...]

HOME is what `install` filled. The example is copied, and in its configs only the model's host and place and where the agents
are installed are put in the place of what is there.
"""

import json
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from common import PROGRAM, ROOT, TESTS, make_model, written

HOME = Path(sys.argv[1]).resolve()
EXAMPLE = ROOT / "examples/toy_repo"
TASKS = 20
# Conversations of one task: those of sub-agents are branches of their own.
CONVERSATIONS = {"claude": 2, "codex": 1, "mini-swe-agent": 1, "opencode": 2}


def placed(config, url, model):
    """A config for this host, these agents and this Python."""
    text = (EXAMPLE / config).read_text()
    shown = json.dumps([str(HOME), sys.base_prefix])
    for old, new in {
        'read = ["{project}/agents"]': f"read = {shown}",
        '"$FULGURITE_PROJECT"/agents': str(HOME),
        "{project}/agents": str(HOME),
        '"agents/': f'"{HOME}/',
        "http://127.0.0.1:8000": url,
        "models/coder": str(model),
    }.items():
        text = text.replace(old, new)
    return text


def check(agent, rollout, generations):
    """Looks at every call of a rollout; says how many there are, in how many conversations, with how many tokens."""
    name = f"{agent}: {rollout['input']['name']}"
    assert rollout["status"] == "succeeded", f"{name}: {rollout['status']}"
    assert rollout["reward"] == 1, f"{name}: {json.dumps(rollout, indent=1)}"
    auxiliary = [g for g in generations if (g["defect"] or "").startswith("auxiliary:")]
    answers = [g for g in generations if g not in auxiliary]
    by_id = {g["generation_id"]: g for g in answers}
    firsts = []
    for answer in answers:
        assert answer["sampled_tokens"] and len(answer["logprobs"]) == len(answer["sampled_tokens"]), name
        assert answer["defect"] is None, f"{name}: {answer['defect']}"
        parent = by_id.get(answer["parent_id"])
        if parent is None:
            firsts.append(answer["branch_reason"])
            continue
        history = parent["prompt_tokens"] + parent["sampled_tokens"]
        assert answer["prompt_tokens"][: len(history)] == history, f"{name}: other tokens"
    assert len(firsts) == CONVERSATIONS[agent], f"{name}: {firsts}"
    return len(answers), len(firsts), len(auxiliary), sum(len(g["sampled_tokens"]) for g in answers)


def listed(what, store, *more):
    command = [PROGRAM, what, *more, "--all", "--json", "--store", f"sqlite://{store}"]
    shown = subprocess.run(command, capture_output=True, text=True, check=True)
    return [json.loads(line) for line in shown.stdout.splitlines()]


def play(work, agent, tasks, url):
    project = work / agent
    shutil.copytree(EXAMPLE, project, ignore=shutil.ignore_patterns("agents", "runs", "__pycache__"))
    (project / f"{agent}.toml").write_text(placed(f"{agent}.toml", url, work / "model"))
    lines = (project / "tasks.jsonl").read_text().splitlines(keepends=True)[:tasks]
    (project / "tasks.jsonl").write_text("".join(lines))
    started = time.monotonic()
    command = [PROGRAM, "eval", f"{agent}.toml", "--model", "coder", "--samples", "1", "--json"]
    played = subprocess.run(command, cwd=project, capture_output=True, text=True)
    assert played.returncode == 0, f"{agent}: {played.stdout[-2000:]}{played.stderr[-4000:]}"
    seconds = time.monotonic() - started
    store = next(project.glob("**/*.db"))
    rollouts = listed("rollouts", store)
    assert len(rollouts) == tasks, f"{agent}: {len(rollouts)} rollouts"
    sums = [0, 0, 0, 0]
    for rollout in rollouts:
        counted = check(agent, rollout, listed("generations", store, rollout["rollout_id"]))
        sums = [sum(pair) for pair in zip(sums, counted)]
    calls, conversations, auxiliary, tokens = sums
    print(
        f"{agent}: {tasks} of {tasks} repositories mended, {calls} calls in {conversations} conversations, every token exact, "
        f"{tokens} sampled tokens, {auxiliary} side requests, {seconds:.0f} s",
        flush=True,
    )


def main(work, chosen):
    make_model(work / "model")
    ready = work / "host-ready"
    with (work / "log").open("w") as log:
        script = [sys.executable, TESTS / "host.py", work / "model", ready, "mend_repositories"]
        host = subprocess.Popen(script, stderr=log)
        try:
            for agent, tasks in chosen.items():
                play(work, agent, tasks, written(ready))
        finally:
            host.terminate()
            host.wait()


def chosen(words):
    pairs = [word.partition("=") for word in words]
    named = {name: int(tasks) if tasks else TASKS for name, _, tasks in pairs}
    return named or dict.fromkeys(CONVERSATIONS, TASKS)


with tempfile.TemporaryDirectory() as work:
    try:
        main(Path(work), chosen(sys.argv[2:]))
    except BaseException:
        print((Path(work) / "log").read_text()[-4000:], file=sys.stderr)
        raise
