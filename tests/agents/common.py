"""What both checks need: a model's directory, and the programs."""

import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

TESTS = Path(__file__).resolve().parent
ROOT = TESTS.parent.parent
PROGRAM = Path(os.environ.get("FULGURITE_PROGRAM", ROOT / "target/release/fulgurite"))
VECTORS = ROOT / "renderers/tests/vectors"


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
def served(work, script, settings=""):
    """A server with the model of a script (see host.py), below `work`, where its store and its log are: its URL."""
    make_model(work / "model")
    host_ready, server_ready, config = work / "host-ready", work / "server-ready", work / "serve.toml"
    config.write_text(settings)
    with (work / "log").open("w") as log:
        started = [subprocess.Popen([sys.executable, TESTS / "host.py", work / "model", host_ready, script], stderr=log)]
        try:
            model = f"tiny=vllm:{written(host_ready)},path={work}/model"
            serve = [PROGRAM, "serve", "--config", config, "--listen", "127.0.0.1:0", "--store", store_of(work), "--model", model]
            started.append(subprocess.Popen([*serve, "--ready-file", server_ready], stdout=log, stderr=log))
            yield json.loads(written(server_ready))["url"]
        finally:
            for process in reversed(started):
                process.terminate()
                process.wait()


def store_of(work):
    return f"sqlite://{work}/store.db"


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
