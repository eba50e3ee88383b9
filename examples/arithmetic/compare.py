"""Draws the held-out reward of several trainings over what they cost, sampled tokens and seconds of a processor:

    python3 compare.py Fulgurite=curves/cost-seed-*.jsonl TRL=curves/trl-seed-*.jsonl > curves/compare.svg

Each file has a line for each scoring, as baselines/measure.py and baselines/trl_grpo.py print them. Files of one name
have one colour.
"""

import itertools
import json
import sys
from pathlib import Path
from xml.sax.saxutils import escape

COLOURS = ["#d1495b", "#30638e", "#5b8c5a", "#8d6a9f"]
COSTS = {"sampled_tokens": "sampled tokens", "cpu_seconds": "seconds of a processor"}
WIDTH, HEIGHT, MARGIN = 380, 220, 50


def named_files(arguments):
    """`NAME=FILE`, and further files of the same name behind it."""
    named, name = [], None
    for argument in arguments:
        before, equals, after = argument.partition("=")
        name, file = (before, after) if equals else (name, argument)
        if name is None:
            sys.exit(f"compare.py: {argument} has no name in front: NAME={argument}")
        named.append((name, file))
    return named


def read(file):
    with open(file, encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def ticks(most):
    """A few round numbers up to the greatest."""
    for digits, first in itertools.product(range(-2, 12), (1, 2, 5)):
        step = first * 10.0**digits
        if most / step <= 5:
            return [step * place for place in range(int(most / step) + 1)]
    raise ValueError(f"{most} is too much to draw")


def panel(curves, colours, cost, left, least):
    most = max(point[cost] for _, points in curves for point in points)

    def place(x, y):
        return left + MARGIN + WIDTH * x / (most or 1), 20 + HEIGHT * (1 - (y - least) / (1 - least))

    for value in (least + (1 - least) * part / 4 for part in range(5)):
        (x, y), (end, _) = place(0, value), place(most, value)
        yield f'<line x1="{x:.1f}" y1="{y:.1f}" x2="{end:.1f}" y2="{y:.1f}" stroke="#ddd"/>'
        yield f'<text x="{x - 6:.1f}" y="{y + 4:.1f}" text-anchor="end">{value:.2f}</text>'
    for value in ticks(most):
        x, y = place(value, least)
        yield f'<text x="{x:.1f}" y="{y + 16:.1f}" text-anchor="middle">{value:g}</text>'
    x, y = place(most / 2, least)
    yield f'<text x="{x:.1f}" y="{y + 34:.1f}" text-anchor="middle">{COSTS[cost]}</text>'
    for name, points in curves:
        along = " ".join("{:.1f},{:.1f}".format(*place(point[cost], point["held_out"])) for point in points)
        yield f'<polyline points="{along}" fill="none" stroke="{colours[name]}" stroke-width="1.6"/>'


def drawn(curves):
    """The picture of curves, each a name and its points."""
    names = list(dict.fromkeys(name for name, _ in curves))
    colours = dict(zip(names, itertools.cycle(COLOURS)))
    lowest = min(point["held_out"] for _, points in curves for point in points)
    least = -1.0 if lowest < 0 else 0.0
    across, down = 2 * (WIDTH + MARGIN + 20), HEIGHT + 90
    yield f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {across} {down}"'
    yield 'font-family="sans-serif" font-size="12">'
    yield '<rect width="100%" height="100%" fill="white"/>'
    for number, cost in enumerate(COSTS):
        yield from panel(curves, colours, cost, number * across / 2, least)
    for number, name in enumerate(names):
        x = MARGIN + 150 * number
        yield f'<rect x="{x}" y="{down - 20}" width="12" height="12" fill="{colours[name]}"/>'
        yield f'<text x="{x + 18}" y="{down - 10}">{escape(name)}</text>'
    yield "</svg>"


def main():
    files = named_files(sys.argv[1:])
    if not files:
        sys.exit(f"usage: {Path(sys.argv[0]).name} NAME=FILE...")
    print("\n".join(drawn([(name, read(file)) for name, file in files])))


if __name__ == "__main__":
    main()
