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

    def test_the_divergence_is_that_of_the_curve(self):
        lines = (HERE / "curves/distill-seed-1.jsonl").read_text(encoding="utf-8").splitlines()
        kl = [step["teacher_forward_kl"] for step in map(json.loads, lines) if "teacher_forward_kl" in step]
        row = "| teacher_forward_kl | " + " | ".join(f"{value:.2f}" for value in kl) + " |"
        self.assertIn(row, (HERE / "README.md").read_text(encoding="utf-8"))
