"""Trains a config with Fulgurite and prints, at each scoring of the held-out tasks, a line of what it had cost by then:

    python3 baselines/measure.py arithmetic.toml --seed 1 --run-directory runs/arithmetic-1 > curves/cost-seed-1.jsonl

The processor's seconds are those of all processes: the server, the trainer and the agents, from their start, scoring
included. What the arguments say beside the config goes to `fulgurite train`. Linux alone (/proc).
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]


def command():
    """The built command, or the installed one."""
    built = ROOT / "target/debug/fulgurite"
    found = str(built) if built.exists() else shutil.which("fulgurite")
    return found or sys.exit(f"measure.py: there is no {built}, and no fulgurite on the PATH")


def processes():
    """Parent and seconds of every process; those of children that have ended are their parent's."""
    found = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue  # it has just ended
            found[int(entry.name)] = int(fields[1]), sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
    return found


def seconds_of(root, found):
    """Seconds of a process and all that it has started."""
    below = [pid for pid, (parent, _) in found.items() if parent == root]
    return found[root][1] + sum(seconds_of(pid, found) for pid in below) if root in found else 0.0


def main():
    arguments = [command(), "train", *sys.argv[1:], "--json", "--set", "engine.threads=1"]
    training = subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True)
    sampled = 0
    for line in training.stdout:
        metrics = json.loads(line)
        if "test/env/all/reward/total" in metrics:
            cost = {"step": metrics["step"], "sampled_tokens": sampled}
            cost["cpu_seconds"] = round(seconds_of(training.pid, processes()), 2)
            print(json.dumps(cost | {"held_out": metrics["test/env/all/reward/total"]}), flush=True)
        sampled += int(metrics.get("env/all/total_ac_tokens", 0))
    return training.wait()


if __name__ == "__main__":
    sys.exit(main())
