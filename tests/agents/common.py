"""What both checks need: a model's directory, and the programs."""

import json
import os
import shutil
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
