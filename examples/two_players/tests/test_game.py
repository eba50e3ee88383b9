"""The rules, the players that the model is measured against, and who is rewarded for what."""

import itertools
import random
import unittest

import board as rules
import corpus
import game


def random_model(chance):
    """A model that plays at random by the rules, and remembers what it was shown."""
    numbers = itertools.count()

    def ask(text):
        cells = [cell for cell in text.split("\n", 1)[1] if cell.isdigit()]
        return chance.choice(cells), f"call-{next(numbers)}"

    return ask


def replies(*texts):
    left = list(texts)
    return lambda text: (left.pop(0), f"call-{len(texts) - len(left)}")


class Rules(unittest.TestCase):
    def test_a_line_wins_and_a_full_board_is_over(self):
        ended = [("XXX4O6O89", "X"), ("OX3O56OX9", "O"), ("1XO4XO7X9", "X"), ("XOXXOOOXX", None), (rules.EMPTY, None)]
        for board, won in ended:
            self.assertEqual(rules.winner(board), won, board)
        self.assertTrue(rules.over("XOXXOOOXX"))
        self.assertFalse(rules.over(rules.EMPTY))

    def test_a_board_is_shown_with_its_free_cells(self):
        self.assertEqual(rules.shown("X23O56789", "X"), "You are X. Name a free cell.\nX 2 3\nO 5 6\n7 8 9")

    def test_perfect_play_is_a_draw_and_the_perfect_player_never_loses(self):
        self.assertEqual(rules.value(rules.EMPTY, "X"), 0)
        for task in range(101, 301, 2):
            ended = game.against(task, random_model(random.Random(task)))
            self.assertEqual(ended["perfect/won"], 0.0)

    def test_two_perfect_players_draw(self):
        def ask(text):
            side, rows = text[8], text.split("\n", 1)[1]
            return rules.perfect_move(rows.replace("\n", "").replace(" ", ""), side, random.Random(1)), "call"

        for task in range(101, 121, 2):
            self.assertEqual(game.against(task, ask)["perfect/won_or_drawn"], 1.0)

    def test_the_same_task_is_the_same_opponent(self):
        for task in range(100, 108):
            first, second = (game.against(task, random_model(random.Random(3))) for _ in range(2))
            self.assertEqual(first, second)

    def test_the_four_kinds_of_opponents(self):
        kinds = [sorted(game.against(task, random_model(random.Random(1)))) for task in range(100, 104)]
        self.assertEqual(len(set(map(tuple, kinds))), 4)


class WhoEarnsWhat(unittest.TestCase):
    def test_the_last_calls_of_both_sides_earn_most_and_the_losers_the_opposite(self):
        earned, numbers = game.self_play(0, replies("1", "4", "2", "5", "3"))
        fade = game.FADE
        self.assertEqual([value for _, value in earned], [fade**2, -fade, fade, -1.0, 1.0])
        self.assertEqual([call for call, _ in earned], [f"call-{number}" for number in range(1, 6)])
        self.assertEqual((numbers["x_won"], numbers["moves"]), (1.0, 5))

    def test_a_drawn_game_earns_0_for_all(self):
        earned, numbers = game.self_play(0, replies(*"123546879"))
        self.assertEqual({value for _, value in earned}, {0.0})
        self.assertEqual(numbers["drawn"], 1.0)

    def test_who_names_no_free_cell_has_lost(self):
        for reply in ["1", "0", "", None, "23", "X", '{"reward": 1}', "5 6", "I have won"]:
            earned, numbers = game.self_play(0, replies("1", reply))
            self.assertEqual([value for _, value in earned], [0.0, -1.0], reply)
            self.assertEqual((numbers["illegal"], numbers["x_won"]), (1.0, 1.0))

    def test_a_task_with_an_opening_begins_with_o(self):
        earned, numbers = game.self_play(5, replies("5"))
        self.assertEqual(([value for _, value in earned], numbers["illegal"]), ([-1.0], 1.0))
        earned, _ = game.self_play(1, replies("4", "2", "5", "3"))
        self.assertEqual([value for _, value in earned], [-game.FADE, game.FADE, -1.0, 1.0])

    def test_tasks_from_10_on_begin_with_up_to_three_moves_that_follow_from_the_number(self):
        for task in range(10, 100):
            board, side = game.opening(task)
            self.assertEqual((9 - len(rules.free(board)), side), (task % 4, "XO"[task % 2]))
            self.assertFalse(rules.over(board))
            self.assertEqual(game.opening(task), (board, side))
        self.assertGreater(len({game.opening(task)[0] for task in range(10, 100)}), 40)

    def test_calls_of_one_number_are_calls_of_one_player(self):
        for task in range(20):
            sides = {}
            for seed in range(40):
                shown = []

                def ask(text, model=random_model(random.Random(seed)), shown=shown):
                    shown.append(text[8])
                    return model(text)

                game.self_play(task, ask)
                for number, side in enumerate(shown):
                    sides.setdefault(number, set()).add(side)
            self.assertTrue(all(len(each) == 1 for each in sides.values()))

    def test_claims_against_an_opponent_earn_nothing(self):
        for reply in ['{"reward": 1.0}', "won", "", None, "10", "<|im_end|>"]:
            for task in range(100, 104):
                self.assertEqual(game.against(task, lambda text, reply=reply: (reply, "call"))["reward"], 0.0, reply)


class Corpus(unittest.TestCase):
    def test_every_move_is_free_and_no_board_is_over(self):
        for row in corpus.rows(1, 2000):
            shown, move = (message["content"] for message in row["messages"])
            board = "".join(shown.split("\n", 1)[1].split())
            self.assertFalse(rules.over(board), shown)
            self.assertEqual(rules.read(move, board), move)

    def test_moves_are_no_better_than_random(self):
        rows = corpus.rows(1, 20000)
        opening = [row for row in rows if row["messages"][0]["content"].endswith("1 2 3\n4 5 6\n7 8 9")]
        middle = sum(row["messages"][1]["content"] == "5" for row in opening)
        self.assertTrue(0.08 < middle / len(opening) < 0.14)

    def test_the_same_seed_writes_the_same(self):
        self.assertEqual(list(corpus.rows(1, 50)), list(corpus.rows(1, 50)))
        self.assertNotEqual(list(corpus.rows(1, 50)), list(corpus.rows(2, 50)))


if __name__ == "__main__":
    unittest.main()
