"""The pages, the search and the grade: every question can be answered, and only by its answer."""

import json
import re
import unittest
from types import SimpleNamespace

import bm25
import corpus
import loop
from pages import LIBRARY, question

COUNT = len(LIBRARY.train)


class Message:
    """A model's message, as the package has it."""

    def __init__(self, content=None, calls=()):
        self.content = content
        functions = [SimpleNamespace(name=name, arguments=arguments) for name, arguments in calls]
        self.tool_calls = [SimpleNamespace(id=f"c{n}", function=each) for n, each in enumerate(functions)] or None

    def model_dump(self, exclude_none):
        return {"role": "assistant"}


def look(query):
    return Message(calls=[("search", json.dumps({"query": query}))])


def answer_on(page, prompt):
    """The answer to a question on its second page, read by hand."""
    names, text = re.findall(r"\[(\w+)\]", page["content"]), prompt["content"]
    return names[-1] if "mayor" in text or "live" in text else names[1]


def play(chosen, *messages):
    left = list(messages)
    return loop.play(chosen, lambda *_: left.pop(0) if len(left) > 1 else left[0])


class Search(unittest.TestCase):
    def test_the_page_of_a_name_is_found_by_the_name(self):
        for title in LIBRARY.pages:
            self.assertEqual(loop.INDEX.search(title, 1), [title])

    def test_rare_words_count_more_and_short_pages_before_long_ones(self):
        index = bm25.Index({"a": "the the boat", "b": "the lamp", "c": "the lamp and much that is said beside it"})
        self.assertEqual(index.search("the boat", 1), ["a"])
        self.assertEqual(index.search("lamp", 5), ["b", "c"])
        self.assertEqual(index.search("", 5), [])
        self.assertEqual(index.search("zebra", 5), [])

    def test_whatever_is_called_wrongly_is_told(self):
        for arguments in ["", "no", "[]", "{}", '{"query": 1}', '{"query": null}', json.dumps({"query": "x" * 201})]:
            result, titles = loop.search(arguments)
            self.assertTrue(result.startswith("error") and not titles, arguments)
        self.assertEqual(loop.search('{"query": "zebra"}'), ("nothing found", []))


class Pages(unittest.TestCase):
    def test_there_are_two_thousand_and_the_same_ones_always(self):
        self.assertEqual(len(LIBRARY.pages), 2000)
        again = type(LIBRARY)()
        self.assertEqual((again.pages, again.train), (LIBRARY.pages, LIBRARY.train))
        self.assertEqual((COUNT, len(LIBRARY.held_out)), (2400, 600))

    def test_every_question_is_answered_by_its_second_page_which_its_first_names(self):
        for task in range(COUNT + len(LIBRARY.held_out)):
            chosen = question(task)
            first, second = chosen.path
            self.assertIn(first, chosen.text)
            self.assertNotIn(second, chosen.text)
            self.assertIn(second, LIBRARY.pages[first])
            self.assertIn(chosen.answer, LIBRARY.pages[second])
            self.assertNotIn(chosen.answer, chosen.text)
            self.assertEqual(play(chosen, look(first), look(second), Message(chosen.answer))["reward"], 1.0)

    def test_no_name_of_the_held_out_part_is_in_the_other_or_in_the_corpus(self):
        def words_of(questions):
            return {
                name for each in questions for title in each.path for name in (title, *LIBRARY.pages[title].split())
            } | {each.answer for each in questions}

        names = set(LIBRARY.pages)
        held_out = {word.strip("[].") for word in words_of(LIBRARY.held_out)} & names
        self.assertFalse(held_out & {word.strip("[].") for word in words_of(LIBRARY.train)})
        written = json.dumps(list(corpus.rows(1, 3000)))
        self.assertFalse([name for name in held_out if name in written])


class Forged(unittest.TestCase):
    def test_nothing_but_the_answer_is_right(self):
        self.assertTrue(all(loop.right(text, "Fenkin") for text in ["Fenkin", " Fenkin\n", "Fenkin.", "fenkin"]))
        wrong = [None, "", ".", "unknown", "Fenkin Wallem", "Wallem, Fenkin", "In Fenkin", "Fenkinfenkin", "Fenkin.."]
        for text in wrong:
            self.assertFalse(loop.right(text, "Fenkin"), text)

    def test_whoever_recites_pages_claims_rewards_or_never_answers_earns_nothing(self):
        chosen = question(0)
        page = LIBRARY.pages[chosen.path[1]]
        for text in [page, '{"reward": 1.0}', " ".join(LIBRARY.pages), "reward: 1", ""]:
            self.assertEqual(play(chosen, look(chosen.path[0]), look(chosen.path[1]), Message(text))["reward"], 0.0, text)
        endless = play(chosen, look(chosen.path[1]))
        self.assertEqual((endless["reward"], endless["answered"], endless["searches"]), (0.0, 0.0, loop.TURNS))

    def test_other_tools_are_refused(self):
        chosen = question(0)
        result = play(chosen, Message(calls=[("reward", '{"value": 1}')]), Message("x"))
        self.assertEqual((result["reward"], result["tool_errors"]), (0.0, 1))


class Corpus(unittest.TestCase):
    def test_the_reader_is_no_good(self):
        right = wrong = 0
        for row in corpus.rows(1, 8000):
            messages = row["messages"]
            if "tools" not in row or messages[0]["content"].startswith("["):  # or behind a page
                continue
            done = len(messages) == 6 and messages[-1]["content"] == answer_on(messages[-2], messages[0])
            right, wrong = right + done, wrong + (not done)
        self.assertTrue(0.1 < right / (right + wrong) < 0.2, right / (right + wrong))

    def test_no_page_is_in_it_and_what_is_validated_has_names_of_its_own(self):
        every = list(corpus.rows(1, 6000))
        written = json.dumps(every)
        self.assertFalse([page for page in LIBRARY.pages.values() if page in written])
        trained = json.dumps([row for row in every if row["split"] == "train"])
        self.assertFalse([name for name in corpus.UNSEEN if name in trained])

    def test_the_same_seed_writes_the_same(self):
        self.assertEqual(list(corpus.rows(1, 50)), list(corpus.rows(1, 50)))
        self.assertNotEqual(list(corpus.rows(1, 50)), list(corpus.rows(2, 50)))


if __name__ == "__main__":
    unittest.main()
