"""Writes pairs.jsonl: of the right answers that were sampled for a question, the shortest against the longest.

    python3 examples/dpo_shorter/pairs.py [RUN] [--out examples/dpo_shorter/pairs.jsonl]

RUN is the directory of the evaluation of sample.toml; the only one in runs/ unless told otherwise. An answer that was
cut off is never the better one. The same evaluation gives the same bytes.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1] / "chat_sft"))

import facts

HERE = Path(__file__).resolve().parent


def command():
    """The command that a test names, the built one, or the installed one."""
    built = HERE.parents[1] / "target/release/fulgurite"
    found = os.environ.get("FULGURITE") or (str(built) if built.exists() else shutil.which("fulgurite"))
    return found or sys.exit(f"pairs.py: no {built}, and no fulgurite on the PATH: cargo build --release")


def answers_of(records):
    """What was answered to each question: text, tokens, and whether the model ended it, in the order of the rollouts."""
    found = {}
    for record in sorted(records, key=lambda record: record["data"]["rollout_id"]):
        said = record["data"]["span"]["attributes"]
        texts = [key for key in said if re.fullmatch(r"gen_ai\.prompt\.\d+\.content", key)]
        place = max(int(key.split(".")[2]) for key in texts)
        answer = {
            "text": said["gen_ai.completion.0.content"],
            "tokens": said["gen_ai.usage.output_tokens"],
            "ended": record["data"]["stop_reason"] == "stop",
        }
        found.setdefault(said[f"gen_ai.prompt.{place}.content"], []).append(answer)
    return found


def pairs(tasks, answers):
    """A comparison for each question that has two right answers of different lengths, the shorter of which was ended."""
    rows = []
    for task in tasks:
        right = [answer for answer in answers.get(task["question"], []) if facts.right(task, answer["text"])]
        whole = [answer for answer in right if answer["ended"]]
        if not whole:
            continue
        shortest = min(whole, key=lambda answer: answer["tokens"])
        longest = max(right, key=lambda answer: answer["tokens"])
        if shortest["tokens"] < longest["tokens"]:
            rows.append({"prompt": task["question"], "chosen": shortest["text"], "rejected": longest["text"]})
    return rows


def only_run():
    found = sorted(HERE.glob("runs/sample-*"))
    if len(found) != 1:
        sys.exit(f"pairs.py: {len(found)} evaluations of sample.toml in {HERE / 'runs'}: make one, or name one")
    return found[0]


def exported(run):
    with tempfile.TemporaryDirectory() as directory:
        to = Path(directory) / "generations.jsonl"
        subprocess.run([command(), "export", "--run", str(run), "--what", "generations", "--to", str(to)], check=True)
        return [json.loads(line) for line in to.read_text(encoding="utf-8").splitlines()]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("run", nargs="?", type=Path)
    parser.add_argument("--out", type=Path, default=HERE / "pairs.jsonl")
    arguments = parser.parse_args()
    tasks = [json.loads(line) for line in (HERE / "asked.jsonl").read_text(encoding="utf-8").splitlines()]
    rows = pairs(tasks, answers_of(exported(arguments.run or only_run())))
    arguments.out.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
    print(f"{len(rows)} comparisons in {arguments.out}")


if __name__ == "__main__":
    main()
