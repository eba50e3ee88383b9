"""The README's figures are those of the curves beside it."""

import json
import sys
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parents[1]
sys.path.append(str(HERE.parent / "chat_sft"))

import eval_table


class Figures(unittest.TestCase):
    def test_the_table_of_held_out_questions_is_made_from_the_evaluations(self):
        self.assertIn(eval_table.table("distill"), (HERE / "README.md").read_text(encoding="utf-8"))

    def test_the_rows_of_the_seeds_are_those_of_their_curves(self):
        curves = sorted(HERE.glob("curves/distill-seed-*.jsonl"))
        self.assertTrue(curves)
        for curve in curves:
            steps = [json.loads(line) for line in curve.read_text(encoding="utf-8").splitlines()]
            kl = [step["teacher_forward_kl"] for step in steps if "teacher_forward_kl" in step]
            share = {step["step"]: step.get("test/env/all/reward/total") for step in steps}
            shares = [f"{share[step]:.2f}" for step in (0, 5, 10, 15)]
            cells = [curve.stem[-1], f"{sum(kl[:3]) / 3:.2f}", f"{sum(kl[-3:]) / 3:.3f}", *shares]
            self.assertEqual(len(kl), 20)
            if final := steps[-1].get("final/env/all/reward/total"):
                self.assertIn(f"{final:.3f} (seed {curve.stem[-1]})", (HERE / "README.md").read_text(encoding="utf-8"))
            self.assertIn("| " + " | ".join(cells) + " |", (HERE / "README.md").read_text(encoding="utf-8"))
