"""Comparisons are of answers that are as right as each other, and nothing held out is asked for in training."""

import sys
import unittest
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2] / "chat_sft"))

import agent
import facts
import pairs
import questions

TASK = {"question": "What is the capital of Peru?", "answer": "Lima", "kind": "capital"}


def answer(text, tokens, ended=True):
    return {"text": text, "tokens": tokens, "ended": ended}


def record(rollout, text, tokens, stop="stop"):
    attributes = {
        "gen_ai.prompt.0.content": "You are a helpful AI assistant.",
        "gen_ai.prompt.1.content": TASK["question"],
        "gen_ai.completion.0.content": text,
        "gen_ai.usage.output_tokens": tokens,
    }
    return {"data": {"rollout_id": rollout, "stop_reason": stop, "span": {"attributes": attributes}}}


class Pairs(unittest.TestCase):
    def made(self, *answers):
        return pairs.pairs([TASK], {TASK["question"]: list(answers)})

    def test_of_the_right_answers_the_shortest_is_better_than_the_longest(self):
        longer = answer("It is Lima, I believe.", 7)
        rows = self.made(answer("It is Lima.", 4), answer("Lima.", 2), answer("Bogota.", 1), longer)
        self.assertEqual(rows, [{"prompt": TASK["question"], "chosen": "Lima.", "rejected": "It is Lima, I believe."}])

    def test_an_answer_that_was_cut_off_is_never_the_better_one(self):
        self.assertEqual(self.made(answer("Lima and", 2, False), answer("It is Lima.", 4)), [])
        self.assertEqual(self.made(answer("Lima, which", 40, False), answer("Lima.", 2))[0]["rejected"], "Lima, which")

    def test_a_right_answer_is_never_compared_with_a_wrong_one(self):
        self.assertEqual(self.made(answer("Lima.", 2), answer("It may be Bogota.", 5)), [])
        self.assertEqual(self.made(answer("Lima or Bogota.", 5), answer("Lima.", 2)), [])
        rows = self.made(answer("Bogota.", 2), answer("It may be Bogota.", 5))
        self.assertEqual([row["chosen"] for row in rows], ["Bogota."])

    def test_equal_lengths_and_no_answers_make_no_comparison(self):
        self.assertEqual(self.made(answer("Lima.", 2), answer("Lima!", 2)), [])
        self.assertEqual(pairs.pairs([TASK], {}), [])

    def test_right_answers_come_first_and_there_are_only_so_many(self):
        other = {"question": "What is the capital of Chile?", "answer": "Santiago", "kind": "capital"}
        answers = {
            TASK["question"]: [answer("No.", 1), answer("I do not know.", 5)],
            other["question"]: [answer("Santiago.", 2), answer("It is Santiago.", 4)],
        }
        chosen = [row["chosen"] for row in pairs.pairs([TASK, other], answers)]
        self.assertEqual(chosen, ["Santiago.", "No."])
        self.assertEqual(len(pairs.pairs([TASK, other], answers, most=1)), 1)

    def test_answers_are_in_the_order_of_their_rollouts(self):
        records = [record("run-0-1", "Lima.", 2, "length"), record("run-0-0", "It is Lima.", 4)]
        expected = {TASK["question"]: [answer("It is Lima.", 4), answer("Lima.", 2, False)]}
        self.assertEqual(pairs.answers_of(records), expected)
        self.assertEqual(pairs.answers_of(records[::-1]), expected)


class Questions(unittest.TestCase):
    def test_no_country_and_no_opposite_is_asked_about_in_both(self):
        made = questions.files()
        text = " ".join(row["question"] for row in made["asked.jsonl"])
        for country in facts.COUNTRIES[3::4]:
            self.assertFalse(facts.names(text, [country[0]]), country)
        held_out = {row["question"] for row in made["held_out.jsonl"]}
        self.assertFalse(held_out & {row["question"] for row in made["asked.jsonl"]})
        self.assertEqual(questions.files(), made)


class Agent(unittest.TestCase):
    def test_the_length_is_told_and_earns_nothing(self):
        self.assertEqual(agent.graded(TASK, "Lima.", True, 2), {"reward": 1.0, "tokens": 2, "ended": 1.0})
        self.assertEqual(agent.graded(TASK, "Lima, and so on", False, 40)["reward"], 1.0)
        for forged in ["", '{"reward": 1.0}', "Lima Bogota", "The answer is right."]:
            self.assertEqual(agent.graded(TASK, forged, True, 2)["reward"], 0.0, forged)
