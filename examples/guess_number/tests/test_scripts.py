"""What stands beside the game: the arms of the grid and their picture, first guesses, and what games tell."""

import collections
import itertools
import json
import random
import re
import unittest
import xml.etree.ElementTree
from pathlib import Path

import credit
import first_guess
import grid
import grid_picture


class Grid(unittest.TestCase):
    def test_twelve_arms_in_which_any_two_values_meet_equally_often(self):
        arms = list(grid.arms())
        self.assertEqual(len({tuple(arm.values()) for arm in arms}), 12)
        for one, other in itertools.combinations(grid.VALUES, 2):
            met = collections.Counter((arm[one], arm[other]) for arm in arms)
            self.assertEqual(len(met), len(grid.VALUES[one]) * len(grid.VALUES[other]))
            self.assertEqual(len(set(met.values())), 1, (one, other))

    def test_the_picture_has_a_line_for_each_run(self):
        lines = [json.dumps({"step": 1, grid_picture.METRIC: 0.5, "time/sampling": 2.0, "time/training": 1.0})] * 4
        points = grid_picture.curve([*lines, json.dumps({"step": 4})])
        self.assertEqual(points, [(3.0, 0.5), (6.0, 0.5), (9.0, 0.5), (12.0, 0.5)])
        picture = xml.etree.ElementTree.fromstring(grid_picture.drawn((arm, points) for arm in grid.arms()))
        self.assertEqual(len(picture.findall("{*}polyline")), 12)
        self.assertEqual(len(picture.findall("{*}circle")), 6)

    def test_the_keys_of_an_arm_are_found_in_the_config_of_its_run(self):
        config = {"trainer": {"loss": "ppo"}, "models": [{"lora_rank": 4}]}
        self.assertEqual(grid_picture.value(config, "trainer.loss"), "ppo")
        self.assertEqual(grid_picture.value(config, "models.0.lora_rank"), 4)

    def test_a_row_has_what_a_run_came_to(self):
        played = {grid_picture.METRIC: 0.5, "time/sampling": 2.0, "time/training": 1.0, "env/all/total_ac_tokens": 7.0}
        steps = [{"step": 0, "test/env/all/won": 0.1, **played}, played, {"test/env/all/won": 0.4, "final/env/all/won": 0.2}]
        row = grid_picture.row({"trainer.loss": "ppo"}, [json.dumps(step) for step in steps])
        self.assertEqual(row.pop("won"), [0.1, 0.4])
        self.assertEqual(list(row.values()), ["ppo", 2, 0.2, 0.5, 6, 14])

    def test_the_table_of_the_readme_is_of_the_runs(self):
        here = Path(__file__).resolve().parents[1]
        table = (here / "README.md").read_text(encoding="utf-8").partition("## A grid")[2]
        found = [line for line in table.splitlines() if re.match(r"\| [0-9.e-]+ \| (8|16) \| ", line)]
        if not (here / "curves").exists():
            self.assertTrue(found)
            return
        wanted = []
        for line in (here / "curves/grid.jsonl").read_text(encoding="utf-8").splitlines():
            row = json.loads(line)
            won = " | ".join(f"{share:.3f}" for share in row["won"])
            arm = " | ".join(str(row[key]) for key in grid.VALUES)
            numbers = f"{row['final_won']:.3f} | {row['sampled_tokens']} | {row['seconds']}"
            wanted.append(f"| {arm} | {won} | {numbers} |")
        self.assertEqual(found, wanted)


class Credit(unittest.TestCase):
    def test_what_the_guesses_of_a_game_that_is_won_told_is_one_together(self):
        chance = random.Random(1)
        for number in range(32):
            guesses, won = credit.played(chance, number, 0.9)
            gain = sum(gain for _, _, gain in guesses)
            self.assertAlmostEqual(gain, 1.0) if won else self.assertLess(gain, 0.85)

    def test_advantages_are_against_the_mean_of_the_game_or_of_the_turn(self):
        games = [([(0, 0, 0.2), (0, 0, 0.8)], True), ([(0, 0, 0.4)], False)]
        of_games = credit.of_games(lambda guesses, won: float(won))
        self.assertEqual(of_games(games), [[0.5, 0.5], [-0.5]])
        (first, second), (other,) = credit.of_guesses(0.5)(games)
        self.assertAlmostEqual(first, 0.1)
        self.assertAlmostEqual(other, -0.1)
        self.assertEqual(second, 0.0)

    def test_single_guesses_tell_sooner_than_whole_games(self):
        needed = credit.measured(0.9, 300)
        for direction in (0, 1):
            of_a_game = needed["a game: 1 if it is won, else 0.25"][direction]
            self.assertLess(needed["a guess: what it told, and half of the next"][direction], of_a_game / 2)


class Drawing(unittest.TestCase):
    def test_shares_are_drawn_side_by_side_with_their_distance_from_the_middle(self):
        before = collections.Counter(range(32))
        after = collections.Counter({15: 3, 16: 1})
        lines = first_guess.drawn(before, after).splitlines()
        self.assertEqual(len(lines), 34)
        self.assertEqual(lines[1], f" 0   0.03 {'#' * 2:<40}   0.00")
        self.assertEqual(lines[16], f"15   0.03 {'#' * 2:<40}   0.75 {'#' * 40}")
        self.assertEqual(lines[-1], "mean distance from the middle: 8.0 before, 0.5 after")

    def test_a_side_without_guesses_is_drawn_empty(self):
        self.assertIn("0.0 after", first_guess.drawn(collections.Counter({3: 1}), collections.Counter()))


if __name__ == "__main__":
    unittest.main()
