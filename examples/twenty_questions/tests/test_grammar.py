"""What the grammar understands, and that it understands nothing else."""

import itertools
import unittest
from pathlib import Path

from grammar import LONGEST, Guess, Inquiry, asks, matching, parse
from nouns import nouns, predicates

HERE = Path(__file__).resolve().parent


def paraphrases():
    for line in (HERE.parent / "paraphrases.txt").read_text(encoding="utf-8").splitlines():
        predicate, _, questions = line.partition(": ")
        for question in questions.split(" | "):
            yield question, predicate


class Grammar(unittest.TestCase):
    def test_every_paraphrase_asks_its_predicate_and_no_other(self):
        seen = list(paraphrases())
        self.assertGreaterEqual(len({question for question, _ in seen}), 300)
        for question, predicate in seen:
            self.assertEqual(parse(question), Inquiry(predicate), question)
            self.assertEqual(matching(question.lower().rstrip("?")), [predicate], question)

    def test_every_predicate_is_asked_by_some_pattern_and_some_paraphrase(self):
        self.assertEqual(asks(), set(predicates()))
        self.assertEqual({predicate for _, predicate in paraphrases()}, set(predicates()))

    def test_gibberish_is_not_understood(self):
        lines = (HERE / "gibberish.txt").read_text(encoding="utf-8").splitlines()
        self.assertGreaterEqual(len(set(lines)), 100)
        for line in [*lines, "", " ", "\n", "Is it big?\nIs it red?", "Is it a dog?\x00", "Is it a\tdog?"]:
            self.assertIsNone(parse(line), repr(line))

    def test_two_paraphrases_at_once_are_not_understood(self):
        every = [question for question, _ in paraphrases()]
        for one, other in itertools.pairwise(every):
            for joined in (
                f"{one} {other}",
                f"{one[:-1]} or {other}",
                f"{one[:-1]} and {other}",
                f"Not {one}",
                f"{one} yes",
            ):
                self.assertIsNone(parse(joined), joined)

    def test_every_noun_can_be_guessed_by_each_of_its_names(self):
        for noun in nouns().values():
            for name in noun.names:
                for form in ("is it a {}?", "Is it the {}?", "{}", "I guess it is a {}.", "Could it be a {}?"):
                    self.assertEqual(parse(form.format(name)), Guess(noun.name), form.format(name))

    def test_a_noun_that_is_a_property_too_is_guessed_with_an_article(self):
        self.assertEqual(parse("Is it an orange?"), Guess("orange"))
        self.assertEqual(parse("Is it orange?"), Inquiry("orange"))
        self.assertEqual(parse("Orange?"), Guess("orange"))
        self.assertEqual(parse("Is it France?"), Guess("France"))
        self.assertEqual(parse("Is it running?"), Guess("running"))

    def test_what_is_too_long_is_not_read(self):
        self.assertEqual(parse("Is it a dog?" + " " * LONGEST), Guess("dog"))
        self.assertIsNone(parse("Is it a " + "very " * LONGEST + "dog?"))


if __name__ == "__main__":
    unittest.main()
