"""The nouns and what is true of them: every fact is of use, and no two nouns are the same by their facts."""

import json
import unittest

from nouns import (
    CATEGORIES,
    HERE,
    holds,
    in_category,
    named,
    nouns,
    others,
    predicates,
    split,
)
from tasks import lines


class Facts(unittest.TestCase):
    def test_there_are_ten_categories_of_twenty(self):
        self.assertEqual(len(nouns()), 200)
        for category in CATEGORIES:
            self.assertEqual(len(in_category(category)), 20, category)

    def test_every_name_means_one_noun(self):
        names = [name for noun in nouns().values() for name in noun.names]
        self.assertEqual(len(names), len(set(names)))
        for noun in nouns().values():
            self.assertEqual(named(noun.name.lower()), noun.name)

    def test_the_other_nouns_are_none_of_the_200(self):
        every = [noun for category in CATEGORIES for noun in others()[category]]
        self.assertEqual(len(every), len(set(every)))
        self.assertFalse({each.lower() for each in every} & {name for noun in nouns().values() for name in noun.names})

    def test_every_fact_is_a_predicate_that_can_be_asked_of_its_noun(self):
        for noun in nouns().values():
            for predicate in noun.facts:
                self.assertIn(predicate, predicates(), noun.name)
                self.assertIs(holds(predicate, noun), True, f"{noun.name}: {predicate}")

    def test_every_two_nouns_differ_in_a_predicate_that_can_be_asked_of_both(self):
        every = list(nouns().values())
        for at, one in enumerate(every):
            for other in every[at + 1 :]:
                answers = ((holds(each, one), holds(each, other)) for each in predicates())
                self.assertTrue(any({True, False} == set(pair) for pair in answers), f"{one.name}, {other.name}")

    def test_every_predicate_is_true_of_some_and_false_of_others(self):
        for predicate, categories in predicates().items():
            self.assertTrue(categories <= set(CATEGORIES) and categories, predicate)
            answers = [holds(predicate, noun) for noun in nouns().values()]
            self.assertTrue(True in answers and (False in answers or None in answers), predicate)
            self.assertLess(answers.count(True), 0.9 * len(nouns()), predicate)

    def test_every_predicate_splits_a_category_or_tells_whole_ones_apart(self):
        for predicate in predicates():
            counts = {
                category: sum(holds(predicate, noun) is True for noun in in_category(category))
                for category in CATEGORIES
            }
            splits = any(0 < count < 20 for count in counts.values())
            self.assertTrue(splits or set(counts.values()) == {0, 20}, f"{predicate}: {counts}")

    def test_what_follows_from_another_fact_is_there_too(self):
        follows = {
            "mammal": "alive",
            "bird": "eggs",
            "four_legs": "legs",
            "two_wheels": "wheels",
            "many_wheels": "wheels",
            "person": "alive",
            "euro": "eu",
            "eu": "europe",
            "north_america": "americas",
            "south_america": "americas",
            "hospital": "medical",
            "stage": "art",
            "cut": "sharp",
            "sharp": "object",
            "brass": "blown",
            "plucked": "strings",
            "bow": "strings",
            "rails": "wheels",
            "sleep": "object",
        }
        apart = [
            ("mammal", "eggs"),
            ("meat", "plants"),
            ("fruit", "vegetable"),
            ("raw", "cooked"),
            ("big", "hand"),
            ("hot", "cold"),
            ("muscle", "engine"),
            ("wind", "engine"),
            ("winter", "summer"),
            ("indoors", "grass"),
            ("bow", "plucked"),
            ("blown", "strings"),
            ("english", "spanish"),
            ("two_wheels", "many_wheels"),
        ]
        for noun in nouns().values():
            for one, other in follows.items():
                self.assertFalse(one in noun.facts and other not in noun.facts, f"{noun.name}: {one} without {other}")
            for one, other in apart:
                self.assertFalse({one, other} <= noun.facts, f"{noun.name}: {one} and {other}")

    def test_a_fifth_of_each_category_is_held_out_and_the_task_files_say_so(self):
        for category in CATEGORIES:
            train, held_out = split(category)
            self.assertEqual((len(train), len(held_out)), (16, 4))
            self.assertFalse(set(train) & set(held_out))
        keys = ("noun", "category", "tag")
        for name, wanted in (("train", (*keys, "turns")), ("held_out", keys)):
            written = (HERE / f"{name}.jsonl").read_text()
            self.assertEqual(written, "".join(lines(name)))
            self.assertEqual({tuple(json.loads(line)) for line in written.splitlines()}, {wanted})


if __name__ == "__main__":
    unittest.main()
