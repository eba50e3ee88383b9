"""Codex with an MCP server of its own, whose tools reach the model and are called, and with a sub-agent, whose conversation is one
of its own: both go on token by token. usage: codex.py HOME (see run)"""

import itertools
import os
import subprocess
import sys
from pathlib import Path

from common import TESTS, listed, main_in_directory, served, start

HOME = Path(sys.argv[1]).resolve()


def play(work, script, task, expected, *settings):
    """What was recorded of a task at a script, which has to end with what is expected. Conversations apart from side requests."""
    work.mkdir()
    with served(work, script) as url:
        rollout, base = start(url)
        provider = f'{{ name = "Fulgurite", base_url = "{base}", env_key = "OPENAI_API_KEY", wire_api = "responses" }}'
        home = work / "home"
        home.mkdir()
        subprocess.run(["git", "init", "--quiet", "."], cwd=home, check=True)
        words = [word for setting in ["model_provider=fulgurite", f"model_providers.fulgurite={provider}", *settings]
                 for word in ("-c", setting)]
        command = [HOME / "node_modules/.bin/codex", "exec", "--dangerously-bypass-approvals-and-sandbox", "--model", "tiny"]
        environment = {**os.environ, "HOME": str(home), "OPENAI_API_KEY": "k"}
        ended = subprocess.run([*command, *words, task], cwd=home, env=environment, stdin=subprocess.DEVNULL, capture_output=True,
                               text=True, timeout=300)
        assert ended.returncode == 0 and expected in ended.stdout, ended.stdout[-2000:] + ended.stderr[-4000:]
    generations = listed(work, "generations", rollout)
    return [g for g in generations if not (g["defect"] or "").startswith("auxiliary:")]


def check_exact(turns):
    """Each turn of a conversation was sampled after the very tokens of the turn before it."""
    for earlier, later in itertools.pairwise(turns):
        history = earlier["prompt_tokens"] + earlier["sampled_tokens"]
        assert later["parent_id"] == earlier["generation_id"], later["branch_reason"]
        assert later["prompt_tokens"][: len(history)] == history


def with_mcp(work):
    server = f'mcp_servers.demo={{ command = "{sys.executable}", args = ["{TESTS / "programs/mcp_demo.py"}"], required = true }}'
    turns = play(work, "use_mcp", "What is the value of amber?", "It is rebma.", server)
    assert len(turns) == 2, f"{len(turns)} turns"
    check_exact(turns)
    print(f"codex with an MCP server: 2 turns, {len(turns[-1]['prompt_tokens'])} tokens, its tool was called and answered")


def with_sub_agent(work):
    calls = play(work, "spawn_agent", "Have a sub-agent say what amber is backwards.", "It said rebma.")
    # The sub-agent has other tools and instructions than who began it, so that no tokens are shared.
    first, spawned = [g for g in calls if g["parent_id"] is None]
    turns = [g for g in calls if g is not spawned]
    assert spawned["branch_reason"] == "first_turn" and all(g["parent_id"] != spawned["generation_id"] for g in calls)
    assert turns[0] is first and len(turns) >= 3, f"{len(turns)} turns"
    check_exact(turns)
    print(f"codex with a sub-agent: {len(turns)} turns and the sub-agent's one, each conversation exact")


def main(work):
    with_mcp(work / "mcp")
    with_sub_agent(work / "sub_agent")


main_in_directory(main)
