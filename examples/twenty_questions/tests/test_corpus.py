"""The warm-up's games: no held-out noun is in them, and nobody could learn to win from them."""

import io
import json
import random
import re
import unittest
from contextlib import redirect_stdout
from unittest import mock

import corpus
from grammar import Guess, parse
from nouns import CATEGORIES, nouns, split

HELD_OUT = {name for category in CATEGORIES for noun in split(category)[1] for name in noun.names}


def written(seed, count):
    out = io.StringIO()
    with mock.patch("sys.argv", ["corpus.py", "--seed", str(seed), "--count", str(count)]), redirect_stdout(out):
        corpus.main()
    return [json.loads(line)["messages"] for line in out.getvalue().splitlines()]


class Corpus(unittest.TestCase):
    def test_no_held_out_noun_is_named(self):
        words = re.compile(r"\b(?:" + "|".join(sorted(HELD_OUT, key=len, reverse=True)) + r")\b", re.IGNORECASE)
        for messages in written(1, 1000):
            for message in messages:
                self.assertIsNone(words.search(message["content"]), message)

    def test_the_player_is_no_good(self):
        turns = won = guesses = 0
        for messages in written(1, 500):
            parsed = [parse(each["content"]) for each in messages[4:] if each["role"] == "assistant"]
            turns += len(parsed)
            guesses += sum(isinstance(each, Guess) for each in parsed)
            won += len(parsed) < corpus.TURNS
        self.assertTrue(0.15 < guesses / turns < 0.3, guesses / turns)
        self.assertLess(won / 500, 0.15)

    def test_what_opens_every_game_is_not_trained(self):
        for messages in written(2, 20):
            trained = [at for at, each in enumerate(messages) if each["trainable"]]
            self.assertEqual(trained, list(range(4, len(messages), 2)))
            self.assertTrue(all(messages[at]["role"] == "assistant" for at in trained))

    def test_the_same_seed_writes_the_same(self):
        self.assertEqual(written(1, 50), written(1, 50))
        self.assertNotEqual(written(1, 50), written(2, 50))

    def test_guesses_can_be_read(self):
        wordings = corpus.paraphrases()
        chance = random.Random(1)
        for category in CATEGORIES:
            texts = [corpus.question(chance, category, wordings) for _ in range(500)]
            guessed = {parse(each).noun for each in texts if isinstance(parse(each), Guess)}
            self.assertGreater(len(guessed), 25, category)
            self.assertFalse(guessed & {each for each in nouns() if each.lower() in HELD_OUT})


if __name__ == "__main__":
    unittest.main()
