#!/usr/bin/env python3
"""Trains two recipes with tasks drawn evenly and by a curriculum, by three seeds each, and prints a table.

    cargo build
    python3 examples/modes/curriculum/curriculum.py                      # all of them
    python3 examples/modes/curriculum/curriculum.py arithmetic --seeds 1 # some
    python3 examples/modes/curriculum/curriculum.py --table              # of the runs that are there

Needs a Python with the package `openai`. Metrics of each run stay in examples/modes/curriculum/curves.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[2]
CURVES = HERE / "curves"
WAYS = ("uniform", "curriculum")
# Neither recipe stops early, so that both ways have as many updates. Tasks come several times each.
RECIPES = {
    "arithmetic": {
        "metric": "reward/total",
        "goal": 0.9,
        "set": ["tasks.train.range=[0,160]", "trainer.max_steps=40", "trainer.stop.held_out_reward=2.0"],
        "curriculum": "{ pass_rate = [0.1, 0.9], window = 2, outside = 0.1, replay = 0.25, replay_groups = 2 }",
    },
    "guess_number": {
        "metric": "won",
        "goal": 0.6,
        "set": ["tasks.train.range=[0,96]", "trainer.max_steps=40", "trainer.evaluation.every=5", "trainer.stop.held_out.won=2.0"],
        "curriculum": "{ pass_rate = [0.1, 0.9], window = 2, outside = 0.1, solved_at = 0.99, replay = 0.25, replay_groups = 2 }",
    },
}


def curve(recipe, way, seed):
    return CURVES / f"{recipe}-{way}-{seed}.jsonl"


def train(recipe, way, seed):
    """One run; its metrics are kept."""
    keys = RECIPES[recipe]["set"] + ([f"trainer.curriculum={RECIPES[recipe]['curriculum']}"] if way == "curriculum" else [])
    config = ROOT / f"examples/{recipe}/{recipe}.toml"
    with tempfile.TemporaryDirectory() as directory:
        run = pathlib.Path(directory) / "run"
        command = [ROOT / "target/debug/fulgurite", "train", config, "--seed", str(seed), "--run-directory", run, "--json"]
        command += [word for key in keys for word in ("--set", key)]
        done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        if done.returncode != 0:
            sys.exit(f"{recipe}, {way}, seed {seed}: {done.stderr}")
        CURVES.mkdir(exist_ok=True)
        curve(recipe, way, seed).write_text((run / "metrics.jsonl").read_text())


def told(recipe, way, seed):
    """The row of one run: updates and tokens until the goal, scores, and the share of groups that taught something."""
    file = curve(recipe, way, seed)
    if not file.exists():
        return None
    steps = [json.loads(line) for line in file.read_text().splitlines()]
    key = f"test/env/all/{RECIPES[recipe]['metric']}"
    scored = [step for step in steps if key in step]
    reached = next((step["step"] for step in scored if step[key] >= RECIPES[recipe]["goal"]), None)
    updates = [step for step in steps if "sampling/groups" in step]
    tokens = None if reached is None else sum(step["env/all/total_ac_tokens"] for step in updates if step["step"] < reached)
    groups = sum(step["sampling/groups"] for step in updates)
    taught = groups - sum(step["sampling/groups_without_signal"] for step in updates)
    mean = sum(step[key] for step in scored) / len(scored)
    until = ("never", "") if reached is None else (reached, tokens)
    return f"{until[0]} | {until[1]} | {mean:.3f} | {scored[-1][key]:.3f} | {taught / groups:.2f}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("recipes", nargs="*", choices=[[], *RECIPES], metavar="RECIPE", help=", ".join(RECIPES))
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--table", action="store_true", help="train nothing, print the table of what is there")
    arguments = parser.parse_args()
    recipes = arguments.recipes or list(RECIPES)
    if not arguments.table:
        for recipe, seed, way in [(recipe, seed, way) for recipe in recipes for seed in arguments.seeds for way in WAYS]:
            train(recipe, way, seed)
            print(f"{recipe}, {way}, seed {seed}: {told(recipe, way, seed)}", file=sys.stderr, flush=True)
    print("| recipe | goal | tasks | seed | updates to the goal | sampled tokens to it | mean score | last score | groups that taught |")
    print("|---|---|---|---|---|---|---|---|---|")
    for recipe, seed, way in [(recipe, seed, way) for recipe in recipes for seed in arguments.seeds for way in WAYS]:
        row = told(recipe, way, seed)
        if row is not None:
            goal = f"{RECIPES[recipe]['metric']} {RECIPES[recipe]['goal']}"
            print(f"| {recipe} | {goal} | {way} | {seed} | {row} |")


if __name__ == "__main__":
    main()
