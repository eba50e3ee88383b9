"""Codex with an MCP server of its own: its tools reach the model, the model's call reaches the server, and the conversation goes on
token by token. usage: codex_mcp.py HOME (see run)"""

import json
import os
import subprocess
import sys
import tempfile
import urllib.request
from pathlib import Path

from common import PROGRAM, TESTS, make_model, written

HOME = Path(sys.argv[1]).resolve()


def main(work):
    make_model(work / "model")
    log = (work / "log").open("w")
    host_ready, server_ready = work / "host-ready", work / "server-ready"
    store = f"sqlite://{work}/store.db"
    started = [subprocess.Popen([sys.executable, TESTS / "host.py", work / "model", host_ready, "use_mcp"], stderr=log)]
    try:
        model = f"tiny=vllm:{written(host_ready)},path={work}/model"
        serve = [PROGRAM, "serve", "--listen", "127.0.0.1:0", "--store", store, "--model", model]
        started.append(subprocess.Popen([*serve, "--ready-file", server_ready], stdout=log, stderr=log))
        url = json.loads(written(server_ready))["url"]
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
    finally:
        for process in reversed(started):
            process.terminate()
            process.wait()
    shown = subprocess.run([PROGRAM, "generations", rollout["rollout_id"], "--all", "--json", "--store", store],
                           capture_output=True, text=True, check=True)
    generations = [json.loads(line) for line in shown.stdout.splitlines()]
    answers = [g for g in generations if not (g["defect"] or "").startswith("auxiliary:")]
    assert len(answers) == 2, f"{len(answers)} turns"
    first, second = answers
    history = first["prompt_tokens"] + first["sampled_tokens"]
    assert second["parent_id"] == first["generation_id"] and second["prompt_tokens"][: len(history)] == history
    print(f"codex with an MCP server: 2 turns, {len(second['prompt_tokens'])} tokens, its tool was called and answered")


with tempfile.TemporaryDirectory() as work:
    try:
        main(Path(work))
    except BaseException:
        print((Path(work) / "log").read_text()[-4000:], file=sys.stderr)
        raise
