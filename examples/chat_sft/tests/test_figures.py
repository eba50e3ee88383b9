"""The README's figures are those of the curves beside it."""

import sys
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parents[1]
sys.path.append(str(HERE.parent / "chat_sft"))

import eval_table


class Figures(unittest.TestCase):
    def test_the_table_of_held_out_questions_is_made_from_the_evaluations(self):
        self.assertIn(eval_table.table("chat_sft"), (HERE / "README.md").read_text(encoding="utf-8"))
