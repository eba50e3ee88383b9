r"""Draws the training reward of a sweep's runs against the seconds that they took, an SVG picture:

    python3 grid_picture.py runs/grid > curves/grid.svg
    python3 grid_picture.py runs/grid --rows > curves/grid.jsonl    # what each run came to, in numbers

A line for each run: its color tells the learning rate, thick is a group of 16, dashed the loss `ppo`, and a dot at its
end a LoRA rank of 16. Seconds are those of sampling and training, without evaluations.
"""

import argparse
import json
from pathlib import Path

import grid

WIDTH, HEIGHT, LEFT, TOP, BOTTOM = 760, 380, 52, 36, 40
COLORS = {1e-3: "#4477aa", 3e-3: "#228833", 1e-2: "#cc3311"}
METRIC = "env/all/reward/total"


def curve(lines):
    """Seconds after each update, and the mean reward of the last three updates."""
    points, seconds, rewards = [], 0.0, []
    for line in lines:
        row = json.loads(line)
        if METRIC not in row:
            continue
        seconds += row["time/sampling"] + row["time/training"]
        rewards.append(row[METRIC])
        last = rewards[-3:]
        points.append((seconds, sum(last) / len(last)))
    return points


def value(config, key):
    """What a config says for a key such as `models.0.lora_rank`."""
    for name in key.split("."):
        config = config[int(name)] if name.isdigit() else config[name]
    return config


def runs(sweep):
    """The keys and the metrics of each run of a sweep."""
    for metrics in sorted(Path(sweep).glob("*/metrics.jsonl")):
        config = json.loads(metrics.with_name("config.json").read_text(encoding="utf-8"))
        arm = {key: value(config, key) for key in grid.VALUES}
        yield arm, metrics.read_text(encoding="utf-8").splitlines()


def share(lines, metric):
    """A metric at each evaluation."""
    rows = map(json.loads, lines)
    return [row[metric] for row in rows if metric in row]


def row(arm, lines):
    """What a run came to: the share of held-out games that were won at each evaluation, and what it cost."""
    points = curve(lines)
    return {
        **arm,
        "updates": len(points),
        "won": share(lines, "test/env/all/won"),
        "final_won": share(lines, "final/env/all/won")[-1],
        "training_reward": round(points[-1][1], 4),
        "seconds": round(points[-1][0]),
        "sampled_tokens": round(sum(share(lines, "env/all/total_ac_tokens"))),
    }


def drawn(found):
    """The picture, from pairs of an arm's keys and its points."""
    found = [(arm, points) for arm, points in found if points]
    longest = max(points[-1][0] for _, points in found)
    across = (WIDTH - LEFT - 20) / longest
    down = HEIGHT - TOP - BOTTOM

    def place(point):
        return f"{LEFT + point[0] * across:.1f},{TOP + down * (1 - point[1]):.1f}"

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" '
        f'font-size="12"><rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>'
    ]
    for tenth in range(0, 11, 2):
        at = TOP + down * (1 - tenth / 10)
        parts.append(f'<path d="M{LEFT},{at:.1f}H{WIDTH - 20}" stroke="#dddddd"/>')
        parts.append(f'<text x="{LEFT - 8}" y="{at + 4:.1f}" text-anchor="end">{tenth / 10:.1f}</text>')
    for quarter in range(5):
        second = longest * quarter / 4
        middle = f'x="{LEFT + second * across:.1f}" y="{HEIGHT - BOTTOM + 16}" text-anchor="middle"'
        parts.append(f"<text {middle}>{second:.0f} s</text>")
    for index, (rate, color) in enumerate(COLORS.items()):
        parts.append(f'<text x="{LEFT + 130 * index}" y="20" fill="{color}">learning rate {rate:g}</text>')
    for arm, points in found:
        color = COLORS[arm["trainer.learning_rate"]]
        dash = ' stroke-dasharray="5 3"' if arm["trainer.loss"] == "ppo" else ""
        width = 2.5 if arm["trainer.group_size"] == 16 else 1.2
        path = " ".join(map(place, points))
        parts.append(f'<polyline points="{path}" fill="none" stroke="{color}" stroke-width="{width}"{dash}/>')
        if arm["models.0.lora_rank"] == 16:
            x, y = place(points[-1]).split(",")
            parts.append(f'<circle cx="{x}" cy="{y}" r="4" fill="{color}"/>')
    return "\n".join([*parts, "</svg>"])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("sweep", help="directory of the sweep")
    parser.add_argument("--rows", action="store_true", help="print a line of JSON for each run, the best first")
    options = parser.parse_args()
    # A run that is not over yet would be compared too soon.
    found = [(arm, lines) for arm, lines in runs(options.sweep) if share(lines, "final/env/all/won")]
    if options.rows:
        rows = [row(arm, lines) for arm, lines in found]
        print(*map(json.dumps, sorted(rows, key=lambda each: -each["won"][-1])), sep="\n")
    else:
        print(drawn((arm, curve(lines)) for arm, lines in found))


if __name__ == "__main__":
    main()
