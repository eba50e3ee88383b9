"""Codex with an MCP server of its own: its tools reach the model, the model's call reaches the server, and the conversation goes on
token by token. usage: codex_mcp.py HOME (see run)"""

import json
import os
import subprocess
import sys
import urllib.request
from pathlib import Path

from common import TESTS, listed, main_in_directory, served

HOME = Path(sys.argv[1]).resolve()


def main(work):
    with served(work, "use_mcp") as url:
        start = urllib.request.Request(f"{url}/v1/agl/rollouts", b'{"input": "x"}', {"content-type": "application/json"})
        rollout = json.load(urllib.request.urlopen(start))
        base = f"{url}/rollout/{rollout['rollout_id']}/attempt/{rollout['attempt']['attempt_id']}/v1"
        provider = f'{{ name = "Fulgurite", base_url = "{base}", env_key = "OPENAI_API_KEY", wire_api = "responses" }}'
        server = f'{{ command = "{sys.executable}", args = ["{TESTS / "mcp_demo.py"}"] }}'
        home = work / "home"
        home.mkdir()
        subprocess.run(["git", "init", "--quiet", "."], cwd=home, check=True)
        command = [HOME / "node_modules/.bin/codex", "exec", "--dangerously-bypass-approvals-and-sandbox", "--model", "tiny",
                   "-c", "model_provider=fulgurite", "-c", f"model_providers.fulgurite={provider}",
                   "-c", f"mcp_servers.demo={server}", "What is the value of amber?"]
        environment = {**os.environ, "HOME": str(home), "OPENAI_API_KEY": "k"}
        ended = subprocess.run(command, cwd=home, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                               timeout=300)
        assert ended.returncode == 0 and "It is rebma." in ended.stdout, ended.stdout[-2000:] + ended.stderr[-4000:]
    generations = listed(work, "generations", rollout["rollout_id"])
    answers = [g for g in generations if not (g["defect"] or "").startswith("auxiliary:")]
    assert len(answers) == 2, f"{len(answers)} turns"
    first, second = answers
    history = first["prompt_tokens"] + first["sampled_tokens"]
    assert second["parent_id"] == first["generation_id"] and second["prompt_tokens"][: len(history)] == history
    print(f"codex with an MCP server: 2 turns, {len(second['prompt_tokens'])} tokens, its tool was called and answered")


main_in_directory(main)
