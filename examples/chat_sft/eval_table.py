"""Makes the table of a README from what `fulgurite eval --json` printed: of this recipe, or of one that is named.

    python3 examples/chat_sft/eval_table.py [dpo_shorter | distill]
"""

import json
import sys
from pathlib import Path

EXAMPLES = Path(__file__).resolve().parents[1]

# What stands in a column: its head, the tag of the tasks ("" for all), and the component ("" for the reward).
COLUMNS = {
    "chat_sft": [
        ("keeps to the style: all 75", "", ""),
        ("43 of the same kinds", "same kinds", ""),
        ("32 of other kinds", "other kinds", ""),
        ("right", "", "right"),
        ("tokens", "", "tokens"),
    ],
    "dpo_shorter": [("tokens", "", "tokens"), ("ended by itself", "", "ended"), ("right", "", "")],
    "distill": [("obeys", "", ""), ("tokens", "", "tokens")],
}
AFTER = [(f"after, seed {seed}", f"ask-seed-{seed}") for seed in (1, 2, 3)]
ROWS = {
    "chat_sft": [("before", "ask-before"), *AFTER],
    "dpo_shorter": [("before", "ask-before"), *AFTER],
    "distill": [
        ("reads the prompt, without stage 1", "ask-untaught"),
        ("reads the prompt", "ask-told"),
        ("does not, before", "ask-before"),
        ("after 5 updates, seed 1", "ask-after-5"),
        *((f"after 20 updates, seed {seed}", f"ask-seed-{seed}") for seed in (1, 2, 3)),
        ("seed 1, 37 final questions", "final-seed-1"),
    ],
}


def cell(scores, tag, component):
    part = scores["tags"][tag] if tag else scores
    score = part["components"][component] if component else part["reward"]
    digits = 1 if component == "tokens" else 2
    return f"{score['value']:.{digits}f} ({score['low']:.{digits}f} to {score['high']:.{digits}f})"


def table(recipe):
    columns = COLUMNS[recipe]
    lines = ["| | " + " | ".join(head for head, _, _ in columns) + " |", "|---" * (len(columns) + 1) + "|"]
    for label, name in ROWS[recipe]:
        file = EXAMPLES / recipe / "curves" / f"{name}.json"
        if not file.exists():  # not evaluated yet
            continue
        scores = json.loads(file.read_text(encoding="utf-8"))
        lines.append("| " + " | ".join([label, *(cell(scores, tag, part) for _, tag, part in columns)]) + " |")
    return "\n".join(lines)


if __name__ == "__main__":
    print(table(sys.argv[1] if len(sys.argv) > 1 else "chat_sft"))
