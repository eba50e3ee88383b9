"""How much a run's held-out score has grown, with a 95 % interval:

    python3 interval.py wordle/runs/wordle-1 won

compares the first scoring of the held-out tasks with the last, task by task, by 10,000 bootstrap resamples of the
tasks. The name is a component of the reward as it stands in metrics.jsonl behind `test/env/all/`, or `primary`.
"""

import argparse
import json
import random
import sqlite3
import statistics
from collections import defaultdict
from pathlib import Path

RESAMPLES = 10_000
QUERY = """SELECT rollout_id, rollouts.step, rollouts.input, spans.body FROM spans JOIN rollouts USING (rollout_id)
           WHERE rollouts.mode = 'val' AND spans.name = 'agentlightning.annotation'"""


def scores(run, name):
    """`{step: {task: mean of the component}}` of the run's scorings; tasks that do not have it are left out, and so is
    a scoring that was cut short."""
    store = sqlite3.connect(f"file:{Path(run) / 'fulgurite.db'}?mode=ro", uri=True)
    found, played = defaultdict(lambda: defaultdict(list)), defaultdict(set)
    for rollout, step, task, body in store.execute(QUERY):
        # Not the spans: a rollout whose calls are rewarded one by one has several.
        played[step].add(rollout)
        attributes = json.loads(body)["attributes"]
        for key, value in attributes.items():
            if key.startswith("agentlightning.reward.") and key.endswith(".name") and value == name:
                found[step][task].append(attributes[key.removesuffix("name") + "value"])
    whole = [step for step in found if len(played[step]) == max(map(len, played.values()))]
    return {step: {task: statistics.fmean(each) for task, each in found[step].items()} for step in whole}


def interval(differences):
    chance = random.Random(1)
    means = sorted(statistics.fmean(chance.choices(differences, k=len(differences))) for _ in range(RESAMPLES))
    return means[RESAMPLES // 40], means[-RESAMPLES // 40 - 1]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("run")
    parser.add_argument("name")
    options = parser.parse_args()
    by_step = scores(options.run, options.name)
    before, after = by_step[min(by_step)], by_step[max(by_step)]
    differences = [after[task] - before[task] for task in before if task in after]
    low, high = interval(differences)
    print(
        f"{options.name}: {statistics.fmean(before.values()):.3f} after {min(by_step)} updates, "
        f"{statistics.fmean(after.values()):.3f} after {max(by_step)}; {statistics.fmean(differences):+.3f} "
        f"({low:+.3f} .. {high:+.3f}, {len(differences)} tasks)"
    )


if __name__ == "__main__":
    main()
