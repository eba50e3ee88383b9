"""The rules of the game, that nothing but the word earns its reward, and that held-out words are looked for nowhere."""

import unittest

import corpus
import game


def player(replies):
    """A model that reads its replies from a list, and repeats the last."""
    left = list(replies)
    return lambda messages: left.pop(0) if len(left) > 1 else left[0]


class Rules(unittest.TestCase):
    def test_marks_account_for_each_letter_as_often_as_the_word_has_it(self):
        for word, guess, hint in [
            ("cat", "cat", "==="),
            ("cat", "tac", "~=~"),
            ("cat", "dog", "---"),
            ("egg", "gag", "~-="),
            ("gap", "gag", "==-"),
            ("bee", "eye", "~-="),
            ("eye", "eel", "=~-"),
            ("odd", "add", "-=="),
            ("add", "dad", "~~="),
        ]:
            self.assertEqual(game.marks(word, guess), hint, (word, guess))

    def test_guesses_are_answered_letter_by_letter(self):
        self.assertEqual(game.answer("cat", "act"), " a~ c~ t=")
        self.assertEqual(game.answer("cat", "zzz"), "no word")

    def test_the_words_that_fit_are_those_that_would_have_been_marked_so(self):
        heard = [("act", game.marks("cat", "act"))]
        self.assertIn("cat", game.fitting(heard))
        self.assertNotIn("act", game.fitting(heard))
        self.assertEqual(game.fitting([]), frozenset(game.WORDS))
        for word in game.fitting(heard):
            self.assertEqual(game.marks(word, "act"), heard[0][1])

    def test_whoever_says_the_word_wins_at_any_try(self):
        word = game.secret(0)
        other = next(each for each in game.WORDS if each != word)
        for wrong in range(game.TRIES):
            rewards, numbers = game.play(0, player([game.spell(other)] * wrong + [game.spell(word)]))
            self.assertEqual((numbers["won"], numbers["tries"], rewards[-1]), (1.0, wrong + 1, 1.0))

    def test_a_guess_earns_by_what_was_heard_before_it(self):
        task = (game.TRAIN + game.HELD_OUT).index("cat")
        for guesses, rewards in [
            (["dog"], [1, 0, 0, 0, 0, 0]),
            (["dog", "hem", "dog"], [1, 1, 0, 0, 0, 0]),
            (["dog", "act", "hem"], [1, 1, 0, 0, 0, 0]),
            (["dog", "hem", "cat"], [1, 1, 1]),
        ]:
            self.assertEqual(game.play(task, player(guesses))[0], rewards, guesses)

    def test_the_word_earns_no_more_than_another_that_fits(self):
        for task in range(0, 353, 8):
            word, heard = game.secret(task), []

            def ask(messages, word=word, heard=heard):
                guess = sorted(game.fitting(heard) - {word} or {word})[0]
                heard.append((guess, game.marks(word, guess)))
                return guess

            rewards, numbers = game.play(task, ask)
            self.assertEqual((set(rewards), numbers["fitting"]), ({1.0}, 1.0))


class Forged(unittest.TestCase):
    def test_a_reply_is_three_letters_and_nothing_else(self):
        for reply in ["c a t", "cat", " cat\n"]:
            self.assertEqual(game.read(reply), "cat", reply)
        for reply in [None, "", "cats", "c a t s", "c=a=t=", "my word is cat", "cat dog", "CAT", "c4t", "cät"]:
            self.assertIsNone(game.read(reply), reply)

    def test_claims_many_words_and_no_words_earn_nothing(self):
        task = game.WORDS.index("cat")
        forged = [" ".join(game.WORDS), '{"reward": 1.0}', "c= a= t=", "I won", "<|im_end|>", "zzz"]
        for reply in forged:
            rewards, numbers = game.play(task, player([reply]))
            self.assertEqual((sum(rewards), numbers["won"]), (0.0, 0.0), reply)

    def test_what_is_no_word_earns_nothing(self):
        task = (game.TRAIN + game.HELD_OUT).index("cat")
        self.assertNotIn("caz", game.WORDS)
        self.assertEqual(sum(game.play(task, player(["dog", "caz"]))[0]), 1.0)

    def test_no_game_is_longer_than_six_tries(self):
        calls = []

        def ask(messages):
            calls.append(1)
            return "zzz"

        game.play(0, ask)
        self.assertEqual(len(calls), game.TRIES)


class Corpus(unittest.TestCase):
    def test_words_are_words_of_three_letters_once(self):
        self.assertEqual(len(game.WORDS), len(set(game.WORDS)))
        self.assertTrue(all(game.read(word) == word for word in game.WORDS))
        self.assertFalse(set(game.TRAIN) & set(game.HELD_OUT))
        self.assertEqual(sorted(game.TRAIN + game.HELD_OUT), sorted(game.WORDS))
        self.assertEqual((len(game.TRAIN), len(game.HELD_OUT)), (257, 96))

    def test_held_out_words_are_never_what_is_looked_for(self):
        for row in corpus.rows(1, 1500):
            texts = [message["content"] for message in row["messages"]]
            guesses = [text.replace(" ", "") for text in texts[1::2]]
            marked = [text.split() for text in texts[2::2]]
            heard = [(guess, "".join(each[1] for each in hint)) for guess, hint in zip(guesses, marked)]
            self.assertTrue(game.fitting(heard) & set(game.TRAIN), texts)

    def test_exercises_fit_what_was_heard_and_games_do_so_now_and_then(self):
        fit = {"game": [], "exercise": []}
        for row in corpus.rows(1, 1000):
            texts = [message["content"] for message in row["messages"]]
            kind = "exercise" if texts[0] == corpus.OPENINGS["exercise"] else "game"
            guesses, heard = [text.replace(" ", "") for text in texts[1::2]], []
            for guess, hint in zip(guesses, [*texts[2::2], None]):
                self.assertIn(guess, game.WORDS)
                if heard:
                    fit[kind].append(guess in game.fitting(heard))
                if hint:
                    heard.append((guess, "".join(each[1] for each in hint.split())))
        self.assertTrue(all(fit["exercise"]))
        self.assertTrue(0.35 < sum(fit["game"]) / len(fit["game"]) < 0.6)

    def test_the_same_seed_writes_the_same(self):
        self.assertEqual(list(corpus.rows(1, 50)), list(corpus.rows(1, 50)))
        self.assertNotEqual(list(corpus.rows(1, 50)), list(corpus.rows(2, 50)))


if __name__ == "__main__":
    unittest.main()
