"""What the scripts for TRL have in common: the model, rows in the order of our run, and losses as lines of JSON."""

import json
import os
import tempfile
from pathlib import Path

os.environ |= {"HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false", "CUDA_VISIBLE_DEVICES": ""}

import datasets
import torch
import transformers
from our_order import rows_in_order

torch.set_num_threads(1)
datasets.disable_progress_bars()
transformers.utils.logging.disable_progress_bar()
HERE = Path(__file__).resolve().parent
MODEL = str(HERE.parent / "hello/models/hello-1")
DIRECTORY = tempfile.mkdtemp(prefix="trl-")


def tokenizer(ends_with_newline=False):
    """The model's tokenizer, with a template that writes no newline behind an answer: Fulgurite trains no token that the model
    would never sample, and TRL trains all that the template writes behind the prompt."""
    found = transformers.AutoTokenizer.from_pretrained(MODEL)
    if not ends_with_newline:
        newline, end = r"'<|im_end|>\n' }}", r"'<|im_end|>' + ('' if loop.last and message.role == 'assistant' else '\n') }}"
        assert newline in found.chat_template
        found.chat_template = found.chat_template.replace(newline, end)
    return found


def read(file, epochs):
    """The rows of a file, so often and in that order in which a run of Fulgurite with seed 1 reads them."""
    rows = [json.loads(line) for line in (HERE / file).read_text().splitlines()]
    return datasets.Dataset.from_list(rows_in_order(rows, epochs))


class Printed(transformers.TrainerCallback):
    """Prints some of what is logged of each update."""

    def __init__(self, *names):
        self.names = names

    def on_log(self, _, state, control, logs=None, **__):
        if "loss" in logs:
            kept = {"step": state.global_step - 1, "lr": logs["learning_rate"]}
            print(json.dumps(kept | {name: logs[name] for name in self.names}), flush=True)
