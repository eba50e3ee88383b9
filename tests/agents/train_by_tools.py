"""Claude Code and Codex themselves train a tiny model with nothing but the tools of `fulgurite mcp`, told what to do by a script.

usage: train_by_tools.py HOME (see run). Each writes a grader, begins a run, is told that there is no signal, writes another
grader, trains until the held-out score has risen, and exports weights.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HOME = Path(sys.argv[1]).resolve()
TESTS = Path(__file__).resolve().parent
ROOT = TESTS.parent.parent
PROGRAM = ROOT / "target/debug/fulgurite"

CONFIG = """
[run]
name = "hello"
seed = 1
[[models]]
name = "hello"
backend = "embedded"
path = "model"
[base]
corpus = ["hello-corpus", "--seed", "1", "--count", "400"]
vocabulary_size = 300
shape = { hidden_size = 32, layers = 1, heads = 2, key_value_heads = 1, head_size = 16, intermediate_size = 64, context_length = 128 }
training = { batch_size = 16, max_steps = 5, cooldown_steps = 2 }
[tasks]
train = { range = [0, 2] }
held_out = { range = [2, 3] }
[runner]
command = ["hello-agent", "{task}"]
grade = ["hello-grader"]
"""


def tasks(first, end):
    return [{"prompt": f"Say you are {n}.", "answer": str(n)} for n in range(first, end)]


def grader(name, code, good, bad):
    examples = [{"task": {"answer": "7"}, "answer": answer, "reward": reward} for answer, reward in (good, bad)]
    return ["write_grader", {"name": name, "code": code, "examples": examples}]


def run(name, grader):
    settings = {"trainer.group_size": 8, "trainer.groups_per_batch": 4, "trainer.learning_rate": 0.03}
    return ["start_run", {"name": name, "model": "model", "grader": grader, "max_tokens": 8, "tasks": tasks(0, 40),
                          "held_out": tasks(40, 44), "settings": settings}]


STRICT = "def grade(task, answer):\n    return float(answer == 'I am ' + task['answer'] + '!')\n"
SHORT = "def grade(task, answer):\n    return 1 - min(len(answer.encode()), 20) / 20\n"
TURNS = [
    grader("strict", STRICT, ("I am 7!", 1), ("I am 7", 0)),
    run("first", "strict"),
    ["train_steps", {"run": "first", "steps": 2}],
    grader("short", SHORT, ("", 1), ("abc", 0.85)),
    run("second", "short"),
    ["train_steps", {"run": "second", "steps": 10}],
    ["evaluate", {"run": "second", "checkpoint": "before", "samples": 2}],
    ["evaluate", {"run": "second", "samples": 2}],
    ["finish", {"run": "second"}],
    ["export_weights", {"run": "second", "format": "merged", "name": "out"}],
]


def command(agent, url, project):
    server = {"command": str(PROGRAM), "args": ["mcp"]}
    if agent == "claude-code":
        (project / "mcp.json").write_text(json.dumps({"mcpServers": {"fulgurite": server}}))
        return [HOME / "node_modules/.bin/claude", "-p", "Train a model.", "--permission-mode", "bypassPermissions",
                "--mcp-config", "mcp.json", "--strict-mcp-config"]
    provider = f'{{ name = "Scripted", base_url = "{url}/v1", env_key = "OPENAI_API_KEY", wire_api = "responses" }}'
    return [HOME / "node_modules/.bin/codex", "exec", "--dangerously-bypass-approvals-and-sandbox", "--model", "m",
            "-c", "model_provider=scripted", "-c", f"model_providers.scripted={provider}",
            "-c", f'mcp_servers.fulgurite={{ command = "{PROGRAM}", args = ["mcp"], tool_timeout_sec = 120 }}', "Train a model."]


def reward(text):
    row = next(line for line in text.splitlines() if line.startswith(" all"))
    return float(re.search(r"[+-]\d+\.\d+", row)[0])


def check(agent, work):
    project = work / agent
    project.mkdir()
    (project / "t.toml").write_text(CONFIG)
    subprocess.run([PROGRAM, "train", "t.toml", "--max-steps", "1", "--run-directory", work / f"made-{agent}"], cwd=project,
                   check=True, capture_output=True)
    (work / "turns").write_text(json.dumps(TURNS))
    ready = work / f"ready-{agent}"
    model = subprocess.Popen([sys.executable, TESTS / "scripted_model.py", work / "turns", ready], stdout=subprocess.PIPE, text=True)
    try:
        while not (ready.exists() and ready.read_text()):
            time.sleep(0.05)
        url = ready.read_text()
        # What these programs keep about themselves goes there too, and no user's own set-up comes in.
        environment = {**os.environ, "HOME": str(project), "ANTHROPIC_BASE_URL": url, "ANTHROPIC_API_KEY": "k",
                       "OPENAI_API_KEY": "k", "IS_SANDBOX": "1", "ANTHROPIC_MODEL": "tiny", "MCP_TOOL_TIMEOUT": "120000"}
        subprocess.run(["git", "init", "--quiet", "."], cwd=project, check=True)
        ended = subprocess.run(command(agent, url, project), cwd=project, env=environment, stdin=subprocess.DEVNULL,
                               capture_output=True, text=True, timeout=540)
    finally:
        model.terminate()
    results = [json.loads(line) for line in model.stdout]
    log = json.dumps(results, indent=1) + ended.stdout[-2000:] + ended.stderr[-2000:]
    assert ended.returncode == 0 and len(results) == len(TURNS), f"{agent}: {log}"
    texts = [turn["text"] for turn in results]
    assert "NO SIGNAL: 8 of 8 groups were constant" in texts[2], f"{agent}: {texts[2]}"
    before, after = reward(texts[6]), reward(texts[7])
    assert after > before + 0.5, f"{agent}: {before} -> {after}"
    assert "is finished" in texts[8], f"{agent}: {texts[8]}"
    assert (project / "fulgurite/exports/out/model.safetensors").is_file(), f"{agent}: {texts[9]}"
    print(f"{agent}: {len(results)} tool calls; no signal by the first grader; held-out {before:+.3f} -> {after:+.3f}; weights exported")


with tempfile.TemporaryDirectory() as work:
    for agent in ("claude-code", "codex"):
        check(agent, Path(work))
