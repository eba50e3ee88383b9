"""Draws curves/*.svg of the committed metrics, and holds each trainer's losses against ours.

    python3 compare.py [--check]       # --check: only says whether the pictures are what the metrics make

Fails where a curve that reads the same rows in the same order and trains the same tokens is further from ours than TOLERANCE.
"""

import json
import sys
from html import escape
from pathlib import Path

CURVES = Path(__file__).resolve().parent / "curves"
TOLERANCE = 1e-4
OURS, THEIRS, OTHER = "#0969da", "#f4b183", "#8d6a9f"
# Of each picture its title and its curves: a name, a file, how it is drawn, and whether it is to equal the first.
PICTURES = {
    "sft": (
        "SFT: mean negative logprob of trained tokens",
        [
            ("Fulgurite", "sft.jsonl", OURS, True),
            ("TRL 1.16", "sft-trl.jsonl", THEIRS, True),
            ("TRL 1.16, training the template's last newline too", "sft-trl-newline.jsonl", OTHER, False),
        ],
    ),
    "dpo": ("DPO: loss", [("Fulgurite", "dpo.jsonl", OURS, True), ("TRL 1.16", "dpo-trl.jsonl", THEIRS, True)]),
    "tinker": (
        "SFT: mean negative logprob",
        [("Fulgurite's config", "tinker.jsonl", OURS, True), ("tinker-cookbook 0.6", "tinker-cookbook.jsonl", THEIRS, True)],
    ),
}
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 560, 300, 52, 540, 40, 236


def losses(file):
    return [json.loads(line)["loss"] for line in (CURVES / file).read_text().splitlines()]


def drawn(title, curves):
    values = [losses(file) for _, file, _, _ in curves]
    most, last = max(map(max, values)), max(map(len, values)) - 1

    def place(step, loss):
        return f"{LEFT + (RIGHT - LEFT) * step / last:.1f},{BOTTOM - (BOTTOM - TOP) * loss / most:.1f}"

    yield f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" viewBox="0 0 {WIDTH} {HEIGHT}" role="img"'
    yield f'aria-label="{escape(title)}" font-family="system-ui, sans-serif" font-size="12" fill="#1f2328">'
    yield '<rect width="100%" height="100%" fill="#ffffff"/>'
    yield f'<text x="{LEFT}" y="24" font-weight="600">{escape(title)}</text>'
    for part in range(5):
        y = BOTTOM - (BOTTOM - TOP) * part / 4
        yield f'<line x1="{LEFT}" y1="{y:.1f}" x2="{RIGHT}" y2="{y:.1f}" stroke="#d1d9e0"/>'
        yield f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end" fill="#59636e">{most * part / 4:.2f}</text>'
    for step in range(0, last + 1, 5):
        x = place(step, 0).split(",")[0]
        yield f'<text x="{x}" y="{BOTTOM + 18}" text-anchor="middle" fill="#59636e">{step}</text>'
    # Ours stands last and thin: where another equals it, both can be seen.
    for (_, _, colour, _), curve in reversed(list(zip(curves, values))):
        points = " ".join(place(*point) for point in enumerate(curve))
        width = 1.5 if colour == OURS else 6 if colour == THEIRS else 2
        yield f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="{width}"/>'
    x = LEFT
    for name, _, colour, _ in curves:
        yield f'<rect x="{x}" y="{HEIGHT - 26}" width="12" height="4" fill="{colour}"/>'
        yield f'<text x="{x + 18}" y="{HEIGHT - 18}">{escape(name)}</text>'
        x += 34 + 6 * len(name)
    yield "</svg>"


def main():
    wrong = []
    for name, (title, curves) in PICTURES.items():
        picture, text = CURVES / f"{name}.svg", "\n".join(drawn(title, curves)) + "\n"
        if "--check" not in sys.argv:
            picture.write_text(text)
        elif picture.read_text() != text:
            wrong.append(f"{picture.name} is not what its metrics make\nhelp: examples/coming_from/compare.py draws it")
        ours = losses(curves[0][1])
        for other, file, _, is_equal in curves[1:]:
            apart = max(abs(a - b) for a, b in zip(ours, losses(file), strict=True))
            print(f"{name}: {other}: first {losses(file)[0]:.6f}, last {losses(file)[-1]:.6f}; at most {apart:.1e} from ours")
            if is_equal and apart > TOLERANCE:
                wrong.append(f"{file} is {apart} from ours")
    if wrong:
        sys.exit("error: " + "\n".join(wrong))


main()
