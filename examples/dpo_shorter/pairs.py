"""Writes pairs.jsonl: of the answers that were sampled for a question, a short one against a long one that is as right.

    python3 examples/dpo_shorter/pairs.py [RUN] [--out examples/dpo_shorter/pairs.jsonl]

Right answers are compared with right ones and wrong answers with wrong ones: nothing is said about what is true.
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
MOST = 96  # comparisons


def command():
    """The command that a test names, the built one, or the installed one."""
    built = HERE.parents[1] / "target/debug/fulgurite"
    named = os.environ.get("FULGURITE")
    found = named or (str(built) if built.exists() else shutil.which("fulgurite"))
    return found or sys.exit(f"pairs.py: no {built}, and no fulgurite on the PATH: cargo build")


def answers_of(records):
    """What was answered to each question: text, tokens, and whether the model ended it; in the order of rollouts."""
    found = {}
    for record in sorted(records, key=lambda record: record["data"]["rollout_id"]):
        attributes = record["data"]["span"]["attributes"]
        texts = [key for key in attributes if re.fullmatch(r"gen_ai\.prompt\.\d+\.content", key)]
        place = max(int(key.split(".")[2]) for key in texts)
        answer = {
            "text": attributes["gen_ai.completion.0.content"],
            "tokens": attributes["gen_ai.usage.output_tokens"],
            "ended": record["data"]["stop_reason"] == "stop",
        }
        found.setdefault(attributes[f"gen_ai.prompt.{place}.content"], []).append(answer)
    return found


def shorter_and_longer(answers):
    """The shortest answer that the model ended, and the longest of all, if that is longer."""
    whole = [answer for answer in answers if answer["ended"]]
    if not whole:
        return None
    shortest = min(whole, key=lambda answer: answer["tokens"])
    longest = max(answers, key=lambda answer: answer["tokens"])
    return (shortest, longest) if shortest["tokens"] < longest["tokens"] else None


def pairs(tasks, answers, most=MOST):
    """Comparisons of right answers, and then, until there are enough, of wrong ones."""
    rows = []
    for wanted in (True, False):
        for task in tasks:
            given = answers.get(task["question"], [])
            found = shorter_and_longer([answer for answer in given if facts.right(task, answer["text"]) is wanted])
            if found and len(rows) < most:
                rows.append({"prompt": task["question"], "chosen": found[0]["text"], "rejected": found[1]["text"]})
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
