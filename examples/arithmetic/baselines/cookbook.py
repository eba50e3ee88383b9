"""tinker-cookbook's own arithmetic recipe, as it is, with the same model at `fulgurite serve` as its Tinker service:

    python3 -m venv ../../target/cookbook && ../../target/cookbook/bin/pip install 'tinker-cookbook[math-rl]==0.5.8' torch
    ../../target/debug/fulgurite serve --listen 127.0.0.1:4748 --model adder=embedded:models/adder
    ../../target/cookbook/bin/python baselines/cookbook.py http://127.0.0.1:4748 models/adder > curves/cookbook.jsonl

Environment, reward and training loop are the cookbook's: sums of two numbers from 0 to 100 behind one example, all of
them trained on and none held out. Prints a line for each update.
"""

import argparse
import asyncio
import json
import os
from pathlib import Path

TINKER = {"TINKER_API_KEY": "tml-any", "TINKER_TELEMETRY": "0", "HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1"}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("url", help="of the server")
    parser.add_argument("model", help="directory of the model that it serves")
    parser.add_argument("--max-steps", type=int, default=20)
    parser.add_argument("--learning-rate", type=float, default=1e-3)
    parser.add_argument("--directory", default="runs/cookbook", help="where the cookbook writes its logs")
    options = parser.parse_args()
    os.environ.update(TINKER, TINKER_BASE_URL=options.url)
    from tinker_cookbook.recipes.math_rl import train

    config = train.CLIConfig(
        model_name=str(Path(options.model).resolve()),
        renderer_name="qwen3_instruct",
        env="arithmetic",
        groups_per_batch=16,
        group_size=8,
        max_tokens=16,
        learning_rate=options.learning_rate,
        lora_rank=0,
        eval_every=0,
        save_every=0,
        max_steps=options.max_steps,
        loss_fn="importance_sampling",
        log_path=options.directory,
        base_url=options.url,
        behavior_if_log_dir_exists="delete",
    )
    asyncio.run(train.cli_main(config))
    kept = ["progress/batch", "env/all/reward/total", "env/all/correct", "env/all/total_ac_tokens", "time/total"]
    for line in Path(options.directory, "metrics.jsonl").read_text(encoding="utf-8").splitlines():
        metrics = json.loads(line)
        if "env/all/reward/total" in metrics:
            print(json.dumps({key: metrics[key] for key in kept if key in metrics}))


if __name__ == "__main__":
    main()
