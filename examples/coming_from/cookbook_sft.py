"""What tinker.toml is in tinker-cookbook: its supervised loop, at a server of the Tinker API. Prints the loss of each update.

    fulgurite serve --listen 127.0.0.1:4748 --model hello=embedded:../hello/models/hello-1
    python3 cookbook_sft.py http://127.0.0.1:4748
"""

import asyncio
import json
import os
import sys
import tempfile
from pathlib import Path

os.environ |= {"TINKER_API_KEY": "tml-any", "TINKER_TELEMETRY": "0", "HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1"}
os.environ["TINKER_BASE_URL"] = sys.argv[1]

import chz
import datasets
from our_order import rows_in_order
from tinker_cookbook.renderers import get_renderer
from tinker_cookbook.supervised import train
from tinker_cookbook.supervised.data import SupervisedDatasetFromHFDataset, conversation_to_datum
from tinker_cookbook.supervised.types import SupervisedDatasetBuilder
from tinker_cookbook.tokenizer_utils import get_tokenizer

HERE = Path(__file__).resolve().parent
MODEL = str(HERE.parent / "hello/models/hello-1")
LOGS = Path(tempfile.mkdtemp(prefix="cookbook-"), "logs")


class InOurOrder(SupervisedDatasetFromHFDataset):
    """The cookbook's dataset, in which each epoch has the order that it has in a run of Fulgurite."""

    def set_epoch(self, seed=0):
        rows = rows_in_order(self.hf_dataset.to_list(), epochs=seed + 1)[-len(self.hf_dataset) :]
        self.shuffle_dataset = datasets.Dataset.from_list(rows)


@chz.chz
class Chats(SupervisedDatasetBuilder):
    def __call__(self):
        renderer = get_renderer("qwen3_instruct", get_tokenizer(MODEL))
        rows = [json.loads(line) for line in (HERE / "chats.jsonl").read_text().splitlines()]
        return InOurOrder(
            datasets.Dataset.from_list(rows),
            batch_size=16,
            map_fn=lambda row: conversation_to_datum(row["messages"], renderer, max_length=256),
        ), None


config = train.Config(
    log_path=str(LOGS),
    model_name=MODEL,
    recipe_name="coming_from",
    dataset_builder=Chats(),
    learning_rate=3e-4,
    lr_schedule="linear",
    num_epochs=2,
    lora_rank=0,
    base_url=sys.argv[1],
    eval_every=0,
    save_every=0,
)
asyncio.run(train.main(config))
for line in (LOGS / "metrics.jsonl").read_text().splitlines():
    metrics = json.loads(line)
    if "train_mean_nll" in metrics:
        kept = {"step": "step", "lr": "learning_rate", "loss": "train_mean_nll"}
        print(json.dumps({name: metrics[theirs] for name, theirs in kept.items()}))
