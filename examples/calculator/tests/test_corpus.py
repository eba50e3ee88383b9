"""Tasks and corpus: what is held out is nowhere else."""

import json
import re
import unittest

import corpus
import declared
import sums

ROWS = list(corpus.rows(1, 5000))
EPISODES = [row for row in ROWS if "tools" in row]


def pair(task):
    return frozenset((task.a, task.b))


class Tasks(unittest.TestCase):
    def test_the_pairs_of_the_three_kinds_of_task_are_apart_in_either_order(self):
        ranges = [(0, 6000), (6000, 6200), (7000, 7200)]
        train, held_out, final = ({pair(sums.Task(number)) for number in range(*numbers)} for numbers in ranges)
        self.assertFalse(train & held_out or train & final or held_out & final)
        self.assertLessEqual(held_out | final, sums.UNSEEN)
        self.assertFalse(train & sums.UNSEEN)

    def test_a_task_is_always_the_same_and_its_question_says_it(self):
        for number in [0, 17, 5999, 6000, 7047]:
            task = sums.Task(number)
            self.assertEqual(task.question, sums.Task(number).question)
            exercise = f"{task.a} {sums.OPERATIONS[task.op]} {task.b}"
            self.assertIn(exercise, task.question)
            python = exercise.replace("plus", "+").replace("minus", "-").replace("times", "*")
            self.assertEqual(task.result, eval(python))


class Corpus(unittest.TestCase):
    def test_the_same_seed_writes_the_same(self):
        self.assertEqual(list(corpus.rows(1, 50)), list(corpus.rows(1, 50)))
        self.assertNotEqual(list(corpus.rows(1, 50)), list(corpus.rows(2, 50)))

    def test_no_row_has_both_numbers_of_a_pair_that_is_held_out(self):
        for row in ROWS:
            numbers = set(map(int, re.findall(r"\b[0-9]{2}\b", json.dumps(row["messages"]))))
            for unseen in sums.UNSEEN:
                self.assertFalse(unseen <= numbers, row)

    def test_most_calls_are_wrong_and_most_answers_do_not_say_the_result(self):
        whole = results = stated = 0
        for row in EPISODES:
            texts = [message["content"] for message in row["messages"][1:]]
            result = row["messages"][-2]["content"]
            if result.lstrip("-").isdigit():
                results += 1
                stated += texts[-1] == corpus.answer(result)
                whole += texts[-1] == corpus.answer(result) and self.is_right(texts)
        self.assertTrue(0.35 < stated / results < 0.45, stated / results)
        self.assertTrue(0.08 < whole / len(EPISODES) < 0.17, whole / len(EPISODES))

    def is_right(self, texts):
        """Whether an episode's call is the one that its question asks for."""
        a, word, b = re.search(r"(\d+) (\w+) (\d+)", texts[0]).groups()
        op = next(op for op, spoken in sums.OPERATIONS.items() if spoken == word)
        return texts[1] == corpus.call("calculator", int(a), op, int(b))

    def test_both_frameworks_declarations_are_in_it(self):
        tools = [row["tools"][0] for row in EPISODES]
        for declaration in [declared.LANGGRAPH, declared.OPENAI_AGENTS]:
            self.assertGreater(tools.count(declaration), len(tools) / 3)


if __name__ == "__main__":
    unittest.main()
