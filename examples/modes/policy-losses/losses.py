#!/usr/bin/env python3
"""Trains examples/hello/hello-lora.toml once for each way of examples/modes/policy-losses and each seed, and prints a table.

    cargo build
    python3 examples/modes/policy-losses/losses.py                     # all of them, seeds 1 to 3
    python3 examples/modes/policy-losses/losses.py ppo dapo --seeds 1  # some

Metrics of each run stay in examples/modes/policy-losses/curves; the table is made of those that are there.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[2]
HELLO = ROOT / "examples/hello"
CURVES = HERE / "curves"
ENOUGH = 0.9

BATCH = "normalize_by_standard_deviation = true, standard_deviation_of = 'batch'"
DAPO = "loss = 'ppo'\nloss_parameters = { clip_high = 1.28 }\nloss_aggregation = 'token_mean'\nsubsteps = 2\n"
WAYS = {
    "importance_sampling": "",
    "ppo": "loss = 'ppo'\nsubsteps = 2\n",
    "cispo": "loss = 'cispo'\nsubsteps = 2\n",
    "gspo": "loss = 'gspo'\nsubsteps = 2\n",
    "dro": "loss = 'dro'\nloss_parameters = { beta = 0.05 }\n",
    "grpo": "loss = 'ppo'\nsubsteps = 2\nloss_aggregation = 'rollout_mean'\nadvantages = { normalize_by_standard_deviation = true }\n"
    "kl = { coefficient = 0.01, in = 'loss' }\n",
    "dapo": DAPO + "dynamic_sampling = { max_refills = 4 }\n",
    "dr_grpo": "loss_aggregation = 'rollout_sum'\n",
    "rloo": "advantages = { baseline = 'leave_one_out' }\n",
    "reinforce_plus_plus": f"advantages = {{ baseline = 'batch_mean', {BATCH} }}\n",
    "asynchronous": "loss = 'cispo'\nschedule = { async = { max_staleness = 2 } }\n",
    "minibatches": "schedule = { minibatches = 4 }\n",
}


def train(way, seed):
    """One run; its metrics are kept."""
    config = (HELLO / "hello-lora.toml").read_text()
    config = config.replace('path = "models/', f'path = "{HELLO}/models/').replace("[trainer]\n", "[trainer]\n" + WAYS[way], 1)
    with tempfile.TemporaryDirectory() as directory:
        file = pathlib.Path(directory) / f"{way}.toml"
        file.write_text(config)
        run = pathlib.Path(directory) / "run"
        command = [ROOT / "target/debug/fulgurite", "train", file, "--seed", str(seed), "--run-directory", run, "--json"]
        done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        if done.returncode != 0:
            sys.exit(f"{way}, seed {seed}: {done.stderr}")
        CURVES.mkdir(exist_ok=True)
        lines = (run / "metrics.jsonl").read_text()
        (CURVES / f"{way}-{seed}.jsonl").write_text(lines)


def updates(way, seed):
    """Updates until nine of ten held-out answers are exact, and the exact ones after the last update."""
    file = CURVES / f"{way}-{seed}.jsonl"
    if not file.exists():
        return None
    key = "test/env/all/exact"
    scored = [step for step in map(json.loads, file.read_text().splitlines()) if key in step]
    reached = [step["step"] for step in scored if step[key] >= ENOUGH]
    return (min(reached) if reached else None), scored[-1][key]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("ways", nargs="*", choices=[[], *WAYS], metavar="WAY", help=", ".join(WAYS))
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--table", action="store_true", help="train nothing, print the table of what is there")
    arguments = parser.parse_args()
    if not arguments.table:
        for way in arguments.ways or WAYS:
            for seed in arguments.seeds:
                train(way, seed)
                print(f"{way}, seed {seed}: {updates(way, seed)}", file=sys.stderr, flush=True)
    print("| | " + " | ".join(f"seed {seed}" for seed in arguments.seeds) + " |")
    print("|---" * (len(arguments.seeds) + 1) + "|")
    for way in WAYS:
        cells = []
        for seed in arguments.seeds:
            found = updates(way, seed)
            cells.append("-" if found is None else f"{'never' if found[0] is None else found[0]} ({found[1]:.2f})")
        print(f"| `{way}` | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
