"""Prints how often each number was a game's first guess, before the first update of a run and at its end:

    python3 first_guess.py runs/tiny-1

It reads what the run has recorded (`fulgurite rewards`), of training games alone.
"""

import argparse
import json
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

WIDTH = 40


def command():
    """The built command, or the installed one."""
    built = Path(__file__).resolve().parents[2] / "target/debug/fulgurite"
    found = str(built) if built.exists() else shutil.which("fulgurite")
    return found or sys.exit(f"first_guess.py: there is no {built}, and no fulgurite on the PATH")


def first_guesses(run, steps):
    """How often each number was guessed first in the training games of these steps."""
    counted = Counter()
    for step in steps:
        words = ["rewards", "--run", run, "--mode", "train", "--step", str(step), "--all", "--json"]
        printed = subprocess.run([command(), *words], check=True, capture_output=True, text=True).stdout
        for line in printed.splitlines():
            components = dict(json.loads(line)["reward"]["components"])
            if "first_guess" in components:
                counted[int(components["first_guess"])] += 1
    return counted


def drawn(before, after):
    """A line for each number: a bar of its share before, and one after."""
    most = max(count / total(each) for each in (before, after) for count in each.values())
    lines = [f"{'':4}{'before':<{WIDTH + 8}}after"]
    for number in range(32):
        bars = []
        for each in (before, after):
            share = each[number] / total(each)
            bars.append(f"{share:5.2f} {'#' * round(WIDTH * share / most):<{WIDTH}}")
        lines.append(f"{number:2}  {'  '.join(bars).rstrip()}")
    from_middle = [sum(abs(n - 15.5) * c for n, c in each.items()) / total(each) for each in (before, after)]
    lines.append("mean distance from the middle: {:.1f} before, {:.1f} after".format(*from_middle))
    return "\n".join(lines)


def total(counted):
    return max(sum(counted.values()), 1)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("run", help="directory of a training run")
    parser.add_argument("--steps", type=int, default=3, help="updates at each end that are counted")
    options = parser.parse_args()
    with open(Path(options.run, "metrics.jsonl"), encoding="utf-8") as file:
        made = [json.loads(line)["step"] for line in file][-1]
    before = first_guesses(options.run, range(min(options.steps, made)))
    after = first_guesses(options.run, range(max(made - options.steps, 0), made))
    if not before or not after:
        sys.exit(f"first_guess.py: {options.run} has no recorded first guesses")
    print(drawn(before, after))


if __name__ == "__main__":
    main()
