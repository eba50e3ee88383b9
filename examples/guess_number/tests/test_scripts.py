"""What stands beside the game: the arms of the grid, and the drawing of first guesses."""

import collections
import itertools
import unittest

import first_guess
import grid


class Grid(unittest.TestCase):
    def test_twelve_arms_in_which_any_two_values_meet_equally_often(self):
        arms = list(grid.arms())
        self.assertEqual(len({tuple(arm.values()) for arm in arms}), 12)
        for one, other in itertools.combinations(grid.VALUES, 2):
            met = collections.Counter((arm[one], arm[other]) for arm in arms)
            self.assertEqual(len(met), len(grid.VALUES[one]) * len(grid.VALUES[other]))
            self.assertEqual(len(set(met.values())), 1, (one, other))


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
