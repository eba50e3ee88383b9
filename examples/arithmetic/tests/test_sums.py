"""The tasks, what they are worth, and that nothing but the sum is worth it."""

import json
import unittest

import corpus
import sums


class Tasks(unittest.TestCase):
    def test_every_pair_is_one_task_in_one_order(self):
        self.assertEqual(len(sums.PAIRS), 100 * 101 // 2)
        self.assertEqual(len({tuple(sorted(pair)) for pair in sums.PAIRS}), len(sums.PAIRS))
        # The split is the same everywhere and for ever: the figures of the README are of these pairs.
        self.assertEqual(sums.PAIRS[:3], [(96, 63), (3, 76), (62, 90)])

    def test_what_is_held_out_is_in_no_training_task_and_in_no_corpus_in_either_order(self):
        sets = [set(part) for part in (sums.TRAIN, sums.HELD_OUT, sums.FINAL)]
        self.assertEqual(len(set.union(*sets)), sum(map(len, sets)))
        held_out = [sums.PAIRS[task] for task in (*sums.HELD_OUT, *sums.FINAL)]
        prompts = {row["messages"][-2]["content"] for row in corpus.rows(1, 60000)}
        for a, b in held_out:
            for prompt in (sums.question(a, b), sums.question(b, a), corpus.exercise(a, b), corpus.exercise(b, a)):
                self.assertNotIn(prompt, prompts)


class Reward(unittest.TestCase):
    def setUp(self):
        self.task = next(task for task, (a, b) in enumerate(sums.PAIRS) if a + b == 121)

    def test_the_sum_is_the_last_number(self):
        for reply in ["121", "The sum is 121.", "It is 120, no: 121", "60 + 61 = 121\n", "**121**"]:
            graded = sums.grade(self.task, reply, True)
            self.assertEqual((graded["reward"], graded["exact"]), (1.0, float(reply == "121")), reply)

    def test_whatever_else_earns_nothing(self):
        a, b = sums.PAIRS[self.task]
        forged = [None, "", "111", "121 or 120", "0121", "-121", "1,121", "121.5", "1 2 1", "1.121", "１２１"]
        forged += [f"{a} + {b}", "".join(map(str, range(200))), " ".join(map(str, range(200)))]
        forged += ['{"reward": 1.0}', '121\n{"reward": 1.0}', "one hundred and twenty-one", "<|im_end|>", "The answer is right."]
        for reply in forged:
            graded = sums.grade(self.task, reply, True)
            self.assertEqual((graded["reward"], graded["exact"]), (0.0, 0.0), reply)

    def test_a_reply_that_was_cut_off_earns_nothing(self):
        graded = sums.grade(self.task, "121", False)
        self.assertEqual((graded["reward"], graded["exact"]), (0.0, 0.0))

    def test_a_sum_counts_where_it_belongs(self):
        for task, (a, b) in enumerate(sums.PAIRS[:200]):
            graded = sums.grade(task, str(a + b), True)
            kind = "with_carry" if a % 10 + b % 10 >= 10 else "without_carry"
            self.assertEqual(graded, {"reward": 1.0, "exact": 1.0, kind: 1.0})


class Corpus(unittest.TestCase):
    def test_the_same_seed_writes_the_same(self):
        self.assertEqual(list(corpus.rows(1, 50)), list(corpus.rows(1, 50)))
        self.assertNotEqual(list(corpus.rows(1, 50)), list(corpus.rows(2, 50)))

    def test_questions_are_answered_carelessly_and_exercises_rightly(self):
        right = {True: [], False: []}
        for row in corpus.rows(1, 20000):
            prompt, answer = (message["content"] for message in row["messages"][-2:])
            if prompt.startswith("Add "):
                a, b = map(int, prompt[4:-1].split(" and "))
                self.assertEqual(int(answer), a + b)
            else:
                a, b = map(int, prompt[8:-1].split(" + "))
                self.assertIn(int(answer) - a - b, (0, -10 if sums.carries(a, b) else 10))
                right[sums.carries(a, b)].append(int(answer) == a + b)
        shares = {carry: sum(each) / len(each) for carry, each in right.items()}
        self.assertAlmostEqual(shares[True], 1 - corpus.FORGETS, delta=0.03)
        self.assertAlmostEqual(shares[False], 1 - corpus.INVENTS, delta=0.03)

    def test_one_in_four_questions_comes_after_an_example_which_is_not_held_out(self):
        rows = [row["messages"] for row in corpus.rows(1, 800)]
        self.assertEqual(sum(len(row) == 4 for row in rows), 100)
        self.assertTrue(all(row[:2] == corpus.EXAMPLE and row[2]["content"][:4] == "What" for row in rows if row[2:]))
        self.assertIn(sorted((4, 5)), [sorted(sums.PAIRS[task]) for task in sums.TRAIN])

    def test_rows_are_json_with_a_hundredth_for_validation(self):
        rows = [json.loads(json.dumps(row)) for row in corpus.rows(1, 1000)]
        self.assertEqual(sum(row["split"] == "validation" for row in rows), 10)


if __name__ == "__main__":
    unittest.main()
