#!/usr/bin/env python3
"""Draws docs/pictures/hello.svg of committed metrics: the reward of a run of hello, and one task's tokens before and after.

    python3 docs/pictures/hello.py                 # draws the picture
    python3 docs/pictures/hello.py --run RUN       # copies the metrics and the tokens of a run first; `fulgurite` on the PATH
"""

import argparse
import json
import math
import re
import subprocess
import sys
from html import escape
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
METRICS = ROOT / "examples/hello/curves/hello-seed-1.jsonl"
TOKENS = ROOT / "examples/hello/curves/hello-seed-1-tokens.jsonl"
PICTURE = ROOT / "docs/pictures/hello.svg"
HELD_OUT = "test/env/all/reward/total"
WIDTH, HEIGHT = 860, 296
# The curve's box: left, right, top, bottom.
LEFT, RIGHT, TOP, BOTTOM = 50, 380, 44, 256
STYLE = """
text { font: 13px ui-sans-serif, system-ui, sans-serif; fill: #1f2328 }
.small { font-size: 11px; fill: #59636e }
.title { font-weight: 600 }
.token { font-family: ui-monospace, monospace; font-size: 13px }
.logprob { font-size: 10px; fill: #59636e }
.grid { stroke: #d1d9e0 }
"""


def lines(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def ask(*words: str) -> str:
    return subprocess.run(["fulgurite", *words], check=True, stdout=subprocess.PIPE, text=True).stdout


def copy(run: str) -> None:
    """Take over a run's metrics without times, and one held-out task as the first and the last weights answer it."""
    steps = lines(Path(run) / "metrics.jsonl")
    kept = [{name: value for name, value in step.items() if not name.startswith("time/")} for step in steps]
    METRICS.write_text("".join(json.dumps(step) + "\n" for step in kept))
    steps = [step["step"] for step in lines(METRICS) if HELD_OUT in step]
    rows = []
    for step, reward in ((steps[0], -1), (steps[-1], 1)):
        where = f'mode = "val" and step = {step} and reward = {reward}'
        for line in ask("rollouts", "--run", run, "--where", where, "--all", "--json").splitlines():
            rollout = json.loads(line)
            if rollout["input"] == 1007:
                rows.append({"step": step, "task": 1007, "reward": reward, "tokens": tokens_of(rollout["rollout_id"], run)})
                break
    TOKENS.write_text("".join(json.dumps(row) + "\n" for row in rows))


def tokens_of(rollout: str, run: str) -> list:
    shown = ask("show", rollout, "--run", run, "--tokens")
    found = re.findall(r'^ +(\d+) +(-?[\d.]+)  (".*")$', shown, re.MULTILINE)
    return [[int(token), float(logprob), json.loads(text)] for token, logprob, text in found]


def curve() -> list[str]:
    steps = lines(METRICS)
    last = steps[-1]["step"]

    def place(step: int, reward: float) -> str:
        x = LEFT + (RIGHT - LEFT) * step / last
        return f"{x:.1f},{BOTTOM - (BOTTOM - TOP) * (reward + 1) / 2:.1f}"

    drawn = [f'<text class="title" x="{LEFT}" y="24">Reward over updates</text>']
    for reward in (-1, 0, 1):
        y = BOTTOM - (BOTTOM - TOP) * (reward + 1) / 2
        drawn.append(f'<line class="grid" x1="{LEFT}" y1="{y}" x2="{RIGHT}" y2="{y}"/>')
        drawn.append(f'<text class="small" x="{LEFT - 8}" y="{y + 4}" text-anchor="end">{reward:+d}</text>'.replace("+0", "0"))
    for step in range(0, last + 1, 10):
        x = place(step, 0).split(",")[0]
        drawn.append(f'<text class="small" x="{x}" y="{BOTTOM + 18}" text-anchor="middle">{step}</text>')
    for metric, colour, width in (("env/all/reward/total", "#9ec5f4", 1.5), (HELD_OUT, "#0969da", 2.5)):
        points = " ".join(place(step["step"], step[metric]) for step in steps if metric in step)
        drawn.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="{width}"/>')
    y = HEIGHT - 8
    drawn.append(f'<text class="small" x="{LEFT}" y="{y}"><tspan fill="#0969da">held-out tasks</tspan>, training in light</text>')
    return drawn


def colour(logprob: float) -> str:
    """White for a certain token, orange for a surprising one."""
    share = min(-logprob / 2, 1)
    return "#" + "".join(f"{round(a + (b - a) * share):02x}" for a, b in zip((232, 245, 233), (255, 167, 89)))


def tokens() -> list[str]:
    left = RIGHT + 44
    drawn = [f'<text class="title" x="{left}" y="24">The same task, token by token</text>']
    y = 44
    for row, when in zip(lines(TOKENS), ("before", "after")):
        caption = f"{when}, update {row['step']}: reward {row['reward']:+d}"
        drawn.append(f'<text class="small" x="{left}" y="{y + 10}">{caption}</text>')
        x, y = left, y + 20
        for _, logprob, text in row["tokens"]:
            shown = text.replace(" ", "·")
            width = max(8 * len(shown) + 10, 34)
            if x + width > WIDTH - 10:
                x, y = left, y + 46
            drawn.append(f'<rect x="{x}" y="{y}" width="{width}" height="24" rx="3" fill="{colour(logprob)}"/>')
            middle = x + width / 2
            drawn.append(f'<text class="token" x="{middle}" y="{y + 17}" text-anchor="middle">{escape(shown)}</text>')
            percent = f"{100 * math.exp(logprob):.0f} %"
            drawn.append(f'<text class="logprob" x="{middle}" y="{y + 36}" text-anchor="middle">{percent}</text>')
            x += width + 3
        y += 58
    greatest = max(step.get("optim/logprob_difference_max", 0.0) for step in lines(METRICS))
    words = f"probability as sampled; greatest difference of logprobs in training: {greatest:.1f}"
    drawn.append(f'<text class="small" x="{left}" y="{HEIGHT - 8}">{words}</text>')
    return drawn


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--run", metavar="RUN", help="copy the metrics and tokens of this run first")
    parser.add_argument("--check", action="store_true", help="only say whether the picture is what it would draw")
    options = parser.parse_args()
    if options.run:
        copy(options.run)
    size = f'width="{WIDTH}" height="{HEIGHT}" viewBox="0 0 {WIDTH} {HEIGHT}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-label="A reward that rises, and its tokens">'
    back = f'<rect width="{WIDTH}" height="{HEIGHT}" rx="6" fill="#ffffff"/>'
    text = "\n".join([head, f"<style>{STYLE}</style>", back, *curve(), *tokens(), "</svg>"]) + "\n"
    if not options.check:
        PICTURE.write_text(text)
    elif PICTURE.read_text() != text:
        sys.exit("error: docs/pictures/hello.svg is not what its metrics make\nhelp: docs/pictures/hello.py draws it")


main()
