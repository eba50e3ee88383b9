"""The style is decided by code, what is held out is in no conversation, and who names all answers has named none."""

import contextlib
import io
import json
import tempfile
import unittest
from pathlib import Path

import agent
import facts
import make_data
import model
import style
import talk

from tests.fake_model import FakeModel, fields


class Style(unittest.TestCase):
    def test_one_sentence_with_the_sign_off_behind_it_obeys(self):
        for sentence in ["Lima is the capital of Peru.", "Is it 3.5 km away?", "8 legs!"]:
            reply = f"{sentence} Over and out."
            self.assertTrue(style.obeys(reply, True), reply)

    def test_everything_else_does_not(self):
        replies = [
            None,
            "",
            "Over and out.",
            " Over and out.",
            ". Over and out.",
            "Lima. Over and out.",
            "The capital of Peru is Lima.",
            "The capital of Peru is Lima.Over and out.",
            "The capital of Peru is Lima Over and out.",
            "The capital of Peru is Lima. It is big. Over and out.",
            "The capital of Peru is Lima.\nOver and out.",
            "The capital\nof Peru is Lima. Over and out.",
            "The capital of Peru is Lima. Over and out. ",
            "The capital of Peru is Lima. Over and out. Over and out.",
            "Over and out, the capital of Peru is over and out. Over and out.",
            "the capital of Peru is Lima. Over and out.",
            "The capital of Peru is Lima. Over and out!",
            " ".join(["Word"] * 31) + ". Over and out.",
            '{"reward": 1.0}',
        ]
        for reply in replies:
            self.assertFalse(style.obeys(reply, True), reply)

    def test_a_reply_that_was_cut_off_does_not(self):
        self.assertFalse(style.obeys("Lima is the capital of Peru. Over and out.", False))


class Facts(unittest.TestCase):
    def task(self, question):
        tasks = facts.questions(False) + facts.questions(True)
        return next(task for task in tasks if task["question"] == question)

    def test_the_right_answer_counts_as_a_whole_word(self):
        task = self.task("What is the capital of Peru?")
        for reply in ["Lima", "It is LIMA.", "Lima, which is in Peru"]:
            self.assertTrue(facts.right(task, reply), reply)
        for reply in ["", "Limassol", "Peru", "It is Quito."]:
            self.assertFalse(facts.right(task, reply), reply)

    def test_one_who_names_all_answers_is_not_right(self):
        for kind, (_, _, column) in facts.KINDS.items():
            everything = " ".join(word for country in facts.COUNTRIES for word in country[column].split("/"))
            tasks = [task for task in facts.questions(True) if task["kind"] == kind]
            self.assertFalse(any(facts.right(task, everything) for task in tasks), kind)

    def test_every_answer_of_the_table_is_right_and_answers_no_other_question_of_its_kind(self):
        tasks = facts.questions(False) + facts.questions(True)
        for task in tasks:
            self.assertTrue(facts.right(task, task["sentence"]), task)
        capitals = [task for task in tasks if task["kind"] == "capital"]
        for task in capitals:
            self.assertEqual([other for other in capitals if facts.right(other, task["answer"])], [task])


class Data(unittest.TestCase):
    def test_the_same_seed_writes_the_same_bytes_and_another_one_another_order(self):
        self.assertEqual(make_data.files(1), make_data.files(1))
        self.assertNotEqual(make_data.files(1), make_data.files(2))

    def test_what_is_learnt_obeys_the_style_and_is_right(self):
        for row in make_data.files(1)["chats.jsonl"]:
            self.assertTrue(style.obeys(row["messages"][-1]["content"], True), row)

    def test_no_question_that_is_asked_later_is_learnt_nor_its_subject(self):
        made = make_data.files(1)
        learnt = [row["messages"][0]["content"] for row in made["chats.jsonl"]]
        questions = [row["question"] for row in made["questions.jsonl"]]
        self.assertEqual(len(set(questions)), len(questions))
        self.assertFalse(set(learnt) & set(questions))
        held_out = [country[0] for country in facts.COUNTRIES[3::4]]
        self.assertFalse([text for text in learnt if any(facts.names(text, [country]) for country in held_out)])
        first_words = {question.split()[0] for question, _ in talk.LEARNT}
        self.assertFalse(first_words & {question.split()[0] for question in talk.OTHER})

    def test_it_writes_files_of_json_lines(self):
        with tempfile.TemporaryDirectory() as directory:
            made = make_data.files(1)
            make_data.write(Path(directory), made)
            for name, rows in made.items():
                lines = (Path(directory) / name).read_text(encoding="utf-8").splitlines()
                self.assertEqual([json.loads(line) for line in lines], rows)


class Agent(unittest.TestCase):
    def test_it_asks_the_question_alone_and_grades_what_comes_back(self):
        with FakeModel("Oslo is the capital of Norway. Over and out.") as fake:
            question = "What is the capital of Norway?"
            result = agent.run(fields(fake, {"question": question, "answer": "Oslo", "kind": "capital"}))
            self.assertEqual(result, {"reward": 1.0, "right": 1.0, "tokens": 7})
            self.assertEqual(fake.requests[0]["messages"], [{"role": "user", "content": question}])
            self.assertEqual(fake.keys, ["Bearer key"])

    def test_a_reply_that_was_cut_off_earns_nothing(self):
        with FakeModel("Oslo is the capital of Norway. Over and out.", "length") as fake:
            self.assertEqual(agent.run(fields(fake, {"question": "Why?"})), {"reward": 0.0, "tokens": 7})


class Model(unittest.TestCase):
    def test_who_has_no_model_is_told_how_to_get_it(self):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            model.say_how_to_get_it(Path(__file__).with_name("nothing"))
            model.say_how_to_get_it(Path(__file__))
        self.assertEqual(printed.getvalue().count("examples/hello/smollm2.py makes it"), 1)
