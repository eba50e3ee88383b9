"""Has an environment of verifiers and one of OpenEnv played, and checks the record. See `environments`."""

import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

from common import PROGRAM, ROOT, TESTS, make_model, verifiers_environment, written

EXAMPLES = ROOT / "examples/environments"
PLAYED = 3


def run(*words, **more):
    return subprocess.run(words, check=True, capture_output=True, text=True, **more).stdout


def verifiers_words(work):
    """A runner's words for an environment of verifiers."""
    home = verifiers_environment(work)
    config = work / "verifiers.toml"
    config.write_text((EXAMPLES / "verifiers.toml").read_text())
    return ["--config", config, "--worlds", work / "worlds"], home


def openenv_words(work, started):
    """A runner's words for the environment that `openenv init` makes, which is served from here on."""
    home = ROOT / "target/openenv/bin"
    run(home / "openenv", "init", "echo_env", cwd=work)
    port, silent = "18117", subprocess.DEVNULL
    command = [home / "python", "-m", "uvicorn", "server.app:app", "--port", port]
    started.append(subprocess.Popen(command, cwd=work / "echo_env", stdout=silent, stderr=silent))
    url = f"http://127.0.0.1:{port}"
    while True:
        try:
            urllib.request.urlopen(f"{url}/health").close()
            break
        except OSError:
            time.sleep(0.1)
    return ["--", home / "python", EXAMPLES / "openenv_agent.py", url, "{task}"], home


def play(name, words, home, server, store):
    ids = run(PROGRAM, "enqueue", "--server", server, *map(str, range(PLAYED))).split()
    environment = {**os.environ, "PATH": f"{home}:{os.environ['PATH']}"}
    run(PROGRAM, "run", "--server", server, "--until-idle", "--parallel", "1", *words, env=environment)
    calls = continued = 0
    rewards = []
    for id in ids:
        shown = [run(PROGRAM, what, id, "--json", "--store", store) for what in ("rollouts", "drift")]
        rollout, *drift = (json.loads(line) for lines in shown for line in lines.splitlines())
        assert rollout["status"] == "succeeded", f"{name}: {rollout}"
        assert rollout["reward"] > 0, f"{name}: {rollout}"
        assert [call["reason"] for call in drift if not call["continues"]] == ["first_turn"], f"{name}: {drift}"
        rewards.append(rollout["reward"])
        calls += len(drift)
        continued += sum(call["continues"] is not None for call in drift)
    print(f"{name}: {PLAYED} rollouts, rewards {rewards}, {calls} calls, all but the first {PLAYED} go on token by token")


def main(work):
    make_model(work / "model")
    host_ready, server_ready = work / "host-ready", work / "server-ready"
    store = f"sqlite://{work}/store.db"
    started = [subprocess.Popen([sys.executable, TESTS / "host.py", work / "model", host_ready, "break_off"])]
    try:
        model = f"coder=vllm:{written(host_ready)},path={work}/model"
        serve = [PROGRAM, "serve", "--listen", "127.0.0.1:0", "--store", store, "--model", model]
        with (work / "log").open("w") as log:
            started.append(subprocess.Popen([*serve, "--ready-file", server_ready], stdout=log, stderr=log))
        server = json.loads(written(server_ready))["url"]
        play("verifiers", *verifiers_words(work), server, store)
        play("openenv", *openenv_words(work, started), server, store)
    finally:
        for process in reversed(started):
            process.terminate()
            process.wait()


with tempfile.TemporaryDirectory() as work:
    try:
        main(Path(work))
    except subprocess.CalledProcessError as error:
        print(error.stdout, error.stderr, file=sys.stderr)
        raise
