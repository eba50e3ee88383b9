"""What both checks need: a model's directory, and the programs."""

import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

TESTS = Path(__file__).resolve().parent
ROOT = TESTS.parent.parent
PROGRAM = Path(os.environ.get("FULGURITE_PROGRAM", ROOT / "target/debug/fulgurite"))
VECTORS = ROOT / "renderers/tests/vectors"
# Of an environment of verifiers.
TASKSET = """
import verifiers.v1 as vf


class Data(vf.TaskData):
    pass


class Task(vf.Task[Data]):
    @vf.reward(weight=1.0)
    async def reward(self, trace: vf.Trace) -> float:
        return float("Done" in str(trace.last_reply))


class MyEnvTaskset(vf.Taskset[Task, vf.TasksetConfig]):
    def load(self) -> list[Task]:
        return [Task(Data(idx=i, prompt=f"Write a.txt, {i}."), self.config.task) for i in range(3)]
"""


def make_model(directory):
    """Qwen3's format, with a tokenizer of a few hundred tokens."""
    directory.mkdir()
    shutil.copy(VECTORS / "tokenizers/qwen3/tokenizer.json", directory)
    config = json.loads((VECTORS / "tokenizers/qwen3/tokenizer_config.json").read_text())
    config["chat_template"] = (VECTORS / "templates/qwen3.jinja").read_text()
    (directory / "tokenizer_config.json").write_text(json.dumps(config))
    (directory / "config.json").write_text(json.dumps({"vocab_size": 600, "max_position_embeddings": 262144}))


def written(file):
    """What a program that is just starting writes into a file."""
    while not (file.exists() and file.read_text()):
        time.sleep(0.05)
    return file.read_text()


@contextlib.contextmanager
def serving(work, *words, settings=""):
    """A server of this program below `work`, where its config, its store and its log are: its URL."""
    ready, config = work / "server-ready", work / "serve.toml"
    config.write_text(settings)
    serve = [PROGRAM, "serve", "--config", config, "--listen", "127.0.0.1:0", "--store", store_of(work), "--ready-file", ready]
    with (work / "log").open("a") as log:
        server = subprocess.Popen([*serve, *words], stdout=log, stderr=log)
    try:
        yield json.loads(written(ready))["url"]
    finally:
        server.terminate()
        server.wait()


@contextlib.contextmanager
def served(work, script, settings=""):
    """A server with the model of a script (see host.py), below `work`: its URL."""
    make_model(work / "model")
    ready = work / "host-ready"
    with (work / "log").open("a") as log:
        host = subprocess.Popen([sys.executable, TESTS / "host.py", work / "model", ready, script], stderr=log)
    try:
        with serving(work, "--model", f"tiny=vllm:{written(ready)},path={work}/model", settings=settings) as url:
            yield url
    finally:
        host.terminate()
        host.wait()


def start(url):
    """A rollout that nobody else plays, and the base URL of its attempt."""
    body = json.dumps({"input": {}}).encode()
    request = urllib.request.Request(f"{url}/v1/agl/rollouts", body, {"content-type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as reply:
        started = json.load(reply)
    rollout = started["rollout_id"]
    return rollout, f"{url}/rollout/{rollout}/attempt/{started['attempt']['attempt_id']}/v1"


def post(url, body, key="none", read=json.load):
    headers = {"content-type": "application/json", "authorization": f"Bearer {key}"}
    with urllib.request.urlopen(urllib.request.Request(url, json.dumps(body).encode(), headers), timeout=300) as reply:
        return read(reply)


def free_port():
    """For programs that take no port 0."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def verifiers_environment(work):
    """An environment as `vf-init my-env` makes it, with tasks and a reward filled in; where verifiers' commands are."""
    home = ROOT / "target/verifiers/bin"

    def run(*words):
        subprocess.run(words, check=True, capture_output=True, text=True)

    run(home / "vf-init", "my-env", "--path", work / "environments")
    (work / "environments/my_env/my_env/taskset.py").write_text(TASKSET)
    run(home / "python", "-m", "pip", "install", "--quiet", "--no-deps", "-e", work / "environments/my_env")
    return home


def store_of(work):
    return f"sqlite://{work}/store.db"


def recorded(work, rollout=None):
    """Every generation in the store, or a rollout's, the oldest first."""
    file = work / "generations.jsonl"
    words = [PROGRAM, "export", *([rollout] if rollout else []), "--what", "generations", "--to", file, "--store", store_of(work)]
    subprocess.run(words, check=True, capture_output=True)
    return [json.loads(line)["data"] for line in file.read_text().splitlines()]


def listed(work, what, rollout):
    """Rows of a rollout, by a command of the program."""
    command = [PROGRAM, what, rollout, "--all", "--json", "--store", store_of(work)]
    shown = subprocess.run(command, capture_output=True, text=True, check=True)
    return [json.loads(line) for line in shown.stdout.splitlines()]


def main_in_directory(main):
    """Runs `main` in a temporary directory, and shows its log where it fails."""
    with tempfile.TemporaryDirectory() as work:
        try:
            main(Path(work))
        except BaseException:
            print("".join(log.read_text()[-4000:] for log in Path(work).glob("**/log")), file=sys.stderr)
            raise
