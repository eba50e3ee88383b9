"""What READMEs say of runs on SmolLM2 is what their curves say."""

import json
import sys
import unittest
from pathlib import Path

EXAMPLES = Path(__file__).resolve().parents[1]
sys.path.append(str(EXAMPLES / "chat_sft"))
import eval_table


def readme(recipe):
    return (EXAMPLES / recipe / "README.md").read_text(encoding="utf-8")


class Figures(unittest.TestCase):
    def test_tables_are_those_of_the_evaluations(self):
        for recipe in ("chat_sft", "dpo_shorter", "distill"):
            self.assertIn(eval_table.table(recipe), readme(recipe))

    def test_the_rows_of_distillations_seeds_are_those_of_their_curves(self):
        text = readme("distill")
        curves = sorted((EXAMPLES / "distill/curves").glob("distill-seed-*.jsonl"))
        self.assertTrue(curves)
        for curve in curves:
            steps = [json.loads(line) for line in curve.read_text(encoding="utf-8").splitlines()]
            kl = [step["teacher_forward_kl"] for step in steps if "teacher_forward_kl" in step]
            share = {step["step"]: step.get("test/env/all/reward/total") for step in steps}
            shares = [f"{share[step]:.2f}" for step in (0, 5, 10, 15)]
            cells = [curve.stem[-1], f"{sum(kl[:3]) / 3:.2f}", f"{sum(kl[-3:]) / 3:.3f}", *shares]
            self.assertEqual(len(kl), 20)
            if final := steps[-1].get("final/env/all/reward/total"):
                self.assertIn(f"{final:.3f} (seed {curve.stem[-1]})", text)
            self.assertIn("| " + " | ".join(cells) + " |", text)


if __name__ == "__main__":
    unittest.main()
